"""`sql` on SQLite files: what is answered, what is refused, what is left behind."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broad import broad_host
from toolcrib import ConfigError, ToolHost, ToolResult
from toolcrib.testing import assert_denied
from toolcrib.tools.sql import TEMPLATE, SqlPolicy

WRITING = ["select", "with", "insert", "update", "delete", "replace"]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    connection = sqlite3.connect(path)
    connection.executescript(
        """
        create table orders(id integer primary key, item text, price real, photo blob);
        insert into orders values (1, 'lamp', 9.5, x'00ff'), (2, 'rug', null, null);
        create table secrets(key text);
        insert into secrets values ('canary-7731');
        create view peek as select key from secrets;
        create table log(line text);
        create trigger note after insert on orders begin insert into log values (new.item); end;
        """
    )
    connection.close()
    return path


class Shop:
    """Calls the tool under a policy."""

    def __init__(self, database: Path) -> None:
        self.database = database
        self.hosts: list[ToolHost] = []

    def host(self, **knobs: Any) -> ToolHost:
        knobs.setdefault("database", f"sqlite:{self.database.name}")
        self.hosts.append(broad_host(TEMPLATE, knobs, self.database.parent))
        return self.hosts[-1]

    async def run(
        self, statement: str, *, parameters: Any = None, limit: int | None = None, **knobs: Any
    ) -> ToolResult:
        arguments = {"statement": statement, "parameters": parameters, "limit": limit}
        return await self.host(**knobs).call("sql", arguments)

    def change(self, script: str) -> None:
        connection = sqlite3.connect(self.database)
        connection.executescript(script)
        connection.close()

    def look(self, question: str) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.database)
        try:
            return connection.execute(question).fetchall()
        finally:
            connection.close()


@pytest.fixture
async def shop(database: Path) -> AsyncIterator[Shop]:
    made = Shop(database)
    yield made
    for host in made.hosts:
        await host.stop()


async def test_rows_come_as_json(shop: Shop) -> None:
    result = await shop.run("select id, item, price, photo from orders order by id")
    assert result.unwrap() == {
        "columns": ["id", "item", "price", "photo"],
        "rows": [[1, "lamp", 9.5, "AP8="], [2, "rug", None, None]],
        "row_count": 2,
        "truncated": False,
    }


@pytest.mark.parametrize(
    ("statement", "parameters"),
    [
        ("select item from orders where id = ?", [2]),
        ("select item from orders where id = :id", {"id": 2}),
        ("-- about rugs\n/* and more */ select item from orders where id = 2", None),
        ("with r as (select * from orders where id = 2) select item from r", None),
    ],
    ids=["list", "object", "comments", "with"],
)
async def test_ways_to_ask(shop: Shop, statement: str, parameters: Any) -> None:
    result = await shop.run(statement, parameters=parameters)
    assert result.unwrap()["rows"] == [["rug"]]


async def test_parameters_are_values_never_text(shop: Shop) -> None:
    hostile = "x' or 1=1; drop table orders; --"
    result = await shop.run("select count(*) from orders where item = ?", parameters=[hostile])
    assert result.unwrap()["rows"] == [[0]]
    assert shop.look("select count(*) from orders") == [(2,)]


@pytest.mark.parametrize(
    "statement",
    [
        "insert into orders(item) values ('x')",
        "delete from orders",
        "update orders set item = 'x'",
        "drop table orders",
        "create table more(a)",
        "attach database '/tmp/other.db' as other",
        "pragma writable_schema = on",
        "vacuum into 'copy.db'",
        "begin",
        "commit",
        "/* outer /* inner */ select */ delete from orders",
        "",
        "-- nothing else",
        "; select 1",
    ],
)
async def test_only_reading_words_by_default(shop: Shop, statement: str) -> None:
    host = shop.host()
    assert_denied(await host.call("sql", {"statement": statement}), "statement_not_allowed")
    explained = host.explain("sql", {"statement": statement})
    assert (explained.verdict, explained.reason) == ("deny", "statement_not_allowed")
    assert shop.look("select count(*) from orders") == [(2,)]


@pytest.mark.parametrize(
    "statement",
    [
        "with x as (select 1) delete from orders",
        "with x as (select 1) insert into orders(item) select 'a' from x",
        "with x as (select 1) update orders set item = 'a'",
    ],
)
async def test_writing_hidden_behind_with_is_seen(shop: Shop, statement: str) -> None:
    assert_denied(await shop.run(statement), "statement_not_allowed")
    # Not only the read-only file holds: the list does too.
    open_file = await shop.run(statement, read_only=False)
    assert_denied(open_file, "statement_not_allowed")
    assert shop.look("select item from orders order by id") == [("lamp",), ("rug",)]


async def test_a_read_only_database_holds_whatever_the_list_says(shop: Shop) -> None:
    host, deletion = shop.host(allowed_statements=WRITING), {"statement": "delete from orders"}
    assert_denied(await host.call("sql", deletion), "statement_not_allowed")
    assert_denied(host.explain("sql", deletion), "statement_not_allowed")
    assert shop.look("select count(*) from orders") == [(2,)]


async def test_one_statement_a_call(shop: Shop) -> None:
    for knobs in ({}, {"read_only": False, "allowed_statements": WRITING}):
        result = await shop.run("select 1; delete from orders", **knobs)
        assert_denied(result, "statement_not_allowed")
    assert shop.look("select count(*) from orders") == [(2,)]


@pytest.mark.parametrize(
    "statement",
    [
        "select key from secrets",
        "select count(*) from secrets",
        "select count(*) from secrets as orders",
        "select 1 from orders where exists (select 1 from SECRETS)",
        "select * from peek",
        "with orders as (select key from secrets) select * from orders",
        "select (select key from secrets)",
        "select item from orders union select key from secrets",
        "select * from pragma_table_info('secrets')",
        "explain select * from secrets",
        "select * from sqlite_schema",
        "select sql from sqlite_master where name = 'orders'",
    ],
)
@pytest.mark.parametrize(
    "rules",
    [{"allowed_tables": ["orders", "peek"]}, {"denied_tables": ["SECRET*", "sqlite_*"]}],
    ids=["allowed", "denied"],
)
async def test_tables_outside_the_rules(shop: Shop, statement: str, rules: Any) -> None:
    result = await shop.run(statement, **rules)
    assert_denied(result, "table_not_allowed")
    assert "canary" not in str(result.to_dict())


@pytest.mark.parametrize(
    "statement",
    [
        "select count(*) from orders",
        "with some as (select id from orders) select count(*) from some",
        "select count(*) from json_each('[1, 2]')",
        "select name from pragma_table_info('orders') limit 1",
        "select o.item from ORDERS o join orders p using (id)",
    ],
)
async def test_tables_within_the_rules(shop: Shop, statement: str) -> None:
    result = await shop.run(statement, allowed_tables=["orders"])
    assert result.unwrap()["row_count"] > 0


@pytest.mark.parametrize(
    "statement",
    [
        "select load_extension('evil')",
        "select fts3_tokenizer('simple')",
        "select * from pragma_database_list",
    ],
)
async def test_ways_out_of_the_database(shop: Shop, statement: str) -> None:
    assert_denied(await shop.run(statement), "statement_not_allowed")


@pytest.mark.parametrize("name", ["table_info(orders)", "journal_mode = delete", "user_version=9"])
async def test_pragmas_describe_and_change_nothing(shop: Shop, name: str) -> None:
    result = await shop.run(f"pragma {name}", allowed_statements=["pragma"], read_only=False)
    if name.startswith("table_info"):
        assert [row[1] for row in result.unwrap()["rows"]] == ["id", "item", "price", "photo"]
    else:
        assert_denied(result, "statement_not_allowed")
        assert shop.look("pragma user_version") == [(0,)]


async def test_writing_when_it_is_allowed(shop: Shop) -> None:
    knobs = {"read_only": False, "allowed_statements": WRITING}
    added = await shop.run("insert into orders(item) values (?)", parameters=["mug"], **knobs)
    assert added.unwrap() == {"columns": [], "rows": [], "row_count": 1, "truncated": False}
    assert shop.look("select line from log") == [("mug",)]
    back = await shop.run("update orders set price = 1 returning id", limit=1, **knobs)
    assert back.unwrap()["rows"] == [[1]]
    assert back.unwrap()["truncated"]
    assert shop.look("select count(*) from orders where price = 1") == [(3,)]


async def test_a_trigger_is_held_to_the_same_rules(shop: Shop) -> None:
    knobs = {"read_only": False, "allowed_statements": WRITING, "denied_tables": ["log"]}
    result = await shop.run("insert into orders(item) values ('mug')", **knobs)
    assert_denied(result, "table_not_allowed")
    assert shop.look("select count(*) from orders") == [(2,)]


async def test_changing_the_schema_when_it_is_allowed(shop: Shop) -> None:
    knobs = {"read_only": False, "allowed_statements": ["create", "drop", "alter"]}
    for statement in (
        "create table more(a)",
        "create index more_a on more(a)",
        "alter table more rename column a to b",
        "drop table more",
    ):
        assert (await shop.run(statement, **knobs)).success, statement
    assert_denied(await shop.run("delete from orders", **knobs), "statement_not_allowed")
    held = {**knobs, "denied_tables": ["secrets"]}
    for statement in ("drop table secrets", "alter table secrets rename to open"):
        assert_denied(await shop.run(statement, **held), "table_not_allowed")
    assert shop.look("select count(*) from secrets") == [(1,)]


async def test_rows_and_characters_are_limited_and_it_says_so(shop: Shop) -> None:
    numbers = "with recursive n(x) as (select 1 union all select x + 1 from n) select x from n"
    result = await shop.run(numbers, max_rows=5)
    assert result.unwrap()["rows"] == [[1], [2], [3], [4], [5]]
    assert result.unwrap()["truncated"]
    asked = await shop.run(numbers, limit=3, max_rows=5)
    assert asked.unwrap()["row_count"] == 3
    greedy = await shop.run(numbers, limit=10**9, max_rows=5)
    assert greedy.unwrap()["row_count"] == 5
    text = "select item || '0123456789' from orders"
    short = await shop.run(text, max_chars=20)
    assert (short.unwrap()["row_count"], short.unwrap()["truncated"]) == (1, True)
    none = await shop.run(text, max_chars=5)
    assert none.reason == "output_too_large"


async def test_a_huge_value_is_never_built(shop: Shop) -> None:
    result = await shop.run("select length(replace(hex(zeroblob(400000)), '0', 'aaaaaaaaaa'))")
    assert result.reason == "output_too_large"


ENDLESS = "with recursive n(x) as (select 1 union all select x + 1 from n) select max(x) from n"


async def test_an_endless_statement_is_stopped(shop: Shop) -> None:
    result = await shop.run(ENDLESS, timeout="100ms")
    assert result.reason == "timeout"


def _sql_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "toolcrib-sql"]


async def _begun() -> None:
    for _ in range(5000):
        if _sql_threads():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("no statement began")


async def test_a_cancelled_write_is_undone_before_the_call_ends(shop: Shop) -> None:
    statement = f"insert into log select 'late' from ({ENDLESS})"
    knobs = {"read_only": False, "allowed_statements": WRITING, "timeout": "1h"}
    call = asyncio.ensure_future(shop.run(statement, **knobs))
    await _begun()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert _sql_threads() == []
    assert shop.look("select count(*) from log") == [(0,)]


async def test_a_locked_database_is_waited_for_and_no_longer_than_the_time(shop: Shop) -> None:
    knobs = {"read_only": False, "allowed_statements": WRITING}
    other = sqlite3.connect(shop.database, isolation_level=None)
    other.execute("begin exclusive")
    late = await shop.run("insert into log values ('a')", timeout="150ms", **knobs)
    assert late.reason == "timeout"
    waiting = asyncio.ensure_future(shop.run("insert into log values ('b')", **knobs))
    await _begun()
    other.execute("rollback")
    other.close()
    assert (await waiting).success
    assert shop.look("select line from log") == [("b",)]


async def test_the_trail_is_no_tools_business(shop: Shop, tmp_path: Path) -> None:
    async with ToolHost(store=f"sqlite:{tmp_path}/trail.db"):
        pass
    result = await shop.run("select 1", database="sqlite:trail.db")
    assert_denied(result, "table_not_allowed")


async def test_a_missing_file_is_not_made(shop: Shop, tmp_path: Path) -> None:
    result = await shop.run(
        "create table a(b)",
        database="sqlite:none.db",
        read_only=False,
        allowed_statements=["create"],
    )
    assert result.reason == "tool_error"
    assert not (tmp_path / "none.db").exists()


async def test_mistakes_are_told_in_sqlites_words(shop: Shop) -> None:
    wrong = await shop.run("select missing from orders")
    assert wrong.reason == "tool_error"
    assert "no such column: missing" in wrong.error.message
    unbound = await shop.run("select ?, ?", parameters=[1])
    assert unbound.reason == "tool_error"
    odd = await shop.run("select ?", parameters=[{"a": 1}])
    assert odd.reason == "tool_error"


def test_a_wrong_policy_is_refused_when_it_is_built() -> None:
    for knobs, key in (
        ({"database": "mysql://u:hunter2@h/d"}, "database"),
        ({"database": "sqlite::memory:"}, "database"),
        ({"database": "sqlite:a.db", "timeout": "10 parsecs"}, "timeout"),
        ({"database": "sqlite:a.db", "allowed_statements": ["ATTACH"]}, "allowed_statements"),
        ({"database": "sqlite:a.db", "alowed_tables": ["a"]}, "alowed_tables"),
        ({}, "database"),
    ):
        with pytest.raises(ConfigError) as caught:
            SqlPolicy(**knobs)
        assert caught.value.key == key
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("knobs", "effects"),
    [
        ({}, {"read"}),
        ({"allowed_statements": ["select", "delete"]}, {"read"}),
        ({"read_only": False}, {"read"}),
        ({"read_only": False, "allowed_statements": ["insert"]}, {"read", "write"}),
        (
            {"read_only": False, "allowed_statements": ["insert", "delete"]},
            {"read", "write", "destructive"},
        ),
    ],
)
def test_effects_follow_the_knobs(knobs: Any, effects: set[str]) -> None:
    assert SqlPolicy(database="sqlite:a.db", **knobs).allowed_effects() == effects


async def test_a_profile_narrows_the_policy(database: Path) -> None:
    profile = {
        "rules": [{"allow": "sql"}],
        "policies": {"sql": {"allowed_tables": ["orders"], "max_rows": 1}},
    }
    knobs = {"database": f"sqlite:{database.name}"}
    async with broad_host(TEMPLATE, knobs, database.parent, profile=profile) as host:
        one = await host.call("sql", {"statement": "select id from orders"})
        assert one.unwrap()["rows"] == [[1]]
        other = await host.call("sql", {"statement": "select key from secrets"})
        assert_denied(other, "table_not_allowed")


@pytest.mark.parametrize(
    "statement",
    [
        "insert or replace into orders values (1, 'gone', 0, null)",
        "INSERT /* - */ OR -- '\n REPLACE into orders values (1, 'gone', 0, null)",
        "with n as (select 1) insert or replace into orders select 1, 'gone', 0, null from n",
        "with n as (select 1) replace into orders select 1, 'gone', 0, null from n",
        "update or replace orders set id = 1, item = 'gone' where id = 2",
        "insert into strict_ones values (1, 'gone')",
        "insert into orders(id, item) values (1, 'gone') on conflict (id) do update set item = 'x'",
    ],
)
async def test_to_insert_is_not_to_replace(shop: Shop, statement: str) -> None:
    shop.change(
        "create table strict_ones(id integer primary key on conflict replace, item text);"
        "insert into strict_ones values (1, 'lamp')"
    )
    before = shop.look("select id, item from orders"), shop.look("select * from strict_ones")
    words = ["select", "with", "insert"]
    result = await shop.run(
        statement,
        read_only=False,
        allowed_statements=[*words, "update"] if statement.startswith("update") else words,
    )
    assert_denied(result, "statement_not_allowed")
    after = shop.look("select id, item from orders"), shop.look("select * from strict_ones")
    assert after == before
    allowed = {"read_only": False, "allowed_statements": [*words, "update", "replace"]}
    assert (await shop.run(statement, **allowed)).success


async def test_a_trigger_that_replaces(shop: Shop) -> None:
    shop.change(
        "create table last(id integer primary key, line text); insert into last values (1, 'a');"
        "create trigger keep after insert on log begin"
        " insert or replace into last values (1, new.line); end"
    )
    adding = {"read_only": False, "allowed_statements": ["insert"]}
    assert_denied(await shop.run("insert into log values ('b')", **adding), "statement_not_allowed")
    adding["allowed_statements"] = ["insert", "replace"]
    assert (await shop.run("insert into log values ('b')", **adding)).success
    assert shop.look("select line from last") == [("b",)]


async def test_words_about_replacing_replace_nothing(shop: Shop) -> None:
    adding = {"read_only": False, "allowed_statements": ["insert", "select"]}
    for statement in (
        "insert into log values ('insert or replace')",
        "insert into log select 1 or replace('a', 'b', 'c') -- insert or replace",
    ):
        assert (await shop.run(statement, **adding)).success, statement


async def test_sorting_fills_no_disk(shop: Shop) -> None:
    result = await shop.run(
        "with recursive c(x, b) as (select 1, randomblob(900000) union all"
        " select x + 1, randomblob(900000) from c) select x from c order by b",
        max_temp="20MB",
        timeout="10s",
    )
    assert result.reason == "output_too_large"
    assert result.error.message == ("the statement needs temporary files over 20MB: sort less")


@pytest.mark.parametrize("what", ["file", "folder", "other_folder"])
async def test_what_takes_the_databases_place_is_not_followed(
    tmp_path: Path, database: Path, what: str
) -> None:
    data, secret = tmp_path / "data", tmp_path / "secret"
    for folder in (data, secret):
        folder.mkdir()
        shutil.copy(database, folder)
    async with broad_host(TEMPLATE, {"database": "sqlite:data/shop.db"}, tmp_path) as host:
        arguments = {"statement": "select key from secrets"}
        assert (await host.call("sql", arguments)).success
        if what == "file":
            (data / "shop.db").unlink()
            (data / "shop.db").symlink_to(secret / "shop.db")
        else:
            data.rename(tmp_path / "away")
            if what == "folder":
                data.symlink_to(secret)
            else:
                secret.rename(data)
        result = await host.call("sql", arguments)
        assert_denied(result, "path_outside_root")
        assert "canary" not in str(result.to_dict())


async def test_a_file_exchanged_while_it_is_opened(
    tmp_path: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.db"
    shutil.copy(database, other)
    connect = sqlite3.connect

    def slow_connect(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        database.rename(tmp_path / "kept.db")
        database.symlink_to(other)
        connection = connect(*args, **kwargs)
        connection.execute("PRAGMA application_id").fetchone()
        database.unlink()
        (tmp_path / "kept.db").rename(database)
        return connection

    async with broad_host(TEMPLATE, {"database": "sqlite:shop.db"}, tmp_path) as host:
        monkeypatch.setattr(sqlite3, "connect", slow_connect)
        result = await host.call("sql", {"statement": "select key from secrets"})
    assert_denied(result, "path_outside_root")


async def test_a_link_that_was_there_before_is_followed(tmp_path: Path, database: Path) -> None:
    (tmp_path / "link.db").symlink_to(database)
    async with broad_host(TEMPLATE, {"database": "sqlite:link.db"}, tmp_path) as host:
        assert (await host.call("sql", {"statement": "select 1"})).success
