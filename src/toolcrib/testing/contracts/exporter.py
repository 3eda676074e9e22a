"""What an exporter promises."""

from __future__ import annotations

import copy
import inspect
from typing import Any

from toolcrib.core.events import EVENTS, Event
from toolcrib.core.protocols import Exporter
from toolcrib.errors import ToolFailure
from toolcrib.testing.contracts.promise import promise, undefined
from toolcrib.testing.hosts import make_host
from toolcrib.testing.mocks import MockTool
from toolcrib.testing.recorder import EventRecorder


class ExporterContract:
    """Inherit, say how to make the exporter, and how to see that a call's ending arrived."""

    def make(self) -> Exporter:
        """A new exporter."""
        undefined(self, "make")

    def arrived(self, exporter: Exporter, event: Event) -> bool:
        """Whether this event, the end of a call, is where the exporter carries events to."""
        undefined(self, "arrived")

    async def test_it_has_a_mode(self) -> None:
        mode: Any = self.make().mode
        promise(mode in ("inline", "queued"), "an exporter's mode is inline or queued", mode)

    async def test_it_carries_the_end_of_every_call(self) -> None:
        exporter, recorder = self.make(), EventRecorder()
        async with _host(exporter) as host:
            recorder.attach(host)
            for name in ("good", "bad", "hidden"):
                await host.call(name, {"n": 1})
        endings = [*recorder.only("call.finished"), *recorder.only("call.denied")]
        promise(len(endings) == 3, "every call has one end", recorder.types)
        for ending in endings:
            promise(
                self.arrived(exporter, ending),
                f"an exporter carries the end of each call; a {ending.type} did not arrive",
            )

    async def test_a_host_counts_no_failure_of_it(self) -> None:
        async with _host(self.make()) as host:
            for name in ("good", "bad", "hidden", "no_such_tool"):
                await host.call(name, {"n": 1})
        for name, counts in host.bus.counts().items():
            promise(counts.failed == 0, f"the exporter {name} takes all that a host says", counts)
            promise(counts.exported > 0, f"the exporter {name} is given events", counts)

    async def test_it_takes_any_event(self) -> None:
        exporter = self.make()
        odd: dict[str, Any] = {"text": "ü\x1b[31m\u2028\ud800", "deep": [[[{"a": None}]]]}
        for name in (*EVENTS, "type.of.tomorrow"):
            for data in ({}, odd):
                event = Event(id="run.1.0", type=name, time=1000.0, call_id="c1", data=data)
                await _export(exporter, [event], f"the event {name}")

    async def test_it_takes_no_events_and_many(self) -> None:
        exporter = self.make()
        await _export(exporter, [], "an empty batch")
        many = [Event(id=f"run.{n}.0", type="tool.emitted", time=1000.0) for n in range(512)]
        await _export(exporter, tuple(many), "a full batch")

    async def test_it_changes_no_event(self) -> None:
        exporter, recorder = self.make(), EventRecorder()
        async with _host(recorder) as host:
            await host.call("good", {"n": 1})
            await host.call("hidden", {"n": 1})
        batch = recorder.events
        before = copy.deepcopy(batch)
        await exporter.export(batch)
        promise(batch == before, "an exporter changes neither the events nor the batch")

    async def test_it_can_be_closed_twice(self) -> None:
        exporter: Any = self.make()
        close = getattr(exporter, "close", None)
        try:
            for _ in range(2):
                closing = close() if callable(close) else None
                if inspect.isawaitable(closing):
                    await closing
        except Exception as error:
            raise AssertionError(
                f"broken promise: an exporter can be closed, and closed again; found: {error!r}"
            ) from error


def _host(exporter: Exporter) -> Any:
    tools = [
        MockTool("good", return_value={"a": [1, "ü"]}),
        MockTool("bad", side_effect=ToolFailure("no such row")),
        MockTool("hidden"),
    ]
    rules = {"rules": [{"allow": ["good", "bad"]}]}
    return make_host(tools, profile=rules, exporters=[exporter])


async def _export(exporter: Exporter, batch: Any, what: str) -> None:
    try:
        await exporter.export(batch)
    except Exception as error:
        raise AssertionError(
            f"broken promise: an exporter takes {what}; found: {error!r}"
        ) from error
