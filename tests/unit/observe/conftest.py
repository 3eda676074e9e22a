"""Events as a host makes them: views of records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from toolcrib.core.events import (
    CallRecord,
    CloseRecord,
    Event,
    FactRecord,
    OpenRecord,
    StartRecord,
    events_of,
)

NOW = 1_700_000_000.0

MakeEvents = Callable[..., list[Event]]


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def call_events(call_id: str = "c1", **changes: Any) -> list[Event]:
    """A whole call, told of after the fact."""
    fields: dict[str, Any] = {
        "time": NOW,
        "call_id": call_id,
        "tool": "add",
        "principal": "ci",
        "session": "s1",
        "profile": "reviewer",
        "door": "python",
        "parent": None,
        "verdict": "allow",
        "gate": "profile",
        "rule": "allow: add",
        "source": "toolcrib.yaml:7",
        "arguments": _raw(changes.pop("arguments", {"a": 1})),
        "arguments_size": 7,
        "arguments_hash": None,
        "decide_s": 0.001,
        "status": "ok",
        "reason": None,
        "message": None,
        "output": _raw(changes.pop("output", 3)),
        "output_size": 1,
        "output_hash": None,
        "attempts": 1,
        "wait_s": 0.0,
        "queue_s": 0.0,
        "run_s": 0.2,
        "total_s": 0.25,
    }
    return list(events_of(CallRecord(**fields | changes), "run", 1))


def denied_events(call_id: str = "c1", **changes: Any) -> list[Event]:
    """A refused call."""
    refusal: dict[str, Any] = {
        "verdict": "deny",
        "gate": "policy",
        "rule": "run_tests",
        "source": "toolcrib.yaml:14",
        "status": "denied",
        "reason": "path_outside_root",
        "message": "'../other' is outside the session's folder",
        "attempts": 0,
    }
    return call_events(call_id, **refusal | changes)


def halves(events: list[Event]) -> tuple[list[Event], list[Event], list[Event]]:
    """The same call as it is told of live: opened, started, closed."""
    opening, start, ending = events[:2], events[2:-1], events[-1]
    received, decided = opening[0].data, opening[1].data
    opened = OpenRecord(
        time=opening[0].time,
        call_id=str(opening[0].call_id),
        arguments=_raw(received["arguments"]),
        decide_s=0.001,
        **{k: received[k] for k in ("tool", "principal", "session", "profile", "door", "parent")},
        **{k: received[k] for k in ("arguments_size", "arguments_hash")},
        **{k: decided[k] for k in ("verdict", "gate", "rule", "source")},
    )
    last = ending.data
    timings = last.get("timings") or {
        "wait": 0.0,
        "queue": 0.0,
        "run": 0.0,
        "total": last["total_s"],
    }
    closed = CloseRecord(
        time=ending.time,
        call_id=str(ending.call_id),
        output=_raw(last.get("output")),
        output_size=last.get("output_size", 0),
        output_hash=None,
        attempts=last.get("attempts", 0),
        wait_s=timings["wait"],
        queue_s=timings["queue"],
        run_s=timings["run"],
        total_s=timings["total"],
        **{k: last[k] for k in ("tool", "principal", "session", "status", "reason", "message")},
    )
    # A call that waited for nobody starts with its opening.
    began = [
        event
        for e in (start if decided["verdict"] == "ask" else ())
        for event in events_of(
            StartRecord(time=e.time, call_id=str(e.call_id), wait_s=0.0, queue_s=0.0), "run", 2
        )
    ]
    return list(events_of(opened, "run", 1)), began, list(events_of(closed, "run", 3))


def fact(type: str, call_id: str | None = None, time: float = NOW, **data: Any) -> Event:
    """Any other event."""
    return next(events_of(FactRecord(time=time, event=type, call_id=call_id, data=data), "run", 9))


@pytest.fixture
def make_call() -> MakeEvents:
    return call_events


@pytest.fixture
def make_denied() -> MakeEvents:
    return denied_events


@pytest.fixture
def make_halves() -> Callable[[list[Event]], tuple[list[Event], list[Event], list[Event]]]:
    return halves


@pytest.fixture
def make_fact() -> Callable[..., Event]:
    return fact
