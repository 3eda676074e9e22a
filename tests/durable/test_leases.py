"""Durable calls in the ledger, and what becomes of those whose host vanished."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from toolcrib import ToolHost, tool
from toolcrib.core.clock import SystemClock
from toolcrib.host.history import History, Wanted
from toolcrib.stores.sqlite import SqliteStore


class Later(SystemClock):
    """The system's clock, a minute ahead."""

    def time(self) -> float:
        return super().time() + 60.0


@tool(effects=["write"])
def put(text: str) -> str:
    """Keep a text."""
    if text == "bad":
        raise ValueError(text)
    return text


@tool(effects=["read"])
def look() -> str:
    """Look."""
    return "seen"


async def _states(path: Path) -> dict[str, str]:
    store = SqliteStore(path)
    await store.open()
    try:
        return {call.id: call.state for call in await store.calls(limit=1000)}
    finally:
        await store.close()


async def _events(path: Path, call_id: str) -> list[Any]:
    store = SqliteStore(path)
    await store.open()
    try:
        return await History(store).search(Wanted(call_id=call_id), limit=1000)
    finally:
        await store.close()


async def test_what_changes_something_is_in_the_ledger_and_what_reads_is_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t.db"
    async with ToolHost([put, look], store=f"sqlite:{path}") as host:
        good = await host.call("put", {"text": "a"})
        bad = await host.call("put", {"text": "bad"})
        await host.call("look")
        refused = await host.call("put", {"text": 3})
    assert refused.reason == "invalid_arguments"
    assert await _states(path) == {}  # what ended is on the trail
    for result in (good, bad):
        assert [e.type for e in await _events(path, result.call_id)][-1] == "call.finished"


async def test_a_running_call_is_known_as_running(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    go = asyncio.Event()
    begun: asyncio.Queue[None] = asyncio.Queue()

    @tool(effects=["write"])
    async def wait() -> None:
        """Wait."""
        begun.put_nowait(None)
        await go.wait()

    async with ToolHost([wait], store=f"sqlite:{path}") as host:
        task = asyncio.create_task(host.call("wait", call_id="w1"))
        await begun.get()
        assert await _states(path) == {"w1": "running"}
        go.set()
        await task
        go.clear()
        cancelled = asyncio.create_task(host.call("wait", call_id="w2"))
        await begun.get()
        assert (await _states(path))["w2"] == "running"
        assert host.cancel("w2")
        assert (await cancelled).reason == "cancelled"
    assert await _states(path) == {}


async def test_a_caller_that_goes_away_ends_its_call_in_the_ledger(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    begun = asyncio.Event()

    @tool(effects=["write"])
    async def wait() -> None:
        """Wait."""
        begun.set()
        await asyncio.sleep(60)

    async with ToolHost([wait], store=f"sqlite:{path}") as host:
        task = asyncio.create_task(host.call("wait", call_id="w1"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await _states(path) == {}
    assert (await _events(path, "w1"))[-1].data["reason"] == "cancelled"


async def test_a_call_whose_host_was_killed_ends_as_outcome_unknown_once(
    tmp_path: Path, scripts: Any
) -> None:
    path = tmp_path / "t.db"
    process = scripts.start("lasting_process.py", path)
    call_id = process.stdout.readline().decode().strip()
    process.kill()
    process.wait()
    async with ToolHost([look], store=f"sqlite:{path}") as host:
        await host.call("look")  # within the lease nobody may say that it is lost
    assert await _states(path) == {call_id: "running"}
    for _ in range(2):
        async with ToolHost([look], store=f"sqlite:{path}", clock=Later()) as host:
            await host.call("look")
    assert await _states(path) == {call_id: "outcome_unknown"}
    events = await _events(path, call_id)
    assert [event.type for event in events] == [
        "call.received",
        "call.decided",
        "call.started",
        "call.finished",
    ]
    ending = events[-1].data
    assert (ending["status"], ending["reason"]) == ("error", "outcome_unknown")
    assert "vanished" in ending["message"]


async def test_a_long_call_keeps_its_lease(tmp_path: Path) -> None:
    path = tmp_path / "t.db"

    @tool(effects=["write"])
    async def wait(seconds: float) -> str:
        """Wait."""
        await asyncio.sleep(seconds)
        return "done"

    config = {"version": 1, "host": {"lease": "400ms"}}
    async with (
        ToolHost([wait], store=f"sqlite:{path}", config=config) as host,
        ToolHost([put], store=f"sqlite:{path}", config=config) as other,
    ):
        task = asyncio.create_task(host.call("wait", {"seconds": 1.5}, call_id="w1"))
        while not task.done():
            await other.call("put", {"text": "a"})
            await (await other.start()).pipeline.leases.sweep()
            await asyncio.sleep(0.05)
        assert (await task).status == "ok"
    assert await _states(path) == {}
    assert [e.type for e in await _events(path, "w1")].count("call.finished") == 1


async def test_a_call_that_comes_back_late_has_still_one_ending(tmp_path: Path) -> None:
    path = tmp_path / "t.db"

    @tool(effects=["write"])
    async def sleep() -> str:
        """Block the loop for longer than the lease, as a machine that sleeps would, while another
        host looks after lost calls."""
        time.sleep(0.2)  # noqa: ASYNC251
        with ThreadPoolExecutor(1) as threads:
            threads.submit(asyncio.run, _open_and_close(path)).result()
        return "done"

    config = {"version": 1, "host": {"lease": "100ms"}}
    async with ToolHost([sleep], store=f"sqlite:{path}", config=config) as host:
        result = await host.call("sleep", call_id="w1")
        assert result.output == "done"  # the caller is told what the tool said
    assert await _states(path) == {"w1": "outcome_unknown"}
    events = await _events(path, "w1")
    types = [event.type for event in events]
    assert (types.count("call.finished"), types.count("call.late")) == (1, 1)
    late = next(event for event in events if event.type == "call.late")
    assert late.data["status"] == "ok"


async def _open_and_close(path: Path) -> None:
    async with ToolHost([look], store=f"sqlite:{path}") as host:
        await host.call("look")
