"""What statements may do, on which tables, and how much they may give back."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from toolcrib.core.context import ToolContext
from toolcrib.core.decision import Decision
from toolcrib.core.policy import ToolPolicy
from toolcrib.core.spec import Effect
from toolcrib.core.units import duration, size
from toolcrib.errors import ConfigError
from toolcrib.tools.sql.statement import ADDING, NEVER, READING, first_word, replaces

SQLITE = "sqlite:"
POSTGRES = ("postgres://", "postgresql://")
_SYSTEM = ("pg_catalog", "information_schema")
"""Schemas that tell about all tables, and what is in them."""


class SqlPolicy(ToolPolicy):
    """The database, the statements and tables that are allowed, and the limits."""

    database: str
    """`sqlite:PATH`, relative to the configuration's folder, or a `postgresql://` address."""
    read_only: bool = True
    """Whether the database itself is held to reading."""
    allowed_statements: list[str] = ["select", "with", "explain", "values"]  # noqa: RUF012
    """The words that a statement may begin with, and what it may do inside."""
    allowed_tables: list[str] = []  # noqa: RUF012
    """Globs; with none, all tables."""
    denied_tables: list[str] = []  # noqa: RUF012
    """Globs; these win."""
    max_rows: int = 1_000
    max_chars: int = 100_000
    """Of all values together."""
    max_statement_chars: int = 20_000
    timeout: float | str = "10s"
    """After this time the statement is stopped and undone."""
    max_temp: int | str = "100MB"
    """Of the files that SQLite sorts in, of all calls together."""

    def __init__(self, **knobs: Any) -> None:
        super().__init__(**knobs)
        if not self.database.startswith((SQLITE, *POSTGRES)):
            # The value may hold a password: it is not repeated.
            raise ConfigError(
                "database: neither a SQLite file nor a PostgreSQL address",
                key="database",
                cure="Write sqlite:PATH or postgresql://user:password@host/name",
            )
        if self.database in (SQLITE, SQLITE + ":memory:"):
            raise ConfigError("database: SQLite needs a file", key="database", cure="sqlite:PATH")
        object.__setattr__(
            self, "allowed_statements", [word.lower() for word in self.allowed_statements]
        )
        for word in self.allowed_statements:
            if word in NEVER:
                raise ConfigError(
                    f"allowed_statements: {word!r} is never run",
                    key="allowed_statements",
                    cure="Remove it: a call is one statement in a transaction of its own",
                )
        try:
            duration(self.timeout)
        except ValueError as error:
            raise ConfigError(f"timeout: {error}", key="timeout") from None
        try:
            size(self.max_temp)
        except ValueError as error:
            raise ConfigError(f"max_temp: {error}", key="max_temp") from None

    def __repr__(self) -> str:
        shown = {**self.to_dict(), "database": self.database.partition(":")[0] + ":…"}
        return f"SqlPolicy({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def check(self, ctx: ToolContext) -> Decision | None:
        """Refuse by the first word. What stands further inside is for the database to say."""
        statement: str = ctx.arguments["statement"]
        if len(statement) > self.max_statement_chars:
            text = f"the statement is longer than {self.max_statement_chars} characters"
            return self.deny("statement_not_allowed", text)
        word = first_word(statement)
        why = self.objection(word)
        if why is None and word == "create" and replaces(statement):
            why = self.objection("replace")
        return self.deny("statement_not_allowed", why) if why else None

    def objection(self, word: str) -> str | None:
        """Why a statement that begins with `word`, or does it inside, is refused."""
        if not word or word not in self.allowed_statements:
            allowed = ", ".join(self.allowed_statements) or "none"
            return f"{word.upper() or 'this'} is not allowed; allowed statements: {allowed}"
        if self.read_only and word not in READING:
            return f"{word.upper()} is not allowed: the database may only be read"
        return None

    @property
    def has_table_rules(self) -> bool:
        """Whether it matters which tables a statement touches."""
        return bool(self.allowed_tables or self.denied_tables)

    def allows_table(self, name: str, schema: str = "") -> bool:
        """Whether a table may be used. A glob without a dot denies in every schema, and allows in
        the usual one only; what the server keeps about itself has to be named with its schema."""
        if self.denies_table(name, schema):
            return False
        name, schema = name.lower(), schema.lower()
        whole = f"{schema}.{name}"
        if schema in _SYSTEM:
            own = [glob for glob in self.allowed_tables if glob.lower().startswith(f"{schema}.")]
            return not self.has_table_rules or _any_match((whole,), own)
        if not self.allowed_tables:
            return True
        if schema in ("", "public") and _any_match((name,), self.allowed_tables):
            return True
        return _any_match((whole,), [glob for glob in self.allowed_tables if "." in glob])

    def denies_table(self, name: str, schema: str = "") -> bool:
        """Whether a table is on the list of those that are denied."""
        name = name.lower()
        return _any_match((name, f"{schema.lower()}.{name}"), self.denied_tables)

    def allowed_effects(self) -> frozenset[Effect] | None:
        """Reading only, or what the listed statements can do."""
        words = [] if self.read_only else [w for w in self.allowed_statements if w not in READING]
        if not words:
            return frozenset({"read"})
        if all(word in ADDING for word in words):
            return frozenset({"read", "write"})
        return frozenset({"read", "write", "destructive"})


def _any_match(names: Sequence[str], globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob.lower()) for name in names for glob in globs)
