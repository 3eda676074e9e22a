"""Recording what a host says."""

from __future__ import annotations

import asyncio
import threading

import pytest

from toolcrib import Event, ToolContext, ToolHost, tool
from toolcrib.testing import EventRecorder, MockTool, make_host


@tool
async def work(ctx: ToolContext) -> str:
    """Work."""
    ctx.progress(0.5, "half way")
    ctx.emit("milestone", n=1)
    return "done"


async def test_it_records_a_call() -> None:
    async with ToolHost([work]) as host:
        recorder = EventRecorder(host)
        first = await host.call("work")
        second = await host.call("work")
    assert [event.type for event in recorder.of(first.call_id)] == [
        "call.received",
        "call.decided",
        "call.started",
        "call.progress",
        "tool.emitted",
        "call.finished",
    ]
    finished = recorder.only("call.finished")
    assert [event.call_id for event in finished] == [first.call_id, second.call_id]
    said = {"tool": "work", "name": "milestone", "data": {"n": 1}}
    assert recorder.only("tool.emitted")[0].data == said
    assert recorder.types[-1] == "host.stopped"


async def test_it_is_an_exporter_too() -> None:
    recorder = EventRecorder()
    async with make_host([MockTool("echo")], exporters=[recorder]) as host:
        result = await host.call("echo")
    assert "call.finished" in [event.type for event in recorder.of(result.call_id)]
    assert host.bus.counts()["recorder"].failed == 0


async def test_it_stops_and_forgets() -> None:
    async with make_host([MockTool("echo")]) as host:
        recorder = EventRecorder().attach(host)
        await host.call("echo")
        recorder.clear()
        assert recorder.events == []
        await host.call("echo")
        assert recorder.only("call.finished")
        recorder.detach()
        before = recorder.events
        await host.call("echo")
    assert recorder.events == before


async def test_waiting_for_what_has_happened_and_for_what_will() -> None:
    go = asyncio.Event()

    async def slow(_: object) -> None:
        await go.wait()

    async with make_host([MockTool("slow", side_effect=slow)]) as host:
        recorder = EventRecorder(host)
        calling = asyncio.create_task(host.call("slow"))
        started = await recorder.wait_for("call.started")
        go.set()
        finished = await recorder.wait_for("call.finished")
        assert started.call_id == finished.call_id == (await calling).call_id
        assert await recorder.wait_for("call.started") is started


async def test_waiting_in_vain_says_what_there_was() -> None:
    recorder = EventRecorder()
    recorder.record(Event(id="", type="tool.log", time=0.0))
    with pytest.raises(AssertionError, match=r"no call\.denied happened .* there was: tool\.log"):
        await recorder.wait_for("call.denied", timeout=0.01)


async def test_events_of_other_threads_end_a_wait() -> None:
    recorder = EventRecorder()
    waiting = asyncio.create_task(recorder.wait_for("tool.log"))
    await asyncio.sleep(0)
    event = Event(id="", type="tool.log", time=0.0)
    thread = threading.Thread(target=recorder.record, args=(event,))
    thread.start()
    assert await waiting is event
    thread.join()


async def test_a_misspelled_type_is_no_silence() -> None:
    recorder = EventRecorder()
    with pytest.raises(ValueError, match=r"did you mean call\.denied"):
        recorder.only("call.denyed")
    with pytest.raises(ValueError, match="there is no event 'x'"):
        await recorder.wait_for("x")
