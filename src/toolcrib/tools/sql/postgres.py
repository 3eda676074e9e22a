"""Statements on a PostgreSQL database, each on a connection of its own.

A connection that is used once carries nothing from one caller to the next: no setting, no
temporary table, no lock.
"""

from __future__ import annotations

import asyncio
import importlib
import re
from collections.abc import Coroutine, Sequence
from typing import Any

from toolcrib.core.units import duration
from toolcrib.errors import Denial, ToolcribError, ToolFailure
from toolcrib.tools.sql.metered import Metered
from toolcrib.tools.sql.policy import SqlPolicy
from toolcrib.tools.sql.postgres_locks import check_locks
from toolcrib.tools.sql.postgres_plan import PLANNED, check_plan, check_text, read_plan
from toolcrib.tools.sql.statement import READING, explained, first_word
from toolcrib.tools.sql.values import Rows

asyncpg: Any = importlib.import_module("asyncpg")  # a library without types

_BATCH = 20
_GOODBYE = 2.0
_SPARE = 4 << 20
_COUNT = re.compile(r"(\d+)$")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ERRORS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    ValueError,
)


async def run_postgres(
    policy: SqlPolicy, statement: str, parameters: Sequence[Any], max_rows: int
) -> dict[str, Any]:
    """Run one statement; cancelling, or the end of its time, undoes it."""
    seconds = duration(policy.timeout)
    connection: Any = None
    meter: Metered | None = None
    try:
        async with asyncio.timeout(seconds):
            connection = await _connect(policy, seconds)
            meter = _meter(connection, 4 * policy.max_chars + _SPARE)
            if policy.has_table_rules:
                # The client looks unknown types up. Done before, that leaves no locks behind.
                await connection.prepare(statement)
            transaction = connection.transaction(readonly=policy.read_only)
            await transaction.start()
            result = await _run(connection, policy, statement, parameters, max_rows)
        if not policy.read_only:
            await _commit(transaction)
        return result
    except TimeoutError:
        raise _timeout() from None
    except ToolcribError:
        raise
    except _ERRORS as error:
        if meter is not None and meter.over:
            text = f"the rows are far over {policy.max_chars} characters: select less"
            raise ToolFailure(text, reason="output_too_large") from None
        raise _failure(error, policy.has_table_rules) from None
    finally:
        if connection is not None and await _whole(connection.close(timeout=_GOODBYE)):
            connection.terminate()


async def _connect(policy: SqlPolicy, seconds: float) -> Any:
    patience = str(max(1, round(seconds * 1000)))
    try:
        return await asyncpg.connect(
            policy.database,
            timeout=2 * seconds,  # the call's own time is over before
            statement_cache_size=0,
            server_settings={
                "application_name": "toolcrib",
                "default_transaction_read_only": "on" if policy.read_only else "off",
                "statement_timeout": patience,
                "lock_timeout": patience,
                "idle_in_transaction_session_timeout": patience,
                # What is read in a helping process is not among the locks of this one.
                **({"max_parallel_workers_per_gather": "0"} if policy.has_table_rules else {}),
            },
        )
    except _ERRORS:
        # What these say may hold parts of the address.
        text = "the database cannot be reached, or does not let us in"
        raise ToolFailure(text, reason="upstream_error", retryable=True) from None


def _meter(connection: Any, most: int) -> Metered:
    transport = connection._transport  # the library offers no other place to count at
    return Metered(transport.get_protocol(), transport, most)


async def _run(
    connection: Any, policy: SqlPolicy, statement: str, parameters: Sequence[Any], max_rows: int
) -> dict[str, Any]:
    # One statement only: what is prepared cannot be several.
    prepared = await connection.prepare(statement)
    if policy.has_table_rules:
        await check_locks(connection, policy)
    await _check(connection, policy, statement, parameters)
    columns = [attribute.name for attribute in prepared.get_attributes()]
    rows, changed = Rows(max_rows, policy.max_chars), None
    if columns:
        await _fetch(await prepared.cursor(*parameters), rows)
    else:
        await prepared.fetch(*parameters)
        count = _COUNT.search(prepared.get_statusmsg() or "")
        changed = int(count[1]) if count else 0
    if policy.has_table_rules:
        # What its functions and triggers touched is known only now; nothing has left yet.
        await check_locks(connection, policy)
    return rows.result(columns, changed)


async def _check(
    connection: Any, policy: SqlPolicy, statement: str, parameters: Sequence[Any]
) -> None:
    """Hold the statement to the policy, by what the server would do."""
    word = first_word(statement)
    if word == "show":
        return
    if word == "explain":
        statement = explained(statement)
    check_text(statement, policy)
    if first_word(statement) not in PLANNED:
        if policy.has_table_rules or word == "explain":
            text = f"{word.upper()}: which tables it touches cannot be told"
            raise Denial("statement_not_allowed", text)
        return
    question = f"EXPLAIN (VERBOSE, FORMAT JSON) {statement}"
    answer = await connection.fetchval(question, *parameters)
    planned = read_plan(answer, policy.has_table_rules)
    check_plan(planned, policy)
    if word in READING and not planned.changes:
        await connection.execute("SET TRANSACTION READ ONLY")


async def _fetch(cursor: Any, rows: Rows) -> None:
    while True:
        batch = await cursor.fetch(_BATCH)
        for row in batch:
            if not rows.take(tuple(row)):
                return
        if len(batch) < _BATCH:
            return


async def _commit(transaction: Any) -> None:
    """Commit, also while being cancelled: what was asked for last is not left half done."""
    lost = (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError)
    error = await _whole(asyncio.wait_for(transaction.commit(), _GOODBYE))
    if isinstance(error, lost):
        text = "the connection was lost while the change was being made final"
        raise ToolFailure(text, reason="outcome_unknown")
    if error is not None:
        raise error


async def _whole(work: Coroutine[Any, Any, Any]) -> BaseException | None:
    """Wait for all of `work`, also when cancelled meanwhile; gives what it raised."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    error = task.exception()
    if cancelled:
        raise asyncio.CancelledError
    return error


def _timeout() -> ToolFailure:
    text = "the statement was stopped: its time was over; it changed nothing"
    return ToolFailure(text, reason="timeout")


def _failure(error: Exception, rules: bool) -> ToolcribError:
    if isinstance(error, asyncpg.QueryCanceledError):
        return _timeout()
    if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
        return Denial("statement_not_allowed", "the database may only be read")
    if isinstance(error, asyncpg.PostgresSyntaxError) and "multiple commands" in str(error):
        return Denial("statement_not_allowed", "a call is one statement")
    lost = (asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError, OSError)
    if isinstance(error, lost):
        text = "the connection to the database was lost"
        return ToolFailure(text, reason="upstream_error", retryable=True)
    if isinstance(error, asyncpg.PostgresError):
        return ToolFailure(f"PostgreSQL: {_kind(error) if rules else error.args[0]}")
    if isinstance(error, asyncpg.InternalClientError):
        return ToolFailure("a column has a type that cannot be read: cast it to text")
    return ToolFailure(f"the parameters do not fit the statement: {error}")


def _kind(error: Exception) -> str:
    """What sort of error it is, in words that hold nothing of a table: the server's own may quote
    a value that the table rules hide."""
    kind: Any = type(error)
    words = _HUMP.sub(" ", kind.__name__.removesuffix("Error")).lower()
    code = getattr(kind, "sqlstate", None)
    return f"{words} (SQLSTATE {code})" if code else words
