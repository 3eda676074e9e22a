"""Starting and stopping a host: once, cleanly, and with an ending for every call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolcrib import ToolHost, tool
from toolcrib.errors import ToolcribError
from toolcrib.stores.memory import MemoryStore
from toolcrib.stores.sqlite import SqliteStore
from toolcrib.testing import EventRecorder


class Work:
    """Tools that take a while."""

    def __init__(self) -> None:
        self.began = 0
        self.ended: list[str] = []
        self.cleaned = 0
        self.go = asyncio.Event()
        self.release = asyncio.Event()

        @tool(effects=["write"])
        async def steady() -> str:
            self.began += 1
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.cleaned += 1
                raise
            self.ended.append("steady")
            return "done"

        @tool(effects=["write"])
        async def stubborn() -> str:
            self.began += 1
            while not self.release.is_set():
                try:
                    await self.release.wait()
                except asyncio.CancelledError:
                    self.cleaned += 1
            self.ended.append("stubborn")
            return "done"

        @tool(effects=["read"])
        async def quick() -> str:
            return "quick"

        self.tools = [steady, stubborn, quick]


async def test_stop_waits_for_running_calls(place: Any, until: Any) -> None:
    work = Work()
    host = ToolHost(work.tools, config=place.config(host={"drain": "5s"}))
    await host.start()
    calls = [asyncio.create_task(host.call("steady")) for _ in range(5)]
    await until(lambda: work.began == 5)
    stopping = asyncio.create_task(host.stop())
    await asyncio.sleep(0.05)
    assert not stopping.done()
    late = await host.call("quick")
    assert (late.status, late.reason) == ("error", "host_stopping")
    work.go.set()
    await asyncio.wait_for(stopping, 5)
    assert [(await call).status for call in calls] == ["ok"] * 5
    found = await place.look()
    found.assert_whole()
    assert found.events[-1].type == "host.stopped"
    assert found.one(late.call_id, "call.finished").data["reason"] == "host_stopping"


async def test_stop_cancels_calls_over_the_limit(place: Any, until: Any) -> None:
    work = Work()
    host = ToolHost(work.tools, config=place.config(host={"drain": "50ms"}))
    await host.start()
    calls = [asyncio.create_task(host.call("steady")) for _ in range(3)]
    await until(lambda: work.began == 3)
    await asyncio.wait_for(host.stop(), 5)
    results = await asyncio.gather(*calls)
    assert {(r.status, r.reason) for r in results} == {("error", "host_stopping")}
    assert (work.cleaned, work.ended) == (3, [])
    found = await place.look()
    found.assert_whole()
    endings = {found.one(r.call_id, "call.finished").data["reason"] for r in results}
    assert endings == {"host_stopping"}


async def test_call_that_will_not_stop_has_its_ending_all_the_same(place: Any, until: Any) -> None:
    work = Work()
    host = ToolHost(work.tools, config=place.config(host={"drain": "0s"}))
    await host.start()
    call = asyncio.create_task(host.call("stubborn"))
    await until(lambda: work.began == 1)
    await asyncio.wait_for(host.stop(), 10)
    assert work.cleaned >= 1
    found = await place.look()
    work.release.set()
    done, _ = await asyncio.wait([call], timeout=2)
    call.cancel()
    assert done  # whoever waits for it is not left waiting for a store that is closed
    found.assert_whole()
    (ending,) = [e for e in found.events if e.type == "call.finished"]
    assert ending.data["reason"] == "host_stopping"
    assert ending.data["still_running"]


async def test_calls_that_wait_for_a_place_or_a_person_end_too(place: Any, until: Any) -> None:
    work = Work()
    profiles = {
        "p": {
            "rules": [{"allow": "steady"}, {"ask": "quick"}],
            "limits": {"concurrent": 1, "tools": ["steady"]},
        }
    }
    host = ToolHost(work.tools, config=place.config(host={"drain": "20ms"}, profiles=profiles))
    await host.start()
    running = [asyncio.create_task(host.call("steady")) for _ in range(3)]
    asking = asyncio.create_task(host.call("quick"))
    await until(lambda: work.began == 1)
    (request,) = await until(host.approvals.list)
    await asyncio.wait_for(host.stop(), 5)
    results = await asyncio.gather(*running, asking)
    assert {r.reason for r in results} == {"host_stopping"}
    assert work.began == 1
    found = await place.look()
    found.assert_whole()
    store = SqliteStore(place.db)
    await store.open()
    kept = await store.get_request(request.id)
    await store.close()
    assert kept is not None
    assert kept.state == "pending"


async def test_calls_after_stop_are_refused_clearly(place: Any) -> None:
    work = Work()
    for options in ({"config": place.config()}, {}):
        host = ToolHost(work.tools, **options)
        async with host:
            assert (await host.call("quick")).success
        for name in ("quick", "steady", "quick"):
            result = await asyncio.wait_for(host.call(name), 2)
            assert (result.status, result.reason) == ("error", "host_stopping")
        assert work.began == 0
    (await place.look()).assert_whole()


async def test_host_that_never_started_and_was_stopped_says_so() -> None:
    host = ToolHost(Work().tools)
    await host.stop()
    with pytest.raises(ToolcribError, match="stopped"):
        await host.start()


async def test_stop_twice_and_at_the_same_time(place: Any) -> None:
    work = Work()
    recorder = EventRecorder()
    host = ToolHost(work.tools, config=place.config())
    recorder.attach(host)
    await host.start()
    await host.call("quick")
    await asyncio.gather(host.stop(), host.stop(), host.stop())
    await host.stop()
    assert recorder.types.count("host.started") == 1
    assert recorder.types.count("host.stopped") == 1
    found = await place.look()
    assert [e.type for e in found.events].count("host.stopped") == 1


async def test_stop_closes_sessions_and_tells_it_in_order(place: Any) -> None:
    work = Work()
    recorder = EventRecorder()
    host = ToolHost(work.tools, config=place.config())
    recorder.attach(host)
    session = host.session(principal="ada")
    async with session:
        await session.call("quick")
        await host.stop()
        assert session.closed
    types = [t for t in recorder.types if t.startswith(("host.", "session."))]
    assert types == ["host.started", "session.opened", "session.closed", "host.stopped"]
    assert recorder.types[-1] == "host.stopped"


class CountedMemory(MemoryStore):
    """Counts how often it is opened, and takes its time over it."""

    def __init__(self) -> None:
        super().__init__()
        self._closed = True
        self.opened = 0

    async def open(self) -> None:
        """Open, slowly."""
        self.opened += 1
        await asyncio.sleep(0.02)
        await super().open()


@pytest.mark.parametrize("way", ["start", "call", "approvals", "mixed"])
async def test_many_tasks_that_start_it_open_it_once_and_wait_until_it_is_open(way: str) -> None:
    work = Work()
    store = CountedMemory()
    recorder = EventRecorder()
    host = ToolHost(work.tools, store=store)
    recorder.attach(host)

    async def begin(number: int) -> None:
        kind = ("start", "call", "approvals")[number % 3] if way == "mixed" else way
        if kind == "start":
            await host.start()
            await store.runs()
        elif kind == "call":
            assert (await host.call("quick")).success
        else:
            assert await host.approvals.list() == []

    await asyncio.gather(*(begin(number) for number in range(12)))
    assert store.opened == 1
    assert recorder.types.count("host.started") == 1
    assert recorder.types[0] == "host.started"
    await host.stop()


async def test_many_tasks_that_start_it_on_a_file_all_get_their_records(place: Any) -> None:
    work = Work()
    host = ToolHost(work.tools, config=place.config())
    results = await asyncio.gather(*(host.call("quick") for _ in range(20)))
    assert all(result.success for result in results)
    await host.stop()
    found = await place.look()
    found.assert_whole()
    assert len(found.reports) == 1
    assert found.events[0].type == "host.started"


async def test_cancel_that_comes_when_the_call_has_just_ended_hits_nobody(until: Any) -> None:
    """`host.cancel` stops a call and never what its task does afterwards."""
    work = Work()
    async with ToolHost(work.tools) as host:
        afterwards = False

        async def caller() -> Any:
            nonlocal afterwards
            result = await host.call("steady", call_id="mine")
            await asyncio.sleep(0.02)
            afterwards = True
            return result

        task = asyncio.create_task(caller())
        await until(lambda: work.began == 1)
        work.go.set()
        host.cancel("mine")
        await asyncio.wait([task], timeout=5)
        assert not task.cancelled()
        assert afterwards
        assert task.result().reason in (None, "cancelled")
