"""Listeners get every event in order, and cannot hold up or break the one who publishes."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Sequence
from typing import Any, Literal

import pytest

from toolcrib.core.events import Event
from toolcrib.observe import lane
from toolcrib.observe.bus import Bus


def event(number: int = 0) -> Event:
    return Event(id=f"r.{number}.0", type="tool.log", time=float(number), data={"n": number})


class Recorder:
    """An exporter that keeps what it gets."""

    def __init__(self, mode: Literal["inline", "queued"] = "queued") -> None:
        self.mode: Literal["inline", "queued"] = mode
        self.batches: list[list[Event]] = []
        self.got = asyncio.Event()
        self.closed = False

    @property
    def numbers(self) -> list[int]:
        return [e.data["n"] for batch in self.batches for e in batch]

    async def export(self, batch: Sequence[Event]) -> None:
        self.batches.append(list(batch))
        self.got.set()

    async def close(self) -> None:
        self.closed = True


def test_callbacks_get_events_until_they_unsubscribe() -> None:
    bus = Bus()
    seen: list[Event] = []
    assert not bus.active
    stop = bus.on_event(seen.append)
    stop_twin = bus.on_event(seen.append)
    assert bus.active
    bus.publish(event(1))
    assert [e.data["n"] for e in seen] == [1, 1]
    stop()
    bus.publish(event(2))
    assert [e.data["n"] for e in seen] == [1, 1, 2]
    stop_twin()
    stop_twin()
    assert not bus.active


def test_a_raising_callback_is_counted_and_told_of_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [0.0]
    bus = Bus(clock=lambda: now[0])
    seen: list[Event] = []

    def broken(_: Event) -> None:
        raise RuntimeError("no. Authorization: Bearer abc123def456")

    bus.on_event(broken)
    bus.on_event(seen.append)
    with caplog.at_level(logging.WARNING, logger="toolcrib"):
        for number in range(3):
            bus.publish(event(number))
        now[0] = 61.0
        bus.publish(event(3))
    assert bus.failed == 4
    assert len(seen) == 4
    assert len(caplog.records) == 2
    assert "broken" in caplog.text
    assert "abc123def456" not in caplog.text


async def test_subscription_from_now_on() -> None:
    bus = Bus()
    bus.publish(event(0))
    subscription = bus.subscribe()
    bus.publish(event(1))
    bus.publish(event(2))
    assert [(await anext(subscription)).data["n"] for _ in range(2)] == [1, 2]
    waiting = asyncio.create_task(anext(subscription))
    await asyncio.sleep(0)
    bus.publish(event(3))
    assert (await waiting).data["n"] == 3


async def test_a_slow_reader_loses_the_oldest() -> None:
    bus = Bus()
    subscription = bus.subscribe(maxsize=3)
    for number in range(10):
        bus.publish(event(number))
    assert subscription.dropped == 7
    assert [(await anext(subscription)).data["n"] for _ in range(3)] == [7, 8, 9]


def test_a_subscription_holds_something() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Bus().subscribe(maxsize=0)


async def test_a_closed_subscription_ends_after_what_waits() -> None:
    bus = Bus()
    async with bus.subscribe() as subscription:
        bus.publish(event(1))
    bus.publish(event(2))
    assert [e.data["n"] async for e in subscription] == [1]
    assert not bus.active


async def test_a_cancelled_read_loses_nothing() -> None:
    bus = Bus()
    subscription = bus.subscribe()
    waiting = asyncio.create_task(anext(subscription))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    bus.publish(event(1))
    assert (await anext(subscription)).data["n"] == 1


def test_a_forgotten_subscription_is_let_go() -> None:
    bus = Bus()
    subscription = bus.subscribe()
    bus.publish(event(1))
    assert bus.active
    del subscription
    gc.collect()
    bus.publish(event(2))
    assert not bus.active


def test_subscriptions_in_other_loops_and_publishing_threads() -> None:
    bus = Bus()
    readers = [bus.subscribe(maxsize=10_000) for _ in range(3)]
    results: dict[int, list[int]] = {}

    def read(index: int) -> None:
        async def main() -> None:
            results[index] = [e.data["n"] async for e in readers[index]]

        asyncio.run(main())

    def publish(start: int) -> None:
        for number in range(start, start + 500):
            bus.publish(event(number))

    reading = [threading.Thread(target=read, args=(i,)) for i in range(3)]
    writing = [threading.Thread(target=publish, args=(s,)) for s in (0, 1000, 2000)]
    for thread in (*reading, *writing):
        thread.start()
    for thread in writing:
        thread.join(20)
    for reader in readers:
        reader.close()
    for thread in reading:
        thread.join(20)
    expected = [*range(500), *range(1000, 1500), *range(2000, 2500)]
    for index in range(3):
        assert sorted(results[index]) == expected
        firsts = [n for n in results[index] if n < 1000]
        assert firsts == sorted(firsts)


async def test_a_reader_whose_loop_is_gone_is_dropped() -> None:
    bus = Bus()
    subscription = bus.subscribe()

    def read() -> None:
        loop = asyncio.new_event_loop()
        with pytest.raises(TimeoutError):
            loop.run_until_complete(asyncio.wait_for(anext(subscription), 0.01))
        task = loop.create_task(anext(subscription))
        loop.run_until_complete(asyncio.sleep(0))
        task.cancel()
        loop.close()

    await asyncio.to_thread(read)
    bus.publish(event(1))
    bus.publish(event(2))
    assert not bus.active


@pytest.mark.parametrize("mode", ["inline", "queued"])
async def test_exporters_get_everything_in_order(mode: Literal["inline", "queued"]) -> None:
    bus = Bus()
    recorder = Recorder(mode)
    bus.add_exporter(recorder)
    bus.publish(event(0))
    await bus.start()
    for number in range(1, 2000):
        bus.publish(event(number))
    await bus.stop()
    assert recorder.numbers == list(range(2000))
    assert max(map(len, recorder.batches)) <= lane.BATCH
    assert recorder.closed
    assert bus.counts() == {"Recorder": (2000, 0, 0)}


async def test_an_inline_exporter_does_not_wait_for_company() -> None:
    bus = Bus()
    recorder = Recorder("inline")
    await bus.start()
    bus.add_exporter(recorder, "mine")
    await asyncio.sleep(0)
    bus.publish(event(1))
    async with asyncio.timeout(5):
        await recorder.got.wait()
    assert recorder.numbers == [1]
    await bus.stop()


async def test_a_queued_exporter_gets_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "DELAY", 3600.0)
    bus = Bus()
    recorder = Recorder()
    bus.add_exporter(recorder)
    await bus.start()
    for number in range(lane.BATCH - 1):
        bus.publish(event(number))
    await asyncio.sleep(0.01)
    assert recorder.batches == []
    bus.publish(event(lane.BATCH))
    async with asyncio.timeout(5):
        await recorder.got.wait()
    assert [len(b) for b in recorder.batches] == [lane.BATCH]
    await bus.stop()


async def test_a_batch_that_is_full_at_the_start_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lane, "DELAY", 3600.0)
    bus = Bus()
    recorder = Recorder()
    bus.add_exporter(recorder)
    for number in range(lane.BATCH + 1):
        bus.publish(event(number))
    await bus.start()
    async with asyncio.timeout(5):
        await recorder.got.wait()
    await bus.stop()
    assert [len(b) for b in recorder.batches] == [lane.BATCH, 1]


async def test_a_queued_exporter_waits_no_longer_than_the_delay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lane, "DELAY", 0.01)
    bus = Bus()
    recorder = Recorder()
    bus.add_exporter(recorder)
    await bus.start()
    await asyncio.sleep(0)
    bus.publish(event(1))
    async with asyncio.timeout(5):
        await recorder.got.wait()
    assert recorder.numbers == [1]
    await bus.stop()


async def test_events_from_other_threads_reach_exporters() -> None:
    bus = Bus()
    recorder = Recorder("inline")
    bus.add_exporter(recorder)
    await bus.start()

    def publish(start: int) -> None:
        for number in range(start, start + 300):
            bus.publish(event(number))

    await asyncio.gather(*(asyncio.to_thread(publish, s) for s in (0, 1000, 2000)))
    await bus.stop()
    assert sorted(recorder.numbers) == [*range(300), *range(1000, 1300), *range(2000, 2300)]


class Failing(Recorder):
    def __init__(self, *errors: BaseException) -> None:
        super().__init__("inline")
        self.errors = list(errors)

    async def export(self, batch: Sequence[Event]) -> None:
        if self.errors:
            raise self.errors.pop(0)
        await super().export(batch)


async def test_a_raising_exporter_is_counted_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    bus = Bus()
    failing = Failing(RuntimeError("x"), asyncio.CancelledError(), ValueError("y"))
    healthy = Recorder("inline")
    bus.add_exporter(failing)
    bus.add_exporter(healthy)
    await bus.start()
    with caplog.at_level(logging.WARNING, logger="toolcrib"):
        for number in range(5):
            bus.publish(event(number))
            await asyncio.sleep(0.001)
    await bus.stop()
    assert healthy.numbers == [0, 1, 2, 3, 4]
    assert failing.numbers == [3, 4]
    assert bus.counts() == {"Failing": (2, 0, 3), "Recorder": (5, 0, 0)}
    assert [r.getMessage() for r in caplog.records] == [
        "exporter Failing failed (1 events so far); calls are not affected: RuntimeError: x"
    ]


class Hanging(Recorder):
    async def export(self, batch: Sequence[Event]) -> None:
        await asyncio.Event().wait()


async def test_a_hanging_exporter_drops_the_oldest_and_does_not_hold_up_the_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lane, "QUEUE", 5)
    bus = Bus()
    bus.add_exporter(Hanging("inline"))
    await bus.start()
    bus.publish(event(0))
    await asyncio.sleep(0.001)
    for number in range(8):
        bus.publish(event(number))
    assert bus.counts()["Hanging"].dropped == 3
    await bus.stop(timeout=0.01)
    assert bus.counts()["Hanging"] == (0, 9, 0)


class BadClose(Recorder):
    async def close(self) -> None:
        raise RuntimeError("cannot close")


async def test_an_exporter_that_cannot_close(caplog: pytest.LogCaptureFixture) -> None:
    bus = Bus()
    bus.add_exporter(BadClose())
    await bus.start()
    with caplog.at_level(logging.WARNING, logger="toolcrib"):
        await bus.stop()
    assert "closing exporter BadClose" in caplog.text


async def test_stop_ends_subscriptions_and_a_second_start_goes_on() -> None:
    bus = Bus()
    recorder = Recorder("inline")
    bus.add_exporter(recorder)
    subscription = bus.subscribe()
    await bus.start()
    bus.publish(event(1))
    await bus.stop()
    assert [e.data["n"] async for e in subscription] == [1]
    await bus.start()
    bus.publish(event(2))
    await bus.stop()
    assert recorder.numbers == [1, 2]


def test_names_are_made_unique_and_modes_checked() -> None:
    bus = Bus()
    assert [bus.add_exporter(Recorder(), "x") for _ in range(3)] == ["x", "x-2", "x-3"]
    strange: Any = Recorder()
    strange.mode = "sometimes"
    with pytest.raises(ValueError, match="'inline' or 'queued'"):
        bus.add_exporter(strange)
