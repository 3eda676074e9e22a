"""What SQLite asks about a statement while it compiles it, and what it is answered."""

from __future__ import annotations

import sqlite3

from toolcrib.tools.sql.policy import SqlPolicy

_WRITES = {
    sqlite3.SQLITE_INSERT: "insert",
    sqlite3.SQLITE_UPDATE: "update",
    sqlite3.SQLITE_DELETE: "delete",
}
_SCHEMA = {
    sqlite3.SQLITE_CREATE_INDEX: "create",
    sqlite3.SQLITE_CREATE_TABLE: "create",
    sqlite3.SQLITE_CREATE_TRIGGER: "create",
    sqlite3.SQLITE_CREATE_VIEW: "create",
    sqlite3.SQLITE_CREATE_TEMP_INDEX: "create",
    sqlite3.SQLITE_CREATE_TEMP_TABLE: "create",
    sqlite3.SQLITE_CREATE_TEMP_TRIGGER: "create",
    sqlite3.SQLITE_CREATE_TEMP_VIEW: "create",
    sqlite3.SQLITE_DROP_INDEX: "drop",
    sqlite3.SQLITE_DROP_TABLE: "drop",
    sqlite3.SQLITE_DROP_TRIGGER: "drop",
    sqlite3.SQLITE_DROP_VIEW: "drop",
    sqlite3.SQLITE_ALTER_TABLE: "alter",
    sqlite3.SQLITE_REINDEX: "reindex",
    sqlite3.SQLITE_ANALYZE: "analyze",
}
_PRAGMAS = frozenset(
    {"foreign_key_list", "index_info", "index_list", "index_xinfo", "table_info", "table_list"}
    | {"table_xinfo"}
)
"""Those that describe tables and change nothing."""
_FUNCTIONS = frozenset({"edit", "fts3_tokenizer", "load_extension", "readfile", "writefile"})
"""Those that reach out of the database."""
_RAW = frozenset(
    {"bytecode", "dbstat", "sqlite_dbdata", "sqlite_dbpage", "sqlite_dbptr", "sqlite_stmt"}
    | {"tables_used"}
)
"""Tables that show what other tables hold."""
_COMPUTED = frozenset({"json_each", "json_tree", "generate_series"})
"""Tables that only show their arguments."""
_OWN = frozenset({"sqlite_master", "sqlite_temp_master"})
"""Where SQLite keeps the schema."""


class SqliteRules:
    """The authorizer of one statement. `refusal` is the first reason and text it refused with."""

    def __init__(self, policy: SqlPolicy, word: str) -> None:
        self.policy = policy
        self.word = word
        self.tables: frozenset[str] = frozenset()
        """The tables and views of the database, in small letters."""
        self.replaces = False
        """Whether the statement says that it replaces rows."""
        self.replacing: frozenset[str] = frozenset()
        """The tables and triggers whose own definition says so, in small letters."""
        self.refusal: tuple[str, str] | None = None

    def __call__(
        self, action: int, one: str | None, two: str | None, schema: str | None, inner: str | None
    ) -> int:
        """Answer SQLite: go on, or stop compiling."""
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ:
            return self._read(one or "", two)
        if action == sqlite3.SQLITE_FUNCTION:
            name = (two or "").lower()
            return self._unless(name in _FUNCTIONS, f"the function {name} is not allowed")
        if action == sqlite3.SQLITE_PRAGMA:
            return self._pragma((one or "").lower(), two)
        if action in _WRITES:
            return self._write(_WRITES[action], one or "", inner or "")
        if action in _SCHEMA:
            return self._schema(_SCHEMA[action], one or "", two)
        return self._unless(True, "this is not allowed in any statement")

    def _read(self, table: str, column: str | None) -> int:
        # The name that WITH gives to a part of the statement is asked about too, when no column
        # of it is used; what that part reads is asked about by itself.
        low = table.lower()
        if not column and low not in self.tables | _RAW and not low.startswith("sqlite_"):
            return sqlite3.SQLITE_OK
        if low in _OWN and (column == "ROWID" or self.word in ("alter", "drop")):
            return sqlite3.SQLITE_OK  # its own look at the schema: none of it comes out
        return self._table(table)

    def _write(self, word: str, table: str, inner: str) -> int:
        if table.lower() in _OWN:
            # What changes the schema writes here, and so does making a table-valued function
            # known. A statement's own attempt is refused by SQLite itself.
            return sqlite3.SQLITE_OK
        if self.word == "drop":
            return self._kind("drop")
        if word != "delete" and self._replaces(table, inner):
            # To replace takes no permission to insert, as `REPLACE INTO` is a word of its own.
            answer = self._kind("replace")
            if word == "insert" or answer != sqlite3.SQLITE_OK:
                return self._table(table) if answer == sqlite3.SQLITE_OK else answer
        answer = self._kind(word)
        return self._table(table) if answer == sqlite3.SQLITE_OK else answer

    def _replaces(self, table: str, inner: str) -> bool:
        own = {table.lower(), inner.lower()} & self.replacing
        return self.replaces or self.word == "replace" or bool(own)

    def _schema(self, word: str, one: str, two: str | None) -> int:
        if word == "reindex" and self.word == "create":
            return sqlite3.SQLITE_OK  # the new index is filled
        answer = self._kind(word)
        # Where there are two names, the second is the table's.
        return self._table(two or one) if answer == sqlite3.SQLITE_OK else answer

    def _pragma(self, name: str, argument: str | None) -> int:
        if name == "data_version":  # full-text tables look at it by themselves
            return sqlite3.SQLITE_OK
        if name not in _PRAGMAS:
            return self._unless(True, f"the pragma {name} is not allowed")
        if self.policy.has_table_rules and (argument is None or name.startswith("index_")):
            return self._unless(True, f"the pragma {name} would show other tables", "table")
        return self._table(argument) if argument else sqlite3.SQLITE_OK

    def _kind(self, word: str) -> int:
        why = self.policy.objection(word)
        return self._unless(why is not None, why or "")

    def _table(self, name: str) -> int:
        low = name.lower()
        harmless = low in _COMPUTED or low.removeprefix("pragma_") in _PRAGMAS
        wrong = low in _RAW or not (harmless or self.policy.allows_table(low))
        return self._unless(wrong, f"the table {name} is not allowed", "table")

    def _unless(self, wrong: bool, text: str, what: str = "statement") -> int:
        if not wrong:
            return sqlite3.SQLITE_OK
        if self.refusal is None:
            self.refusal = (f"{what}_not_allowed", text)
        return sqlite3.SQLITE_DENY
