"""Spans and metrics under the GenAI names, refused calls too."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from toolcrib.core.events import Event
from toolcrib.errors import ConfigError
from toolcrib.observe import otel as module
from toolcrib.observe.otel import OtelExporter

Make = Callable[..., list[Event]]
Halves = Callable[[list[Event]], tuple[list[Event], list[Event], list[Event]]]


class Backend:
    def __init__(self, *, content: bool = False) -> None:
        self.memory = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        traces = TracerProvider()
        traces.add_span_processor(SimpleSpanProcessor(self.memory))
        meters = MeterProvider(metric_readers=[self.reader])
        self.exporter = OtelExporter(traces, meters, content=content)

    def send(self, *batches: list[Event]) -> Backend:
        for batch in batches:
            asyncio.run(self.exporter.export(batch))
        return self

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        """Ended spans by call id."""
        spans = self.memory.get_finished_spans()
        found = {str((s.attributes or {})["gen_ai.tool.call.id"]): s for s in spans}
        assert len(found) == len(spans)
        return found

    def parent(self, call_id: str) -> int | None:
        parent = self.spans[call_id].parent
        return parent.span_id if parent else None

    def id(self, call_id: str) -> int:
        return self.spans[call_id].get_span_context().span_id

    def durations(self) -> list[tuple[dict[str, str], int]]:
        data = self.reader.get_metrics_data()
        return [
            (dict(point.attributes), point.count)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == "gen_ai.execute_tool.duration"
            for point in metric.data.data_points
        ]


def test_a_good_call(make_call: Make) -> None:
    events = make_call()
    span = Backend().send(events).spans["c1"]
    assert span.name == "execute_tool add"
    assert span.start_time == int(events[0].time * 1e9)
    assert span.end_time == int(events[-1].time * 1e9)
    assert span.status.status_code is StatusCode.UNSET
    attributes = dict(span.attributes or {})
    assert attributes["gen_ai.operation.name"] == "execute_tool"
    assert attributes["gen_ai.tool.name"] == "add"
    assert attributes["gen_ai.tool.type"] == "function"
    assert attributes["toolcrib.status"] == "ok"
    assert attributes["toolcrib.verdict"] == "allow"
    assert attributes["toolcrib.principal"] == "ci"
    assert attributes["toolcrib.source"] == "toolcrib.yaml:7"
    assert attributes["toolcrib.run_seconds"] == 0.2
    assert "error.type" not in attributes
    assert [e.name for e in span.events] == ["call.started"]


@pytest.mark.parametrize(("status", "reason"), [("denied", "rate_limited"), ("error", "timeout")])
def test_refused_and_failed_calls_get_spans(status: str, reason: str, make_denied: Make) -> None:
    backend = Backend().send(make_denied(status=status, reason=reason, message="because"))
    span = backend.spans["c1"]
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "because"
    attributes = dict(span.attributes or {})
    assert attributes["error.type"] == reason
    assert attributes["toolcrib.status"] == status
    assert attributes["toolcrib.rule"] == "run_tests"
    ((labels, count),) = backend.durations()
    assert count == 1
    assert labels["error.type"] == reason
    assert labels["toolcrib.status"] == status


@pytest.mark.parametrize("which", ["ok", "denied"])
def test_told_live_the_span_is_the_same(
    which: str, make_call: Make, make_denied: Make, make_halves: Halves
) -> None:
    events = make_call() if which == "ok" else make_denied()
    whole = Backend().send(events).spans["c1"]
    backend = Backend()
    opened, began, closed = make_halves(events)
    backend.send(opened, began)
    assert backend.spans == {}
    live = backend.send(closed).spans["c1"]
    assert dict(live.attributes or {}) == dict(whole.attributes or {})
    assert (live.start_time, live.end_time) == (whole.start_time, whole.end_time)
    assert live.status.status_code == whole.status.status_code


def test_nested_calls_told_live(make_call: Make, make_halves: Halves) -> None:
    opened, began, closed = make_halves(make_call("p"))
    backend = Backend().send(opened, began, make_call("k", parent="p"))
    assert set(backend.spans) == {"k"}
    backend.send(closed)
    assert backend.parent("k") == backend.id("p")
    assert backend.spans["k"].context.trace_id == backend.spans["p"].context.trace_id


def test_nested_calls_whose_parents_are_told_of_later(make_call: Make) -> None:
    backend = Backend().send(make_call("g", parent="k"), make_call("k", parent="p"))
    assert backend.spans == {}
    backend.send(make_call("p"))
    assert backend.parent("p") is None
    assert backend.parent("k") == backend.id("p")
    assert backend.parent("g") == backend.id("k")


def test_siblings_after_the_parents_end(make_call: Make) -> None:
    backend = Backend().send(make_call("p"), make_call("k", parent="p"))
    assert backend.parent("k") == backend.id("p")


def test_a_parent_that_never_comes_is_not_waited_for(make_call: Make) -> None:
    backend = Backend().send(make_call("g", parent="k"), make_call("k", parent="gone"))
    backend.send(make_call("later", time=make_call()[0].time + 2 * module.PATIENCE))
    assert set(backend.spans) == {"g", "k", "later"}
    assert backend.parent("k") is None
    assert backend.parent("g") == backend.id("k")
    assert (backend.spans["k"].attributes or {})["toolcrib.parent"] == "gone"


def test_closing_lets_nothing_wait(make_call: Make) -> None:
    backend = Backend().send(make_call("g", parent="k"), make_call("k", parent="gone"))
    backend.exporter.close()
    assert set(backend.spans) == {"g", "k"}
    assert backend.parent("g") == backend.id("k")


def test_an_ending_without_beginning(make_call: Make) -> None:
    events = make_call()
    span = Backend().send(events[-1:]).spans["c1"]
    assert span.name == "execute_tool add"
    assert span.end_time == int(events[-1].time * 1e9)
    assert span.end_time - (span.start_time or 0) == pytest.approx(0.25e9, rel=1e-3)


def test_memory_is_bounded(
    make_call: Make, make_halves: Halves, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT", 5)
    backend = Backend()
    for number in range(20):
        backend.send(make_call(f"w{number}", parent=f"gone{number}"))
    for number in range(20):
        backend.send(make_halves(make_call(f"o{number}"))[0])
    spans = backend.spans
    assert len([name for name in spans if name.startswith("w")]) >= 15
    lost = [s for name, s in spans.items() if name.startswith("o")]
    assert len(lost) == 15
    assert {(s.attributes or {})["toolcrib.status"] for s in lost} == {"unknown"}


def test_what_happened_in_between(make_call: Make, make_fact: Callable[..., Event]) -> None:
    received, decided, *rest = make_call()
    between = [
        make_fact("approval.requested", "c1", tool="add", effects=["write"]),
        make_fact("approval.decided", "c1", answer="allow", by="anna"),
        make_fact("call.progress", "c1", fraction=0.4),
        make_fact("host.started"),
    ]
    span = Backend().send([received, decided, *between, *rest]).spans["c1"]
    assert [e.name for e in span.events] == [
        "approval.requested",
        "approval.decided",
        "call.started",
    ]
    assert dict(span.events[1].attributes or {}) == {"answer": "allow", "by": "anna"}


def test_content_is_left_out_unless_asked_for(make_call: Make) -> None:
    plain = dict(Backend().send(make_call()).spans["c1"].attributes or {})
    assert not any("arguments" in key and "size" not in key for key in plain)
    full = dict(Backend(content=True).send(make_call()).spans["c1"].attributes or {})
    assert full["gen_ai.tool.call.arguments"] == '{"a":1}'
    assert full["gen_ai.tool.call.result"] == "3"


def test_invented_names_become_no_labels(make_call: Make) -> None:
    backend = Backend()
    for number in range(10):
        backend.send(
            make_call(f"c{number}", tool=f"x{number}", status="error", reason="unknown_tool")
        )
    ((labels, count),) = backend.durations()
    assert labels["gen_ai.tool.name"] == "other"
    assert count == 10


def test_the_callers_own_span_is_not_taken_for_the_parent(make_call: Make) -> None:
    tracer = TracerProvider().get_tracer("application")
    with tracer.start_as_current_span("start the host"):
        backend = Backend().send(make_call())
    assert backend.parent("c1") is None


def test_without_the_package_the_cure_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigError, match=r"pip install 'toolcrib\[otel\]'"):
        OtelExporter()
