"""What every exporter promises: it takes any event, changes none and leaks nothing."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import random
import string
import urllib.parse
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from toolcrib.core.events import EVENTS, CallRecord, Event, FactRecord, events_of
from toolcrib.core.protocols import Exporter
from toolcrib.observe.bus import Bus
from toolcrib.observe.legacy import AmplifierEvents, HookLog
from toolcrib.observe.log import HumanLog, JsonLog
from toolcrib.observe.metrics import Metrics
from toolcrib.observe.otel import OtelExporter
from toolcrib.observe.redact import HIDDEN, Redactor

Sink = tuple[Exporter, Callable[[], str]]


def human_log() -> Sink:
    stream = io.StringIO()
    return HumanLog(stream), stream.getvalue


def json_log() -> Sink:
    stream = io.StringIO()
    return JsonLog(stream), stream.getvalue


def hook_log() -> Sink:
    said: list[str] = []
    return HookLog(said.append), lambda: "\n".join(said)


def amplifier_events() -> Sink:
    said: list[Any] = []
    return AmplifierEvents(lambda *event: said.append(event)), lambda: json.dumps(
        said, ensure_ascii=False
    )


def otel() -> Sink:
    memory, reader = InMemorySpanExporter(), InMemoryMetricReader()
    traces = TracerProvider()
    traces.add_span_processor(SimpleSpanProcessor(memory))
    exporter = OtelExporter(traces, MeterProvider(metric_readers=[reader]), content=True)

    def said() -> str:
        exporter.close()
        spans = "\n".join(span.to_json() for span in memory.get_finished_spans())
        data = reader.get_metrics_data()
        # Both as they are and unescaped, so that a search finds what a reader would.
        shown = spans + (data.to_json() if data else "")
        return shown + shown.encode().decode("unicode_escape", "replace")

    return exporter, said


SINKS: dict[str, Callable[[], Sink]] = {
    "human log": human_log,
    "json log": json_log,
    "hook log": hook_log,
    "amplifier events": amplifier_events,
    "otel": otel,
}


@pytest.fixture(params=list(SINKS))
def sink(request: pytest.FixtureRequest) -> Sink:
    return SINKS[request.param]()


def call(call_id: str = "c1", **changes: Any) -> list[Event]:
    fields: dict[str, Any] = {
        "time": 1_700_000_000.0,
        "call_id": call_id,
        "tool": "add",
        "principal": "ci",
        "session": None,
        "profile": None,
        "door": "python",
        "parent": None,
        "verdict": "allow",
        "gate": "profile",
        "rule": None,
        "source": None,
        "arguments": msgspec.Raw(b"null"),
        "arguments_size": 0,
        "arguments_hash": None,
        "decide_s": 0.0,
        "status": "ok",
        "reason": None,
        "message": None,
        "output": msgspec.Raw(b"null"),
        "output_size": 0,
        "output_hash": None,
        "attempts": 1,
        "wait_s": 0.0,
        "queue_s": 0.0,
        "run_s": 0.0,
        "total_s": 0.0,
    }
    return list(events_of(CallRecord(**fields | changes), "run", 1))


def test_says_how_it_wants_to_be_called(sink: Sink) -> None:
    assert sink[0].mode in ("inline", "queued")


async def test_tells_of_every_ending(sink: Sink) -> None:
    exporter, said = sink
    for number, status in enumerate(("ok", "error", "denied")):
        reason = None if status == "ok" else f"reason_of_{status}"
        await exporter.export(call(f"call-{number}", status=status, reason=reason))
    shown = said()
    for word in ("call-0", "call-1", "call-2", "reason_of_error", "reason_of_denied"):
        assert word in shown


async def test_takes_any_event_in_any_state(sink: Sink) -> None:
    exporter, said = sink
    await exporter.export([])
    for type_ in (*EVENTS, "some.day"):
        for call_id in ("c1", None):
            for data in ({}, {"tool": None}, {"message": "m", "tool": 3, "reason": "r", "x": [1]}):
                event = Event(id="", type=type_, time=0.0, call_id=call_id, data=dict(data))
                await exporter.export([event])
    await exporter.export(call("after all")[::-1])
    assert "after all" in said()


async def test_does_not_change_events(sink: Sink) -> None:
    events = call(arguments=msgspec.Raw(b'{"a":[1,{"b":2}]}'), output=msgspec.Raw(b"[1]"))
    before = msgspec.json.encode(events)
    await sink[0].export(tuple(events))
    assert msgspec.json.encode(events) == before


def make_canaries() -> list[str]:
    rng = random.Random(20)
    alphabets = (
        string.ascii_letters + string.digits,
        string.digits,
        string.ascii_lowercase + "-_./+=",
        string.ascii_letters + "\"'\\<>&%?#",
        "äöüßéñ漢字かな😀" + string.ascii_letters,
    )
    return ["".join(rng.choices(alphabets[n % 5], k=rng.randint(8, 48))) for n in range(50)]


CANARIES = make_canaries()


def spellings(secret: str) -> list[str]:
    data = secret.encode()
    return [
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        urllib.parse.quote(secret, safe=""),
        data.hex(),
        data.hex().upper(),
        # The middle of what base64 makes of it, in all three positions.
        *(base64.b64encode(b"_" * k + data).decode()[4:-4] for k in range(3)),
        *(base64.urlsafe_b64encode(b"_" * k + data).decode()[4:-4] for k in range(3)),
    ]


def leaks(text: str) -> list[str]:
    return [form for secret in CANARIES for form in spellings(secret) if form in text]


def dangerous(secret: str) -> dict[str, Any]:
    """A value that carries a secret in many ways."""
    forms = spellings(secret)[:6]
    return {
        "plain": secret,
        "in text": [f"before {form} after" for form in forms],
        f"key {secret}": 1,
        "nested": {"deep": [{"url": f"https://h/?q={forms[3]}"}]},
        "basic": f"Basic {base64.b64encode(b'user:' + secret.encode()).decode()}",
        "json": json.dumps({"again": secret}),
        "number": int(secret) if secret.isascii() and secret.isdigit() else 0,
    }


def redacted_events(redactor: Redactor) -> list[Event]:
    """What a host makes of calls that are full of secrets: redacted before an event exists."""
    events: list[Event] = []
    for number, secret in enumerate(CANARIES):
        raw = msgspec.Raw(redactor.encoded(msgspec.json.encode(dangerous(secret))))
        status = ("ok", "error", "denied")[number % 3]
        events += call(
            f"c{number}",
            arguments=raw,
            output=raw,
            status=status,
            reason=None if status == "ok" else "tool_error",
            message=redactor.text(f"it failed with {secret!r} and {secret}"),
            rule=redactor.text(f"rule {secret}"),
        )
        for type_ in ("tool.log", "tool.emitted", "approval.requested", "call.attempt"):
            data = redactor.value({"message": secret, "data": dangerous(secret)})
            record = FactRecord(time=0.0, event=type_, call_id=f"c{number}", data=data)
            events += events_of(record, "run", 2)
    return events


def test_the_canaries_would_be_found() -> None:
    assert len(set(CANARIES)) == 50
    for secret in CANARIES:
        for form in spellings(secret):
            assert len(form) >= 4
            assert leaks(f"x{form}x")


async def test_no_canary_comes_through(sink: Sink) -> None:
    exporter, said = sink
    await exporter.export(redacted_events(Redactor(secrets=CANARIES)))
    shown = said()
    assert leaks(shown) == []
    assert "c49" in shown
    assert HIDDEN in shown


class Talkative:
    """An exporter that fails with all it knows."""

    mode: Literal["inline", "queued"] = "inline"

    async def export(self, batch: Sequence[Event]) -> None:
        raise RuntimeError(f"could not send {CANARIES}")


async def test_no_canary_comes_through_the_bus_the_log_or_the_metrics(
    caplog: pytest.LogCaptureFixture,
) -> None:
    redactor = Redactor(secrets=CANARIES)
    bus = Bus(redactor=redactor)
    sinks = [make() for make in SINKS.values()]
    for exporter, _ in sinks:
        bus.add_exporter(exporter)
    bus.add_exporter(Talkative())

    def broken(event: Event) -> None:
        raise ValueError(f"no {CANARIES}")

    bus.on_event(broken)
    subscription = bus.subscribe(maxsize=10_000)
    metrics = Metrics(exporters=bus.counts)
    with caplog.at_level(logging.DEBUG):
        await bus.start()
        for event in redacted_events(redactor):
            bus.publish(event)
        await asyncio.sleep(0)
        await bus.stop()
    events = b"\n".join([msgspec.json.encode(event) async for event in subscription]).decode()
    assert "could not send" in caplog.text
    assert events.count("call.received") == 50
    assert bus.counts()["Talkative"].failed == len(events.splitlines())
    for shown in (events, caplog.text, metrics.render().decode(), *(said() for _, said in sinks)):
        assert shown
        assert leaks(shown) == []
