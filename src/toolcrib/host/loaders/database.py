"""Tools described in a database table with the columns `name` and `spec` (JSON), and, where the
table has them, `enabled` and `version`."""

from __future__ import annotations

import asyncio
import importlib
import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn, Protocol, cast

from toolcrib.core import jsontext
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import ConfigError, JsonError
from toolcrib.host.config.node import Node, Origin, node_of
from toolcrib.host.loaders.gathering import Gathering
from toolcrib.host.loaders.report import Fate, LoadReport, failed, without_doubles

MAX_ROWS = 100_000
MAX_SPEC = 256 * 1024
_COLUMNS = ("name", "spec", "enabled", "version")
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}(?:\.[A-Za-z_][A-Za-z0-9_]{0,62})?").fullmatch

Row = Mapping[str, Any]


def table_from(text: object) -> str:
    """The name of a table, quoted for a statement."""
    if not isinstance(text, str) or not _TABLE(text):
        raise ConfigError(
            f"{jsontext.shown(text)} is not the name of a table",
            key="table",
            cure="Use letters, digits and _, and perhaps one schema: tools, or registry.tools",
        )
    return ".".join(f'"{part}"' for part in text.split("."))


class SqliteLoader:
    """Reads tools from a table of an SQLite file, which is opened for reading only."""

    def __init__(self, path: str | Path, *, table: str = "tools") -> None:
        self.path = Path(path)
        self.table = table
        self._quoted = table_from(table)

    async def load(self) -> Sequence[ToolSpec]:
        """All specs. Raises `ConfigError`."""
        return (await self.load_all()).check().specs

    async def load_all(self) -> LoadReport:
        """What became of every row, read now."""
        label = f"sqlite:{self.path}?table={self.table}"
        try:
            rows = await asyncio.to_thread(self._rows)
        except sqlite3.Error as error:
            return _broken(label, str(error), "Check the path and the table")
        except ConfigError as error:
            return _broken(label, error.message, error.cure)
        return await asyncio.to_thread(_report, rows, label)

    def _rows(self) -> list[Row]:
        if not self.path.is_file():
            raise ConfigError(f"{self.path} does not exist", cure="Name a file that is there")
        address = f"{self.path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=5)) as connection:
            connection.row_factory = sqlite3.Row
            found = connection.execute(f"select * from {self._quoted} limit 0")  # noqa: S608
            columns = _columns(column[0] for column in found.description)
            query = _query(columns, self._quoted)
            return [dict(row) for row in connection.execute(query, (MAX_ROWS + 1,))]


class PostgresLoader:
    """Reads tools from a table of a PostgreSQL database, in a transaction that cannot write."""

    def __init__(self, url: str, *, table: str = "tools") -> None:
        self._url = url
        self.table = table
        self._quoted = table_from(table)

    async def load(self) -> Sequence[ToolSpec]:
        """All specs. Raises `ConfigError`."""
        return (await self.load_all()).check().specs

    async def load_all(self) -> LoadReport:
        """What became of every row, read now."""
        # The address holds a password: messages name the database only.
        place = re.sub(r"^[^/]*//(?:[^@/]*@)?", "", self._url).partition("?")[0]
        label = f"postgres://{place}?table={self.table}"
        try:
            asyncpg: Any = importlib.import_module("asyncpg")
        except ImportError:
            cure = "Install it: pip install 'toolcrib[postgres]'"
            return _broken(label, "PostgreSQL needs the package asyncpg, not installed here", cure)
        try:
            rows = await self._rows(asyncpg)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
            # Some of these quote the address.
            return _broken(label, f"the database cannot be read ({type(error).__name__})", None)
        except ConfigError as error:
            return _broken(label, error.message, error.cure)
        return await asyncio.to_thread(_report, rows, label)

    async def _rows(self, driver: Any) -> list[Row]:
        connection: _Connection = await driver.connect(self._url, timeout=10, command_timeout=30)
        try:
            async with connection.transaction(readonly=True):
                found = await connection.prepare(f"select * from {self._quoted} limit 0")  # noqa: S608
                columns = _columns(column.name for column in found.get_attributes())
                query = _query(columns, self._quoted).replace("?", "$1")
                return [dict(row) for row in await connection.fetch(query, MAX_ROWS + 1)]
        finally:
            await connection.close(timeout=5)


class _Connection(Protocol):
    def transaction(self, *, readonly: bool) -> Any: ...
    async def prepare(self, query: str) -> Any: ...
    async def fetch(self, query: str, *args: Any) -> list[Any]: ...
    async def close(self, *, timeout: float) -> None: ...


def _columns(found: Iterable[str]) -> list[str]:
    names = set(found)
    missing = [name for name in ("name", "spec") if name not in names]
    if missing:
        raise ConfigError(
            f"the table has no column {' and no column '.join(missing)}",
            cure="It needs name and spec, and may have enabled and version",
        )
    return [name for name in _COLUMNS if name in names]


def _query(columns: Sequence[str], table: str) -> str:
    named = ", ".join(f'"{column}"' for column in columns)
    return f'select {named} from {table} order by "name", "spec" limit ?'  # noqa: S608


def _report(rows: Sequence[Row], label: str) -> LoadReport:
    if len(rows) > MAX_ROWS:
        return _broken(label, f"the table has over {MAX_ROWS} rows", "Keep fewer tools in it")
    origin = Origin(label, label, Path())
    gathering = Gathering(origin, remote=True)
    for number, row in enumerate(rows, 1):
        name = row["name"]
        called = name if isinstance(name, str) and name.isprintable() else f"row {number}"
        source = f"{label}:{number}"
        try:
            gathering.tool(_entry(row, origin, number), called)
        except ConfigError as error:
            gathering.fates.append(failed(called, source, error.message, cure=error.cure))
    return LoadReport(entries=tuple(without_doubles(gathering.fates)))


def _entry(row: Row, origin: Origin, number: int) -> Node:
    spec: Any = row["spec"]
    if isinstance(spec, str | bytes):
        try:
            spec = jsontext.parse(spec, max_bytes=MAX_SPEC)
        except JsonError as error:
            raise ConfigError(f"the spec is not acceptable: {error}") from None
    if not isinstance(spec, dict):
        _refuse(f"the spec must be an object, not {jsontext.shown(spec)}", "Write {…}")
    entry = cast("dict[str, Any]", spec)
    for column, value in (("name", row["name"]), ("version", row.get("version"))):
        if value is None:
            continue
        if entry.setdefault(column, value) != value:
            _refuse(f"the column {column} and the spec's {column} differ", "Write one of them")
    if "enabled" in row and row["enabled"] is not None:
        entry["enabled"] = bool(row["enabled"]) and entry.get("enabled", True)
    try:
        node = node_of(entry, origin)
    except ValueError as error:
        raise ConfigError(f"the spec {error}") from None
    return Node(node.value, origin, number)


def _refuse(message: str, cure: str) -> NoReturn:
    raise ConfigError(message, cure=cure)


def _broken(label: str, message: str, cure: str | None) -> LoadReport:
    problem = ConfigError(message, file=label, line=1, cure=cure)
    return LoadReport(entries=(Fate(name=label, source=label, problem=problem),))
