"""A trail that cannot be written: nothing new runs, and what ran says so."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from toolcrib import ToolHost, tool
from toolcrib.errors import StoreError
from toolcrib.stores.sqlite import SqliteStore


class Tally:
    """Tools that count, one of each effect."""

    def __init__(self) -> None:
        self.ran = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.inside = 0

        @tool(name="write", effects=["write"])
        async def write(n: int) -> int:
            self.inside += 1
            await self.gate.wait()
            self.ran += 1
            return n

        @tool(name="read", effects=["read"])
        async def read(n: int) -> int:
            self.ran += 1
            return n

        @tool(name="unknown")
        async def unknown(n: int) -> int:
            self.ran += 1
            return n

        self.tools = [write, read, unknown]


class Lock:
    """Another connection that keeps the whole file to itself for a while."""

    def __init__(self, db: Path) -> None:
        self._file = sqlite3.connect(db, isolation_level=None, timeout=5)

    def __enter__(self) -> None:
        self._file.execute("BEGIN IMMEDIATE")

    def __exit__(self, *exc: object) -> None:
        self._file.execute("ROLLBACK")
        self._file.close()


def _host(place: Any, tally: Tally, **parts: Any) -> ToolHost:
    config = place.config(**parts)
    del config["host"]["store"]
    return ToolHost(tally.tools, config=config, store=SqliteStore(place.db, busy_timeout=0.02))


async def _recovered(host: ToolHost, until: Any) -> None:
    async def works() -> bool:
        return (await host.call("write", {"n": 0})).success

    await until(works)


@pytest.mark.parametrize("name", ["write", "unknown"])
async def test_locked_file_refuses_and_recovers(name: str, place: Any, until: Any) -> None:
    tally = Tally()
    async with _host(place, tally) as host:
        assert (await host.call("write", {"n": 1})).success
        with Lock(place.db):
            first = await asyncio.gather(*(host.call(name, {"n": n}) for n in range(8)))
            assert {(r.status, r.reason) for r in first} == {("denied", "audit_unavailable")}
            # Once it is known, reading is refused as well.
            for each in ("read", "write", "unknown"):
                result = await host.call(each, {"n": 1})
                assert (result.status, result.reason) == ("denied", "audit_unavailable")
                assert result.error is not None
                assert result.error.retryable
                assert str(place.db) in result.error.message
            assert tally.ran == 1
        await _recovered(host, until)
        assert (await host.call("read", {"n": 1})).success
    found = await place.look()
    found.assert_whole()
    refused = [e for e in found.events if e.type == "call.denied"]
    assert len(refused) >= 11  # the refusals themselves are on the trail too, once it is written
    assert len(found.ids("call.received")) == len(refused) + tally.ran


async def test_read_only_calls_stop_once_the_failure_is_known(place: Any, until: Any) -> None:
    tally = Tally()
    async with _host(place, tally) as host:
        with Lock(place.db):

            async def refused() -> bool:
                return (await host.call("read", {"n": 1})).reason == "audit_unavailable"

            await until(refused, 3)
            before = tally.ran
            for _ in range(50):
                assert (await host.call("read", {"n": 1})).reason == "audit_unavailable"
            assert tally.ran == before
        await _recovered(host, until)
    (await place.look()).assert_whole()


async def test_tool_that_ran_already_says_that_its_ending_is_unwritten(
    place: Any, until: Any
) -> None:
    tally = Tally()
    async with _host(place, tally) as host:
        await host.start()
        tally.gate.clear()
        calls = [asyncio.create_task(host.call("write", {"n": n})) for n in range(4)]
        await until(lambda: tally.inside == 4)
        with Lock(place.db):
            tally.gate.set()
            results = await asyncio.gather(*calls)
            assert [(r.status, r.output) for r in results] == [("ok", n) for n in range(4)]
            assert [r.metadata["trail"] for r in results] == ["unwritten"] * 4
            assert tally.ran == 4
            assert (await host.call("write", {"n": 9})).reason == "audit_unavailable"
        await _recovered(host, until)
    found = await place.look()
    found.assert_whole()
    for result in results:
        assert found.one(result.call_id, "call.finished").data["status"] == "ok"


@pytest.mark.parametrize("how", ["at once", "by stopping"])
async def test_refusals_behind_a_failed_block_are_written_without_another_call(
    how: str, place: Any, until: Any
) -> None:
    tally = Tally()
    async with _host(place, tally) as host:
        with Lock(place.db):
            refused = [await host.call(name, {"n": 1}) for name in ("write", "read", "read")]
            assert {r.reason for r in refused} == {"audit_unavailable"}
        wanted = {r.call_id for r in refused}

        async def written() -> bool:
            return wanted <= (await place.look()).ids("call.denied")

        if how == "at once":
            await until(written, 4)
    assert await written()
    (await place.look()).assert_whole()


async def test_approval_that_cannot_be_kept_is_no_approval(place: Any, until: Any) -> None:
    tally = Tally()
    profiles = {"p": {"rules": [{"ask": "write"}, {"allow": "read"}]}}
    async with _host(place, tally, profiles=profiles) as host:
        with Lock(place.db):
            result = await host.call("write", {"n": 1})
            assert (result.status, result.reason) == ("denied", "audit_unavailable")
        assert tally.ran == 0

        async def asks() -> bool:
            call = asyncio.create_task(host.call("write", {"n": 1}))
            done, _ = await asyncio.wait([call], timeout=0.05)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            return not done

        await until(asks)
    assert tally.ran == 0
    (await place.look()).assert_whole()


async def test_answer_that_cannot_be_redeemed_lets_nothing_run(place: Any, until: Any) -> None:
    tally = Tally()
    profiles = {"p": {"rules": [{"ask": "write"}]}}
    async with _host(place, tally, profiles=profiles) as host:
        call = asyncio.create_task(host.call("write", {"n": 1}))
        (request,) = await until(host.approvals.list)
        # Somebody writes the yes into the file and keeps it locked: nobody can redeem it.
        file = sqlite3.connect(place.db, isolation_level=None, timeout=5)
        body = request.to_dict() | {"state": "allowed", "decided": request.created, "by": "bo"}
        file.execute(
            "UPDATE requests SET state = 'allowed', body = ? WHERE id = ?",
            (json.dumps(body), request.id),
        )
        with Lock(place.db):
            await asyncio.sleep(0.2)
            result = await asyncio.wait_for(call, 5) if call.done() else None
            assert tally.ran == 0
        file.close()
        if result is None:
            result = await asyncio.wait_for(call, 5)
        assert (result.status, tally.ran) in [("ok", 1), ("denied", 0)]
    (await place.look()).assert_whole()


async def test_full_disk_refuses_and_recovers(place: Any, scripts: Any) -> None:
    process = scripts.start("full_disk_process.py", place.db, place.folder / "effects")
    said = json.loads(await asyncio.to_thread(process.stdout.readline))
    assert said["last"] in ("audit_unavailable", "unwritten")
    assert said["refused"] == ["audit_unavailable"] * 20
    assert said["stood"]
    assert said["again"] == "ok"
    await asyncio.to_thread(process.wait)
    found = await place.look()
    found.assert_whole()
    refused = found.ids("call.denied")
    assert len(found.ids("call.finished") - refused) == said["ran"]


async def test_store_that_cannot_be_opened_lets_nothing_run(place: Any) -> None:
    """Neither the call that finds out, nor one that comes later."""
    tally = Tally()
    place.db.mkdir()  # a folder where the file should be
    host = ToolHost(tally.tools, config=place.config())
    for name in ("read", "write", "read"):
        try:
            result = await asyncio.wait_for(host.call(name, {"n": 1}), 2)
        except StoreError:
            continue
        assert result.reason == "audit_unavailable"
    assert tally.ran == 0
    place.db.rmdir()
    # Nothing is broken for good.
    assert (await asyncio.wait_for(host.call("write", {"n": 1}), 2)).success
    await host.stop()
    (await place.look()).assert_whole()


async def test_file_that_vanished_under_the_host_is_noticed_at_the_next_start(place: Any) -> None:
    tally = Tally()
    async with _host(place, tally) as host:
        assert (await host.call("write", {"n": 1})).success
    for name in ("", "-wal", "-shm"):
        place.db.with_name(f"crib.db{name}").unlink(missing_ok=True)
    async with _host(place, tally) as host:
        assert (await host.call("write", {"n": 2})).success
    found = await place.look()
    found.assert_whole()
    assert len(found.reports) == 1
