"""Tools from tables: read only, and under the rules for specs from elsewhere."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from postgres import PASSWORD, shared_postgres
from toolcrib.errors import ConfigError
from toolcrib.host.loaders import PostgresLoader, SqliteLoader, database
from toolcrib.testing.contracts.loader import LoaderContract

SPEC = {"kind": "http", "config": {"url": "https://api.example.com/x"}, "effects": ["read"]}


def make_table(path: Path, rows: list[tuple[Any, ...]], columns: str = "name, spec") -> Path:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"create table tools ({columns})")
        marks = ", ".join("?" * len(columns.split(",")))
        connection.executemany(f"insert into tools values ({marks})", rows)
    return path


async def test_rows_become_tools(tmp_path: Path) -> None:
    rows = [
        ("b", json.dumps(SPEC), 1, "2"),
        ("a", json.dumps({**SPEC, "name": "a"}), None, None),
        ("c", json.dumps(SPEC), 0, None),
    ]
    path = make_table(tmp_path / "t.db", rows, "name, spec, enabled, version")
    found = await SqliteLoader(path).load_all()
    assert [(f.name, f.spec and f.spec.version) for f in found.entries] == [
        ("a", "0"),
        ("b", "2"),
        ("c", None),
    ]
    assert found.problems == ()
    assert found.entries[1].source == f"sqlite:{path}?table=tools:2"
    assert found.items[0]["config"] == SPEC["config"]


@pytest.mark.parametrize(
    ("name", "spec", "message"),
    [
        ("x", "{", "the spec is not acceptable: not JSON"),
        ("x", '{"kind": "http", "kind": "http"}', "the spec is not acceptable: the key 'kind'"),
        ("x", '{"config": {"n": NaN}}', "the spec is not acceptable: 'NaN'"),
        ("x", "[" * 100, "the spec is not acceptable: nested deeper"),
        ("x", " " * 300_000, "the spec is not acceptable: 300000 bytes"),
        ("x", "[]", "the spec must be an object, not a list"),
        ("x", None, "the spec must be an object, not null"),
        ("x", '{"name": "y", "kind": "http"}', "the column name and the spec's name differ"),
        ("x", '{"kind": "shell", "config": {"argv": ["id"]}}', "remote specs may not carry tools"),
        ("x", '{"kind": "http", "env": {}}', "remote specs may not carry env"),
        ("x", '{"kind": "http", "config": {"url": "${HOME}"}}', "remote specs may not carry ${…}"),
        ("x y", '{"kind": "http"}', "x y.name is wrong: the tool name 'x y' contains ' '"),
        ("x", '{"kind": "http", "timeout": "soon"}', "x.timeout is wrong"),
    ],
    ids=range(13),
)
async def test_one_bad_row_hides_no_other(
    tmp_path: Path, name: str, spec: Any, message: str
) -> None:
    good = json.dumps(SPEC)
    path = make_table(tmp_path / "t.db", [("a", good), (name, spec), ("z", good)])
    found = await SqliteLoader(path).load_all()
    assert [f.name for f in found.entries if f.problem is None] == ["a", "z"]
    [problem] = found.problems
    assert problem.message.startswith(message)
    assert problem.line == 2


async def test_names_stand_once(tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.db", [("a", json.dumps(SPEC))] * 2)
    [problem] = (await SqliteLoader(path).load_all()).problems
    assert problem.message == f"a stands here and at sqlite:{path}?table=tools:1"


@pytest.mark.parametrize(
    ("columns", "table", "message"),
    [
        ("name, spec", "other", "no such table: other"),
        ("name, text", "tools", "the table has no column spec"),
        ("a, b", "tools", "the table has no column name and no column spec"),
    ],
    ids=["table", "column", "columns"],
)
async def test_tables_that_do_not_fit(
    tmp_path: Path, columns: str, table: str, message: str
) -> None:
    path = make_table(tmp_path / "t.db", [], columns)
    [problem] = (await SqliteLoader(path, table=table).load_all()).problems
    assert problem.message == message


async def test_files_that_are_no_databases(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database, but long enough to be looked at" * 40)
    [problem] = (await SqliteLoader(tmp_path / "text.db").load_all()).problems
    assert "not a database" in problem.message
    [problem] = (await SqliteLoader(tmp_path / "none.db").load_all()).problems
    assert problem.message.endswith("none.db does not exist")
    assert not (tmp_path / "none.db").exists()


async def test_reading_changes_nothing(tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.db", [("a", json.dumps(SPEC))])
    before = path.read_bytes()
    await SqliteLoader(path).load()
    assert path.read_bytes() == before


async def test_too_many_rows(tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.db", [(f"t{n}", json.dumps(SPEC)) for n in range(4)])
    with mock.patch.object(database, "MAX_ROWS", 3):
        [problem] = (await SqliteLoader(path).load_all()).problems
    assert problem.message == "the table has over 3 rows"


async def fill(url: str, rows: list[tuple[str, str]], kind: str = "jsonb") -> None:
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        await connection.execute("create schema registry")
        await connection.execute(
            f"create table registry.tools (name text, spec {kind}, enabled boolean)"
        )
        await connection.executemany("insert into registry.tools values ($1, $2, true)", rows)
    finally:
        await connection.close()


async def test_postgres(tmp_path: Path) -> None:
    url = await shared_postgres().new_database()
    shell = json.dumps({"kind": "shell", "config": {"argv": ["id"]}})
    await fill(url, [("a", json.dumps(SPEC)), ("b", shell), ("c", json.dumps(SPEC))])
    found = await PostgresLoader(url, table="registry.tools").load_all()
    assert [f.name for f in found.entries if f.problem is None] == ["a", "c"]
    [problem] = found.problems
    assert problem.message.startswith("remote specs may not carry tools of kind shell")
    assert PASSWORD not in str(problem)


async def test_a_view_of_postgres_cannot_write() -> None:
    import asyncpg

    url = await shared_postgres().new_database()
    await fill(url, [("a", json.dumps(SPEC))])
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(
            "create function planted() returns text language plpgsql as $$ begin "
            "insert into registry.tools values ('evil', '{}', true); return 'x'; end $$"
        )
        await connection.execute("create view tricky as select planted() as name, '{}' as spec")
        [problem] = (await PostgresLoader(url, table="tricky").load_all()).problems
        assert "ReadOnly" in problem.message
        assert await connection.fetchval("select count(*) from registry.tools") == 1
    finally:
        await connection.close()


@pytest.mark.parametrize("table", ["nothing", "registry.nothing"])
async def test_postgres_that_cannot_be_read(table: str) -> None:
    url = await shared_postgres().new_database()
    for address in (url, url.replace(PASSWORD, f"{PASSWORD}x"), url + "_none"):
        [problem] = (await PostgresLoader(address, table=table).load_all()).problems
        assert problem.message.startswith("the database cannot be read")
        assert PASSWORD not in str(problem)


async def test_postgres_that_is_not_there() -> None:
    with closing(await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)) as server:
        port = server.sockets[0].getsockname()[1]
    await server.wait_closed()
    url = f"postgres://u:{PASSWORD}@127.0.0.1:{port}/x?sslmode=disable"
    with pytest.raises(ConfigError) as caught:
        await PostgresLoader(url).load()
    assert PASSWORD not in str(caught.value)


async def test_postgres_without_its_package() -> None:
    with mock.patch.dict("sys.modules", {"asyncpg": None}):
        [problem] = (await PostgresLoader("postgres://x/y").load_all()).problems
    assert "pip install 'toolcrib[postgres]'" in str(problem)


class TestSqliteLoaderContract(LoaderContract):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        rows = [(name, json.dumps(SPEC)) for name in ("a", "b")]
        self.good = make_table(tmp_path / "good.db", rows)
        self.bad = make_table(tmp_path / "bad.db", [("a", "{")])

    def make(self) -> SqliteLoader:
        return SqliteLoader(self.good)

    def make_broken(self) -> SqliteLoader:
        return SqliteLoader(self.bad)


class TestPostgresLoaderContract(LoaderContract):
    @pytest.fixture(autouse=True)
    async def tables(self) -> None:
        self.good = await shared_postgres().new_database()
        await fill(self.good, [(name, json.dumps(SPEC)) for name in ("a", "b")])
        self.bad = await shared_postgres().new_database()
        await fill(self.bad, [("a", "{")], kind="text")

    def make(self) -> PostgresLoader:
        return PostgresLoader(self.good, table="registry.tools")

    def make_broken(self) -> PostgresLoader:
        return PostgresLoader(self.bad, table="registry.tools")
