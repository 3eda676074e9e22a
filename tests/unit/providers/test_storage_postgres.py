"""What only the store in a database does: its connections, and what it says when they break."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from postgres import PASSWORD, postgres_server, shared_postgres
from toolcrib import ToolContext
from toolcrib.errors import StoreError, ToolFailure
from toolcrib.host.provider_settings import ProviderSettings
from toolcrib.host.publishing import Publisher
from toolcrib.host.supervisor import Supervisor
from toolcrib.providers.storage.provider import StorageProvider, factory
from toolcrib.testing import make_host


class Folder:
    """What a provider is lent."""

    folder = Path()

    def sandbox(self, name: str | None = None) -> Any:
        raise AssertionError("a store runs no commands")

    def file(self, path: str) -> Path:
        return Path(path)


def store_at(url: str, name: str = "notes", **settings: Any) -> StorageProvider:
    return factory(name, {"backend": "postgres", "url": url, **settings}, Folder())


async def call(store: StorageProvider, action: str, **arguments: Any) -> Any:
    return await store.execute(ToolContext(tool=f"{store.name}-{action}", arguments=arguments))


async def test_hosts_share_a_database_and_one_writer_wins() -> None:
    url = await shared_postgres().new_database()
    stores = [store_at(url) for _ in range(4)]
    # All of them find the tables missing at the same moment.
    await asyncio.gather(*(store.__aenter__() for store in stores))
    try:
        ended = await asyncio.gather(
            *(
                call(store, "write", key="k", value=n, if_version=0)
                for n in range(13)
                for store in stores
            ),
            return_exceptions=True,
        )
        assert ended.count({"version": 1}) == 1
        lost = [one for one in ended if isinstance(one, ToolFailure)]
        assert [failure.reason for failure in lost] == ["version_conflict"] * 51
    finally:
        for store in stores:
            await store.__aexit__(None, None, None)


async def test_it_works_where_stricter_isolation_is_the_rule() -> None:
    url = await shared_postgres().new_database()
    connection = await asyncpg.connect(url)
    database = url.rpartition("/")[2]
    await connection.execute(
        f"ALTER DATABASE {database} SET default_transaction_isolation = 'serializable'"
    )
    await connection.close()
    async with store_at(url) as store:
        ended = await asyncio.gather(
            *(call(store, "write", key=f"k{n}", value=n) for n in range(20))
        )
    assert sorted(one["version"] for one in ended) == list(range(1, 21))


async def test_it_leaves_no_connection_behind() -> None:
    url = await shared_postgres().new_database()
    connection = await asyncpg.connect(url)
    count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    try:
        async with store_at(url, connections=2) as store:
            await asyncio.gather(*(call(store, "list") for _ in range(10)))
            assert 2 <= await connection.fetchval(count) <= 3
        for _ in range(200):
            if await connection.fetchval(count) == 1:
                break
            await asyncio.sleep(0.01)
        assert await connection.fetchval(count) == 1
    finally:
        await connection.close()


async def test_what_is_wrong_with_a_database_is_told_without_its_password() -> None:
    server = shared_postgres()
    url = await server.new_database()
    cases = {
        url.replace(PASSWORD, "guessed-5db2"): "InvalidPasswordError",
        server.url_of("no_such_database"): "InvalidCatalogNameError",
        "postgresql://toolcrib:guessed-5db2@127.0.0.1:1/x": "cannot be reached",
        "postgresql://toolcrib:guessed-5db2@127.0.0.1:port/x": "its address is not one",
    }
    for address, words in cases.items():
        with pytest.raises(StoreError, match=words) as caught:
            await store_at(address).__aenter__()
        assert "guessed-5db2" not in repr(caught.value)
        assert PASSWORD not in str(caught.value)
        assert caught.value.__cause__ is None


async def test_a_change_that_breaks_while_it_is_confirmed_is_not_called_a_failure() -> None:
    url = await shared_postgres().new_database()
    async with store_at(url) as store:
        await call(store, "write", key="k", value=0)
        connection = await asyncpg.connect(url)
        try:
            # The database ends the connection at the very moment of confirming.
            await connection.execute("""
                CREATE FUNCTION drop_the_line() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
                CREATE CONSTRAINT TRIGGER late AFTER UPDATE ON toolcrib_storage_items
                DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION drop_the_line();
            """)
            with pytest.raises(ToolFailure) as caught:
                await call(store, "write", key="k", value=1)
            assert caught.value.reason == "outcome_unknown"
            assert "is not known" in caught.value.message
            await connection.execute("DROP TRIGGER late ON toolcrib_storage_items")
        finally:
            await connection.close()
        assert await call(store, "write", key="k", value=2) == {"version": 2}


async def test_a_cancelled_change_is_not_made() -> None:
    url = await shared_postgres().new_database()
    async with store_at(url) as store:
        await call(store, "write", key="k", value="before")
        connection = await asyncpg.connect(url)
        try:
            transaction = connection.transaction()
            await transaction.start()
            await connection.execute("LOCK TABLE toolcrib_storage_owners")
            task = asyncio.create_task(call(store, "write", key="k", value="late"))
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            for _ in range(2000):
                if await connection.fetchval(waiting):
                    break
                await asyncio.sleep(0.005)
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled()
            await transaction.rollback()
        finally:
            await connection.close()
        assert await call(store, "read", key="k") == {"value": "before", "version": 1}
        assert await call(store, "write", key="k", value="after") == {"version": 2}


async def test_its_tools_survive_a_restart_of_the_database() -> None:
    with postgres_server() as server:
        url = await server.new_database()
        said: list[str] = []
        settings = ProviderSettings(
            start_timeout=10, stop_timeout=3, restart_first=0.02, restart_most=0.05
        )
        async with make_host() as host:
            supervisor = Supervisor(
                "notes",
                lambda: store_at(url),
                publish=Publisher(host.catalog),
                announce=lambda event, data: said.append(event),
                settings=settings,
            )

            async def until(state: str) -> None:
                for _ in range(3000):
                    if supervisor.status().state == state:
                        return
                    await asyncio.sleep(0.01)
                raise AssertionError(f"it is never {state}: {supervisor.status()}")

            supervisor.start()
            assert await supervisor.first()
            assert (await host.call("notes-write", {"key": "k", "value": 1})).success
            await asyncio.to_thread(server.stop)
            # A call finds out, and is told so; nobody has to wait for the next look at its health.
            reason = (await host.call("notes-read", {"key": "k"})).reason
            assert reason in ("upstream_error", "tool_unavailable")
            await until("down")
            ended = await host.call("notes-read", {"key": "k"})
            assert ended.reason == "tool_unavailable"
            assert PASSWORD not in ended.error.message
            assert {tool.name for tool in host.tools() if tool.unavailable} == {
                "notes-read",
                "notes-write",
                "notes-list",
                "notes-delete",
                "notes-search",
            }
            await asyncio.to_thread(server.start)
            await until("up")
            assert (await host.call("notes-read", {"key": "k"})).output["value"] == 1
            assert (said[0], said[-1]) == ("provider.up", "provider.up")
            assert set(said[1:-1]) == {"provider.down"}
            await supervisor.stop()


async def test_a_store_that_was_never_up_is_listed_all_the_same() -> None:
    async with make_host() as host:
        supervisor = Supervisor(
            "notes",
            lambda: store_at("postgresql://nobody@127.0.0.1:1/x"),
            publish=Publisher(host.catalog),
            announce=lambda event, data: None,
        )
        supervisor.start()
        assert not await supervisor.first()
        assert len(host.tools()) == 5
        ended = await host.call("notes-list")
        assert ended.reason == "tool_unavailable"
        assert "the database cannot be reached" in ended.error.message
        await supervisor.stop()
