"""Durable calls in the ledger, and what becomes of those whose host vanished."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from toolcrib import ToolContext, ToolHost, tool
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
    """The states of what is in the ledger; leases, whose ids nobody knows before, as `lease`."""
    store = SqliteStore(path)
    await store.open()
    try:
        found = await store.calls(limit=1000)
    finally:
        await store.close()
    leases = [call.id for call in found if call.id.startswith("run/")]
    assert len(leases) <= 1
    return {"lease" if call.id in leases else call.id: call.state for call in found}


async def _endings(path: Path) -> Counter[tuple[str, str]]:
    """How often the trail says what of which call, of what can be said at its end."""
    store = SqliteStore(path)
    await store.open()
    try:
        events = await History(store).search(Wanted(), limit=10_000)
    finally:
        await store.close()
    said: Counter[tuple[str, str]] = Counter()
    for event in events:
        if event.type in ("call.finished", "call.denied"):
            said[event.call_id or "", event.data["reason"] or "ok"] += 1
        elif event.type == "call.late":
            said[event.call_id or "", "late"] += 1
    return said


def _as_after_death(path: Path, folder: Path) -> Path:
    """The store as it would be found if everybody who has it open died now."""
    copy = folder / "left.db"
    with sqlite3.connect(path) as source, sqlite3.connect(copy) as target:
        source.backup(target)
    source.close()
    target.close()
    shutil.copy(f"{path}.key", f"{copy}.key")
    return copy


class Waiting:
    """A tool that runs until it is let go, and the names of the calls that have begun."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.go = asyncio.Event()

    async def __call__(self, ctx: ToolContext) -> str:
        self.begun.put_nowait(ctx.call_id)
        await self.go.wait()
        return "done"


def _asked(host: ToolHost) -> asyncio.Event:
    """Set when a person is asked."""
    asked = asyncio.Event()
    host.on_event(lambda event: asked.set() if event.type == "approval.requested" else None)
    return asked


def _lasting(name: str, **settings: Any) -> tuple[Waiting, Any]:
    waiting = Waiting()

    async def last(ctx: ToolContext) -> str:
        """Last."""
        return await waiting(ctx)

    return waiting, tool(name=name, **settings)(last)


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
        assert await _states(path) == {"lease": "running"}
        go.set()
        await task
        go.clear()
        cancelled = asyncio.create_task(host.call("wait", call_id="w2"))
        await begun.get()
        assert await _states(path) == {"lease": "running"}
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
    assert await _states(path) == {"lease": "running"}
    for _ in range(2):
        async with ToolHost([look], store=f"sqlite:{path}", clock=Later()) as host:
            await host.call("look")
    assert await _states(path) == {call_id: "outcome_unknown", "lease": "outcome_unknown"}
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
    assert await _states(path) == {"w1": "outcome_unknown", "lease": "outcome_unknown"}
    events = await _events(path, "w1")
    types = [event.type for event in events]
    assert (types.count("call.finished"), types.count("call.late")) == (1, 1)
    late = next(event for event in events if event.type == "call.late")
    assert late.data["status"] == "ok"


async def _open_and_close(path: Path) -> None:
    async with ToolHost([look], store=f"sqlite:{path}"):
        pass


async def test_calls_that_run_together_share_a_lease(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    waiting, last = _lasting("last", effects=["write"])
    async with ToolHost([last, put], store=f"sqlite:{path}") as host:
        task = asyncio.create_task(host.call("last", call_id="w1"))
        await waiting.begun.get()
        await asyncio.gather(*(host.call("put", {"text": "a"}) for _ in range(5)))
        assert await _states(path) == {"lease": "running"}
        waiting.go.set()
        assert (await task).status == "ok"
        assert await _states(path) == {}


async def test_only_what_had_begun_and_not_ended_is_written_off(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    waiting, last = _lasting("last", effects=["write"])
    reading, read = _lasting("read", effects=["read"])
    _, ask = _lasting("ask", effects=["write"], requires_approval=True)
    async with ToolHost([last, read, ask, put], store=f"sqlite:{path}") as host:
        # With a listener, also that something reads is on the trail at once.
        asked = _asked(host)
        tasks = [
            asyncio.create_task(host.call(name, call_id=call_id))
            for name, call_id in (("last", "w1"), ("last", "w2"), ("read", "r1"), ("ask", "a1"))
        ]
        for each in (waiting, waiting, reading):
            await each.begun.get()
        await asked.wait()
        await host.call("put", {"text": "a"}, call_id="p1")
        left = _as_after_death(path, tmp_path)
        host.cancel("a1")
        waiting.go.set()
        reading.go.set()
        await asyncio.gather(*tasks)
    hosts = [ToolHost([look], store=f"sqlite:{left}", clock=Later()) for _ in range(3)]
    await asyncio.gather(*(host.start() for host in hosts))
    await asyncio.gather(*(host.stop() for host in hosts))
    unknown = {(call_id, "outcome_unknown"): 1 for call_id in ("w1", "w2", "r1")}
    assert await _endings(left) == {**unknown, ("p1", "ok"): 1}


async def test_what_an_approval_let_run_is_written_off_too(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    waiting, ask = _lasting("ask", effects=["write"], requires_approval=True)
    async with ToolHost([ask], store=f"sqlite:{path}") as host:
        asked = _asked(host)
        task = asyncio.create_task(host.call("ask", call_id="a1"))
        await asked.wait()
        (request,) = await host.approvals.list()
        await host.approvals.decide(request.id, allow=True, by="me")
        await waiting.begun.get()
        left = _as_after_death(path, tmp_path)
        waiting.go.set()
        await task
    async with ToolHost([look], store=f"sqlite:{left}", clock=Later()):
        pass
    assert await _endings(left) == {("a1", "outcome_unknown"): 1}


async def test_a_host_that_lost_its_lease_takes_another_one(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    waiting, last = _lasting("last", effects=["write"])
    reading, read = _lasting("read", effects=["read"])

    @tool(effects=["write"])
    async def sleep() -> None:
        """Block the loop for longer than the lease, and have others look after lost calls."""
        time.sleep(0.2)  # noqa: ASYNC251
        with ThreadPoolExecutor(1) as threads:
            threads.submit(asyncio.run, _open_and_close(path)).result()

    config = {"version": 1, "host": {"lease": "100ms"}}
    async with ToolHost([sleep, last, read], store=f"sqlite:{path}", config=config) as host:
        host.on_event(lambda event: None)
        early = [
            asyncio.create_task(host.call("last", call_id="w1")),
            asyncio.create_task(host.call("last", call_id="w2")),
            asyncio.create_task(host.call("read", call_id="r1")),
        ]
        for each in (waiting, waiting, reading):
            await each.begun.get()
        await host.call("sleep", call_id="s1")
        late = asyncio.create_task(host.call("last", call_id="w3"))
        await waiting.begun.get()
        left = _as_after_death(path, tmp_path)
        early[1].cancel()  # nobody hears how this one ended
        await asyncio.wait([early[1]])
        waiting.go.set()
        reading.go.set()
        assert [r.status for r in await asyncio.gather(early[0], early[2], late)] == ["ok"] * 3
        after = await host.call("last", call_id="w4")
        assert after.status == "ok"
    lost = {(call_id, "outcome_unknown"): 1 for call_id in ("w1", "w2", "r1", "s1")}
    told = {(call_id, "late"): 1 for call_id in ("w1", "w2", "r1", "s1")}
    assert await _endings(path) == {**lost, **told, ("w3", "ok"): 1, ("w4", "ok"): 1}
    # Had it died with its second lease, the calls of the first one would not be ended again.
    async with ToolHost([look], store=f"sqlite:{left}", clock=Later()):
        pass
    found = await _endings(left)
    assert {key: found[key] for key in lost} == lost
    assert found["w3", "outcome_unknown"] == 1


async def test_the_first_call_after_a_long_sleep_runs(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    waiting, last = _lasting("last", effects=["write"])
    config = {"version": 1, "host": {"lease": "100ms"}}
    async with ToolHost([last, put], store=f"sqlite:{path}", config=config) as host:
        first = asyncio.create_task(host.call("last", call_id="w1"))
        await waiting.begun.get()
        time.sleep(0.2)  # noqa: ASYNC251 - nothing of this host goes on, as in a machine asleep
        with ThreadPoolExecutor(1) as threads:
            threads.submit(asyncio.run, _open_and_close(path)).result()
        assert (await host.call("put", {"text": "a"}, call_id="p1")).status == "ok"
        waiting.go.set()
        await first
    lost = {("w1", "outcome_unknown"): 1, ("w1", "late"): 1}
    assert await _endings(path) == {**lost, ("p1", "ok"): 1}


async def test_a_call_that_reaches_the_disk_after_its_lease_does_not_run(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    waiting, last = _lasting("last", effects=["write"])
    config = {"version": 1, "host": {"lease": "1s"}}
    async with ToolHost([last], store=f"sqlite:{path}", config=config) as host:
        first = asyncio.create_task(host.call("last", call_id="w1"))
        await waiting.begun.get()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        # Somebody takes the lease for lost, while the record of the second call waits its turn.
        other.execute("UPDATE calls SET state = 'outcome_unknown', lease_until = NULL")
        second = asyncio.create_task(host.call("last", call_id="w2"))
        await asyncio.sleep(0.6)
        other.execute("COMMIT")
        other.close()
        assert (await second).reason == "audit_unavailable"
        assert waiting.begun.empty()
        waiting.go.set()
        assert (await first).status == "ok"
    assert await _endings(path) == {("w1", "ok"): 1, ("w2", "audit_unavailable"): 1}


async def test_a_call_that_could_not_be_written_keeps_no_lease(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    store = SqliteStore(path, busy_timeout=0.05)
    async with ToolHost([put], store=store) as host:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        refused = await host.call("put", {"text": "a"}, call_id="p1")
        other.execute("COMMIT")
        other.close()
        assert refused.reason == "audit_unavailable"
        for _ in range(200):
            if (await host.call("put", {"text": "a"})).status == "ok":
                break
            await asyncio.sleep(0.01)
        assert await _states(path) == {}
    assert (await _endings(path))["p1", "audit_unavailable"] == 1


async def test_a_start_with_nothing_to_find_does_not_wait_for_the_disk(tmp_path: Path) -> None:
    swept: list[float] = []

    class Noting(SqliteStore):
        async def sweep_calls(self, now: float) -> list[Any]:
            swept.append(now)
            return await super().sweep_calls(now)

    path = tmp_path / "t.db"
    async with ToolHost([put], store=Noting(path)) as host:
        parts = await host.start()
        assert swept == []
        assert (await host.call("put", {"text": "a"})).status == "ok"
        assert await parts.pipeline.leases.sweep() == 0
        assert swept == []
    async with ToolHost([put], store=Noting(path)) as host:
        assert [event.type for event in await host.trail()].count("host.started") == 2
