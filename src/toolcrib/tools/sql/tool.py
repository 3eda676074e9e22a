"""The function behind the tool `sql`."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from toolcrib.core.context import ToolContext
from toolcrib.core.protocols import Workshop
from toolcrib.core.spec import ToolTemplate
from toolcrib.errors import ConfigError, ToolFailure
from toolcrib.tools.sql.policy import SQLITE, SqlPolicy
from toolcrib.tools.sql.sqlite_files import Place


def build(policy: SqlPolicy, workshop: Workshop) -> Any:
    """The tool; the policy in force for a call is the call's own."""
    places: dict[str, Place] = {}

    def place_of(database: str) -> Place:
        path = workshop.root(database.removeprefix(SQLITE))
        if database not in places:
            places[database] = Place(path)
        return places[database]

    if policy.database.startswith(SQLITE):
        place_of(policy.database)  # now: nothing that a tool did can have moved it yet
    else:
        _check_postgres(policy.database)

    async def sql(
        statement: str,
        ctx: ToolContext,
        parameters: list[Any] | dict[str, Any] | None = None,
        limit: int | None = None,
    ) -> dict[str, Any]:
        """Run one SQL statement and give its columns and rows.

        Args:
            statement: The statement. Put values into parameters, not into its text.
            parameters: Values for its placeholders: a list for `?` (SQLite) or `$1` (PostgreSQL),
                an object for `:name` (SQLite).
            limit: At most this many rows.
        """
        held = ctx.policy
        if not isinstance(held, SqlPolicy):
            raise ToolFailure("the tool has no SqlPolicy", reason="guard_failed")
        most = held.max_rows if limit is None else max(0, min(limit, held.max_rows))
        if held.database.startswith(SQLITE):
            from toolcrib.tools.sql.sqlite import run_sqlite

            place = place_of(held.database)
            return await run_sqlite(place, held, statement, parameters, most)
        from toolcrib.tools.sql.postgres import run_postgres

        if isinstance(parameters, dict):
            text = "PostgreSQL takes a list of parameters, for $1, $2, …"
            raise ToolFailure(text, reason="invalid_arguments")
        return await run_postgres(held, statement, parameters or [], most)

    return sql


def _check_postgres(address: str) -> None:
    if find_spec("asyncpg") is None:
        raise ConfigError(
            "database: PostgreSQL needs the package asyncpg",
            key="database",
            cure="Run pip install 'toolcrib[postgres]'",
        )
    try:
        host = urlsplit(address).hostname
    except ValueError:
        host = None
    if not host and "host=" not in address:
        raise ConfigError(
            "database: the address names no host",
            key="database",
            cure="Write postgresql://user:password@host/name",
        )


TEMPLATE = ToolTemplate(
    name="sql",
    policy=SqlPolicy,
    constructor=build,
    description="Run SQL statements on a SQLite file or a PostgreSQL database.",
)
