"""`sql` on a real PostgreSQL server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from broad import broad_host
from postgres import PASSWORD, postgres_server, shared_postgres
from toolcrib import ConfigError, ToolHost, ToolResult
from toolcrib.testing import assert_denied
from toolcrib.tools.sql import TEMPLATE, SqlPolicy

SCHEMA = """
create table orders(id serial primary key, item text, price numeric, at timestamptz);
insert into orders(item, price, at) values ('lamp', 9.50, '2026-01-02 03:04:05+00'),
    ('rug', null, null);
create table secrets(key text);
insert into secrets values ('canary-7731');
create view peek as select key from secrets;
create schema other;
create table other.orders(note text);
create table log(line text);
"""
WRITING = {"read_only": False, "allowed_statements": ["select", "with", "insert", "update"]}


class Shop:
    """Calls the tool under a policy, and looks at what it left behind."""

    def __init__(self, url: str, folder: Path, direct: Any) -> None:
        self.url = url
        self.folder = folder
        self.direct = direct
        self.hosts: list[ToolHost] = []

    def host(self, **knobs: Any) -> ToolHost:
        knobs.setdefault("database", self.url)
        self.hosts.append(broad_host(TEMPLATE, knobs, self.folder))
        return self.hosts[-1]

    async def run(
        self, statement: str, *, parameters: Any = None, limit: int | None = None, **knobs: Any
    ) -> ToolResult:
        arguments = {"statement": statement, "parameters": parameters, "limit": limit}
        return await self.host(**knobs).call("sql", arguments)

    async def look(self, question: str) -> Any:
        return await self.direct.fetchval(question)

    async def ours(self, state: str = "%") -> int:
        """How many connections of the tool the server has."""
        return await self.look(
            "select count(*) from pg_stat_activity where application_name = 'toolcrib' "
            f"and datname = current_database() and state like '{state}'"
        )


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    url = await shared_postgres().new_database()
    direct = await asyncpg.connect(url)
    await direct.execute(SCHEMA)
    made = Shop(url, tmp_path, direct)
    yield made
    for host in made.hosts:
        await host.stop()
    await direct.close()


async def test_rows_come_as_json(shop: Shop) -> None:
    result = await shop.run("select * from orders order by id")
    assert result.unwrap() == {
        "columns": ["id", "item", "price", "at"],
        "rows": [[1, "lamp", "9.50", "2026-01-02T03:04:05+00:00"], [2, "rug", None, None]],
        "row_count": 2,
        "truncated": False,
    }


async def test_every_kind_of_value_is_json(shop: Shop) -> None:
    result = await shop.run(
        """select '\\x00ff'::bytea, 'NaN'::float8, date '2026-01-02', array[1, 2], row(1, 'a'),
        '{"a": 1}'::jsonb, inet '10.0.0.1', int4range(1, 5), interval '1 day',
        'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid, true, null"""
    )
    assert result.unwrap()["rows"] == [
        [
            *("AP8=", "nan", "2026-01-02", [1, 2], [1, "a"], '{"a": 1}', "10.0.0.1"),
            *("<Range [1, 5)>", "1 day, 0:00:00", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
            *(True, None),
        ]
    ]


async def test_parameters(shop: Shop) -> None:
    result = await shop.run("select item from orders where id = $1", parameters=[2])
    assert result.unwrap()["rows"] == [["rug"]]
    named = await shop.run("select 1", parameters={"a": 1})
    assert named.reason == "invalid_arguments"
    wrong = await shop.run("select item from orders where id = $1", parameters=["two"])
    assert wrong.reason == "tool_error"


@pytest.mark.parametrize(
    "statement",
    [
        "with gone as (delete from orders returning *) select * from gone",
        "select * into copied from orders",
        "select nextval('orders_id_seq')",
        "explain analyze delete from orders",
        "select item from orders for update",
        "select lo_create(0)",
        "explain analyze select lo_create(0)",
        "select query_to_xml('select lo_create(0)', true, true, '')",
        "with a as (select set_config('transaction_read_only', 'off', true)) select * from a",
    ],
)
async def test_a_reading_word_writes_nothing(shop: Shop, statement: str) -> None:
    result = await shop.run(statement)
    assert not result.success
    if "set_config" not in statement:
        assert_denied(result, "statement_not_allowed")
    assert await shop.look("select count(*) from orders") == 2
    assert await shop.look("select last_value from orders_id_seq") == 2
    assert await shop.look("select to_regclass('copied')") is None
    assert await shop.look("select count(*) from pg_largeobject_metadata") == 0


async def test_several_statements(shop: Shop) -> None:
    for knobs in ({}, WRITING):
        result = await shop.run("select 1; insert into log values ('x')", **knobs)
        assert_denied(result, "statement_not_allowed")
    assert await shop.look("select count(*) from log") == 0


@pytest.mark.parametrize(
    "statement",
    [
        "with gone as (delete from orders returning *) select * from gone",
        "with gone as (delete from orders returning item) insert into log select item from gone",
        "explain analyze delete from orders",
        "explain (analyze, verbose) delete from orders",
        "delete from orders",
        "explain analyze verbose create table copied as select 1",
    ],
)
async def test_what_is_not_listed_is_refused_wherever_it_stands(shop: Shop, statement: str) -> None:
    knobs = {**WRITING, "allowed_statements": ["select", "with", "insert", "explain"]}
    result = await shop.run(statement, **knobs)
    assert_denied(result, "statement_not_allowed")
    assert await shop.look("select count(*) from orders") == 2
    assert await shop.look("select count(*) from log") == 0
    assert await shop.look("select to_regclass('copied')") is None


async def test_writing_when_it_is_allowed(shop: Shop) -> None:
    added = await shop.run(
        "insert into log select 'n' || n from generate_series(1, 30) n", **WRITING
    )
    assert added.unwrap() == {"columns": [], "rows": [], "row_count": 30, "truncated": False}
    back = await shop.run("update log set line = 'z' returning line", limit=2, **WRITING)
    assert (back.unwrap()["rows"], back.unwrap()["truncated"]) == ([["z"], ["z"]], True)
    assert await shop.look("select count(*) from log where line = 'z'") == 30
    inside = await shop.run(
        "with new as (insert into log values ('cte') returning line) select * from new", **WRITING
    )
    assert inside.unwrap()["rows"] == [["cte"]]
    made = await shop.run(
        "create table more(a int)", read_only=False, allowed_statements=["create"]
    )
    assert made.success
    # A statement that only reads is held to reading, also on a database that may be written.
    moved = await shop.run("select nextval('orders_id_seq')", **WRITING)
    assert_denied(moved, "statement_not_allowed")


@pytest.mark.parametrize(
    "statement",
    [
        "select key from secrets",
        "select count(*) from secrets",
        "select key from peek",
        "select (select key from secrets)",
        "with orders as (select key from public.secrets) select * from orders",
        "select 1 from orders where exists (select 1 from secrets)",
        "explain select key from secrets",
        "explain (costs off) select key from secrets",
        "table secrets",
        "select note from other.orders",
        "select rolname from pg_authid",
    ],
)
async def test_tables_outside_the_rules(shop: Shop, statement: str) -> None:
    words = ["select", "with", "explain", "table"]
    result = await shop.run(statement, allowed_tables=["orders"], allowed_statements=words)
    assert_denied(result, "table_not_allowed")
    assert "canary" not in str(result.to_dict())


@pytest.mark.parametrize(
    "statement",
    [
        "select query_to_xml('select key from secrets', true, true, '')",
        "select table_to_xml('secrets', true, true, '')",
        "select U&\"quer\\0079_to_xml\"('select key from secrets', true, true, '')",
        "explain analyze select query_to_xml('select key from secrets', true, true, '')",
        "select * from ts_stat('select to_tsvector(key) from secrets')",
        "select pg_read_file('/etc/hostname')",
        "select 1 from orders where query_to_xml('select 1', true, true, '') is null",
    ],
)
async def test_ways_around_the_table_rules(shop: Shop, statement: str) -> None:
    result = await shop.run(statement, denied_tables=["secrets"])
    assert_denied(result, "statement_not_allowed")
    assert "canary" not in str(result.to_dict())


async def test_tables_within_the_rules(shop: Shop) -> None:
    rules: dict[str, Any] = {"allowed_tables": ["ord*", "other.orders"]}
    for statement in (
        "select count(*) from orders",
        "with few as (select id from orders) select count(*) from few",
        "select count(*) from other.orders",
        "explain select * from orders",
    ):
        assert (await shop.run(statement, **rules)).success, statement
    one = await shop.run("select item from orders where id = $1", parameters=[1], **rules)
    assert one.unwrap()["rows"] == [["lamp"]]
    hidden = await shop.run("select * from other.orders", denied_tables=["orders"])
    assert_denied(hidden, "table_not_allowed")
    ddl = await shop.run(
        "drop table secrets", read_only=False, allowed_statements=["drop"], **rules
    )
    assert_denied(ddl, "statement_not_allowed")
    assert await shop.look("select count(*) from secrets") == 1


async def test_rows_and_characters_are_limited_and_it_says_so(shop: Shop) -> None:
    numbers = "with recursive n(x) as (select 1 union all select x + 1 from n) select x from n"
    result = await shop.run(numbers, max_rows=25)
    assert (result.unwrap()["row_count"], result.unwrap()["truncated"]) == (25, True)
    short = await shop.run("select 'abcdefgh' from generate_series(1, 9)", max_chars=20)
    assert (short.unwrap()["row_count"], short.unwrap()["truncated"]) == (2, True)


async def test_a_huge_value_is_not_taken_in(shop: Shop) -> None:
    result = await shop.run("select repeat('x', 20000000)", max_chars=1000)
    assert result.reason == "output_too_large"
    assert "far over" in result.error.message  # seen on the way in, not when it was all there


async def test_a_slow_statement_is_stopped_on_the_server(shop: Shop) -> None:
    result = await shop.run("select pg_sleep(30)", timeout="200ms")
    assert result.reason == "timeout"
    assert await shop.ours("active") == 0


async def _until(question: Any, wanted: int) -> None:
    for _ in range(2000):
        if await question() == wanted:
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"never {wanted}")


async def test_a_cancelled_write_is_undone(shop: Shop) -> None:
    statement = "insert into log select 'late' from pg_sleep(30)"
    call = asyncio.ensure_future(shop.run(statement, **WRITING))
    await _until(lambda: shop.ours("active"), 1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await _until(shop.ours, 0)
    assert await shop.look("select count(*) from log") == 0


async def test_a_lock_is_waited_for_no_longer_than_the_time(shop: Shop) -> None:
    async with shop.direct.transaction():
        await shop.direct.execute("lock table log in access exclusive mode")
        result = await shop.run("insert into log values ('x')", timeout="200ms", **WRITING)
    assert result.reason == "timeout"
    assert await shop.look("select count(*) from log") == 0


async def test_nothing_is_carried_to_the_next_call(shop: Shop) -> None:
    host = shop.host()
    first = {"statement": "select set_config('search_path', 'other', false)"}
    assert (await host.call("sql", first)).success
    after = await host.call("sql", {"statement": "select count(*) from secrets"})
    assert after.unwrap()["rows"] == [[1]]
    assert await shop.ours() == 0


async def test_mistakes_are_told_in_the_servers_words(shop: Shop) -> None:
    result = await shop.run("select missing from orders")
    assert result.reason == "tool_error"
    assert result.error.message == 'PostgreSQL: column "missing" does not exist'


@pytest.mark.parametrize("fault", ["password", "port", "name"])
async def test_an_address_stays_secret_when_it_fails(
    shop: Shop, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    port = str(shared_postgres().port)
    url = {
        "password": shop.url.replace(PASSWORD, "hunter2-wrong"),
        "port": shop.url.replace(port, "1"),
        "name": shop.url.rsplit("/", 1)[0] + "/nowhere",
    }[fault]
    result = await shop.run("select 1", database=url)
    assert (result.reason, result.error.retryable) == ("upstream_error", True)
    told = str(result.to_dict()) + caplog.text + repr(SqlPolicy(database=url))
    for word in (PASSWORD, "hunter2", "127.0.0.1", "nowhere"):
        assert word not in told


async def test_a_server_that_goes_away(tmp_path: Path) -> None:
    with postgres_server() as server:
        knobs = {"database": server.url}
        async with broad_host(TEMPLATE, knobs, tmp_path) as host:
            call = asyncio.ensure_future(host.call("sql", {"statement": "select pg_sleep(30)"}))
            direct = await asyncpg.connect(server.url)
            active = "select count(*) from pg_stat_activity where query like 'select pg_sleep%'"
            await _until(lambda: direct.fetchval(active), 1)
            server.stop()
            assert (await call).reason == "upstream_error"
            direct.terminate()
            assert (await host.call("sql", {"statement": "select 1"})).reason == "upstream_error"
            server.start()
            assert (await host.call("sql", {"statement": "select 1"})).success


async def test_a_server_that_never_answers(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://u:p@127.0.0.1:{silent.getsockname()[1]}/d"
        knobs = {"database": url, "timeout": "200ms"}
        async with broad_host(TEMPLATE, knobs, tmp_path) as host:
            assert (await host.call("sql", {"statement": "select 1"})).reason == "timeout"


async def test_what_fails_when_it_becomes_final_is_undone(shop: Shop) -> None:
    await shop.direct.execute(
        "create table pair(id int primary key, other int references pair deferrable "
        "initially deferred)"
    )
    result = await shop.run("insert into pair values (1, 2)", **WRITING)
    assert result.reason == "tool_error"
    assert await shop.look("select count(*) from pair") == 0


def test_an_address_without_a_host(tmp_path: Path) -> None:
    for url in ("postgresql:///name", "postgresql://[half/name"):
        with pytest.raises(ConfigError, match="names no host"):
            broad_host(TEMPLATE, {"database": url}, tmp_path)


HIDING = """
create table pay(id int, card text) partition by range(id);
create table pay_1 partition of pay for values from (0) to (100);
insert into pay values (1, 'canary-card');
create function told() returns text language plpgsql stable as
    $$ begin return (select key from secrets limit 1); end $$;
create function folded(int) returns text language plpgsql immutable as
    $$ begin return (select key from secrets limit 1); end $$;
create type mood as enum ('well', 'unwell');
create table moods(id serial primary key, mood mood, of int references orders);
analyze secrets;
"""


@pytest.mark.parametrize(
    ("statement", "rules"),
    [
        ("select * from peek", {"denied_tables": ["peek"]}),
        ("select card from pay", {"denied_tables": ["pay"]}),
        ("select told()", {"denied_tables": ["secrets"]}),
        ("select told()", {"allowed_tables": ["orders"]}),
        ("select folded(1)", {"allowed_tables": ["orders"]}),
        ("select mcv::text from (select most_common_vals::text as mcv from pg_stats) s", {}),
        ("select setting from pg_settings", {}),
        ("select table_name from information_schema.tables", {}),
        ("select rolname from pg_authid", {"denied_tables": ["x"], "allowed_tables": ["*"]}),
        ("select note from other.orders", {"allowed_tables": ["o*"]}),
    ],
)
async def test_what_no_plan_shows_is_held_to_the_rules(
    shop: Shop, statement: str, rules: dict[str, Any]
) -> None:
    await shop.direct.execute(HIDING)
    result = await shop.run(statement, **(rules or {"denied_tables": ["secrets"]}))
    assert_denied(result, "table_not_allowed")
    assert "canary" not in str(result.to_dict())


@pytest.mark.parametrize(
    "statement",
    [
        "select * from orders where id = (table_to_xml('secrets', true, false, '')::text)::int",
        "select from orders where id = (table_to_xml/**/('secrets', true, true, '')::text)::int",
        "select 1 from orders where id = length(\"table_to_xml\" ('secrets',true,false,'')::text)",
        "select from orders where id = (U&\"tabl\\0065_to_xml\"('secrets',true,true,'')::text)::int",  # noqa: E501
        "select pg_stat_get_activity(null)",
        "select pg_get_viewdef('peek')",
    ],
)
async def test_functions_are_refused_before_a_plan_runs_them(shop: Shop, statement: str) -> None:
    result = await shop.run(statement, allowed_tables=["orders"])
    assert_denied(result, "statement_not_allowed")
    assert "canary" not in str(result.to_dict())


async def test_an_error_quotes_nothing_when_tables_are_hidden(shop: Shop) -> None:
    await shop.direct.execute(HIDING)
    rules = {"allowed_tables": ["orders"]}
    for statement in ("select folded(1)::int", "select told()::int"):
        result = await shop.run(statement, **rules)
        assert result.error.message == "PostgreSQL: invalid text representation (SQLSTATE 22P02)"
    result = await shop.run("select missing from orders", **rules)
    assert result.error.message == "PostgreSQL: undefined column (SQLSTATE 42703)"


async def test_what_belongs_to_an_allowed_table_needs_no_rule(shop: Shop) -> None:
    await shop.direct.execute(HIDING)
    rules = {"allowed_tables": ["orders", "moods"], **WRITING}
    added = await shop.run("insert into moods(mood, of) values ('well', 1) returning id", **rules)
    assert added.unwrap()["rows"] == [[1]]
    # The client looks the enumeration up in the catalog, which the caller may not read.
    read = await shop.run("select mood from moods where id = 1", allowed_tables=["moods"])
    assert read.unwrap()["rows"] == [["well"]]
    parent = await shop.run(
        "insert into moods(mood, of) values ('well', 2)", **{**rules, "allowed_tables": ["moods"]}
    )
    assert_denied(parent, "table_not_allowed")
    assert await shop.look("select count(*) from moods") == 1
    listed = await shop.run(
        "select count(*) > 0 from pg_class", allowed_tables=["pg_catalog.pg_class"]
    )
    assert listed.unwrap()["rows"] == [[True]]


async def test_a_trigger_is_held_to_the_same_rules(shop: Shop) -> None:
    await shop.direct.execute(
        """create function note() returns trigger language plpgsql as
        $$ begin insert into log values (new.item); return new; end $$;
        create trigger note after insert on orders for each row execute function note()"""
    )
    statement = "insert into orders(item) values ('mat')"
    refused = await shop.run(statement, allowed_tables=["orders"], **WRITING)
    assert_denied(refused, "table_not_allowed")
    assert await shop.look("select count(*) from orders") == 2
    assert (await shop.run(statement, allowed_tables=["orders", "log"], **WRITING)).success


async def test_an_upsert_is_an_update(shop: Shop) -> None:
    statement = "insert into orders(id, item) values (1, 'x') on conflict (id) do "
    adding = {"read_only": False, "allowed_statements": ["insert"]}
    assert_denied(
        await shop.run(statement + "update set item = 'gone'", **adding), "statement_not_allowed"
    )
    assert await shop.look("select item from orders where id = 1") == "lamp"
    assert (await shop.run(statement + "nothing", **adding)).success
    assert (await shop.run(statement + "update set item = 'new'", **WRITING)).success
    assert await shop.look("select item from orders where id = 1") == "new"


async def test_to_create_is_not_to_replace(shop: Shop) -> None:
    statement = "create /* */ or replace view peek as select 'other' as key"
    making = {"read_only": False, "allowed_statements": ["create"]}
    assert_denied(await shop.run(statement, **making), "statement_not_allowed")
    making["allowed_statements"] = ["create", "replace"]
    assert (await shop.run(statement, **making)).success


async def test_a_type_that_cannot_be_read_is_said(shop: Shop) -> None:
    result = await shop.run("select most_common_vals from pg_stats")
    assert result.error.message == "a column has a type that cannot be read: cast it to text"


async def test_what_a_helping_process_reads_is_seen_too(shop: Shop) -> None:
    await shop.direct.execute(HIDING)
    await shop.direct.execute("alter function told() parallel safe")
    name = await shop.look("select current_database()")
    version = shop.direct.get_server_version().major
    setting = "force_parallel_mode" if version < 16 else "debug_parallel_query"
    await shop.direct.execute(f"alter database {name} set {setting} = on")
    result = await shop.run("explain analyze select told() from orders", allowed_tables=["orders"])
    assert_denied(result, "table_not_allowed")
