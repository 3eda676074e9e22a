"""Statements on a SQLite file."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from toolcrib.core.units import duration, size
from toolcrib.errors import Denial, ToolFailure
from toolcrib.tools.sql.policy import SqlPolicy
from toolcrib.tools.sql.sqlite_files import Place, TempFiles
from toolcrib.tools.sql.sqlite_rules import SqliteRules
from toolcrib.tools.sql.statement import READING, first_word, replaces
from toolcrib.tools.sql.threads import run_stoppable
from toolcrib.tools.sql.values import Rows

TRAIL = 0x746F6F6C
"""The application id of Toolcrib's own store: the trail is no tool's business."""
_SCHEMA = """SELECT lower(name), type, CASE WHEN sql LIKE '%replace%' THEN sql END
    FROM sqlite_schema WHERE type IN ('table', 'view', 'trigger')"""
_STEPS = 200
_PATIENCE = 0.1


class SqliteStatement:
    """One statement on its own connection. `stop` may be called from any thread."""

    def __init__(self, place: Place, policy: SqlPolicy, max_rows: int) -> None:
        self.place = place
        self.temp = TempFiles(size(policy.max_temp))
        self.policy = policy
        self.rows = Rows(max_rows, policy.max_chars)
        self._until = time.monotonic() + duration(policy.timeout)
        self._stopped = False

    def stop(self) -> None:
        """Have the statement end and be undone, unless it is complete."""
        self._stopped = True

    def run(self, statement: str, parameters: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any]:
        """Run it, and commit it if it writes."""
        found = self.place.look()
        mode = "ro" if self.policy.read_only else "rw"
        try:
            connection = sqlite3.connect(
                f"file:{quote(str(self.place.path))}?mode={mode}",
                uri=True,
                timeout=_PATIENCE,
                isolation_level=None,
                cached_statements=0,
            )
        except sqlite3.Error as error:
            raise ToolFailure(f"the database cannot be opened: {error}") from None
        try:
            self._mark(connection)
            self.place.check_open(found)
            return self._run(connection, statement, parameters)
        finally:
            connection.close()

    def _mark(self, connection: sqlite3.Connection) -> None:
        """Read the beginning of the file, which is opened with that."""
        try:
            (mark,) = self._patiently(connection, "PRAGMA application_id").fetchone()
        except sqlite3.Error as error:
            raise self._failure(error, None) from None
        if mark == TRAIL:
            raise Denial("table_not_allowed", "this file is Toolcrib's own store")

    def _limit(self, connection: sqlite3.Connection) -> None:
        connection.text_factory = _text
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA foreign_keys = ON")
        if self.policy.read_only:
            connection.execute("PRAGMA query_only = ON")
        longest = max(1_000_000, 4 * self.policy.max_chars)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, longest)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.set_progress_handler(self._over, _STEPS)

    def _over(self) -> bool:
        now = time.monotonic()
        return self._stopped or now > self._until or self.temp.too_much(now)

    def _run(
        self,
        connection: sqlite3.Connection,
        statement: str,
        parameters: Sequence[Any] | Mapping[str, Any],
    ) -> dict[str, Any]:
        word = first_word(statement)
        rules = SqliteRules(self.policy, word)
        try:
            self._limit(connection)
            self._patiently(connection, "BEGIN" if word in READING else "BEGIN IMMEDIATE")
            schema = self._patiently(connection, _SCHEMA).fetchall()
            rules.tables = frozenset(name for name, kind, _ in schema if kind != "trigger")
            rules.replacing = frozenset(name for name, _, text in schema if replaces(text or ""))
            rules.replaces = replaces(statement)
            connection.set_authorizer(rules)
            cursor = self._patiently(connection, statement, parameters)
            columns = [column[0] for column in cursor.description or ()]
            for row in cursor:
                if not self.rows.take(row):
                    break
            changed = None if columns else max(cursor.rowcount, 0)
            cursor.close()
            connection.set_authorizer(None)
            if self._over():
                raise sqlite3.OperationalError("interrupted")
            # From here on it is done: a time that is over now undoes nothing.
            connection.set_progress_handler(None, 0)
            self._patiently(connection, "COMMIT")
        except (sqlite3.Error, sqlite3.Warning, OverflowError, ValueError) as error:
            raise self._failure(error, rules) from None
        return self.rows.result(columns, changed)

    def _patiently(
        self,
        connection: sqlite3.Connection,
        statement: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
    ) -> sqlite3.Cursor:
        """Run a statement, waiting for other writers only as long as this call has."""
        while True:
            try:
                return connection.execute(statement, parameters)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or self._over():
                    raise

    def _failure(self, error: Exception, rules: SqliteRules | None) -> Exception:
        if rules is not None and rules.refusal is not None:
            return Denial(*rules.refusal)
        if isinstance(error, sqlite3.Warning) or "one statement" in str(error):
            return Denial("statement_not_allowed", "a call is one statement")
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if self.temp.over:
            text = f"the statement needs temporary files over {self.policy.max_temp}: sort less"
            return ToolFailure(text, reason="output_too_large")
        if self._over():
            text = "the statement was stopped: its time was over; it changed nothing"
            return ToolFailure(text, reason="timeout")
        if code == sqlite3.SQLITE_TOOBIG:
            return ToolFailure("a value is too large to be read", reason="output_too_large")
        if code == sqlite3.SQLITE_READONLY:
            return Denial("statement_not_allowed", "the database may only be read")
        return ToolFailure(f"SQLite: {error}", retryable=code == sqlite3.SQLITE_BUSY)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


async def run_sqlite(
    place: Place,
    policy: SqlPolicy,
    statement: str,
    parameters: Sequence[Any] | Mapping[str, Any] | None,
    max_rows: int,
) -> dict[str, Any]:
    """Run one statement; cancelling undoes it."""
    work = SqliteStatement(place, policy, max_rows)
    return await run_stoppable(lambda: work.run(statement, parameters or ()), work.stop)
