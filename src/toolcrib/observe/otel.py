"""Calls as OpenTelemetry spans and metrics, under the GenAI names."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from toolcrib.core.events import Event
from toolcrib.errors import ConfigError
from toolcrib.observe.metrics import BOUNDS, MAX_TOOLS, OTHER, Labels, reason_labels

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

KEPT = 10_000
"""Calls that are remembered: those under way, and ended ones that may still be a parent."""
PATIENCE = 60.0
"""Seconds an ended call waits for its parent to appear. A quick parent is told of as a whole
when it ends, which is after its children."""

# Written out: the package of constants marks these as moved, and moves on.
_OPERATION = "gen_ai.operation.name"
_TOOL = "gen_ai.tool.name"
_ERROR = "error.type"
_RECEIVED = ("principal", "session", "profile", "door", "parent", "arguments_size")
_DECIDED = ("verdict", "gate", "rule", "source")
_ENDED = ("status", "attempts", "still_running", "output_size")
_NOTED = frozenset(
    ("call.started", "call.attempt", "approval.requested", "approval.decided", "grant.used")
)

_encode = msgspec.json.Encoder(enc_hook=str).encode


class _Call:
    """What is known about one call so far."""

    __slots__ = ("attributes", "begin", "end", "failed", "id", "name", "notes", "parent", "span")

    def __init__(self, id: str, name: str, begin: float, parent: str | None) -> None:
        self.id = id
        self.name = name
        self.begin = begin
        self.end: float | None = None
        self.parent = parent
        self.span: Span | None = None
        self.attributes: dict[str, Any] = {
            _OPERATION: "execute_tool",
            _TOOL: name,
            "gen_ai.tool.call.id": id,
            "gen_ai.tool.type": "function",
        }
        self.notes: list[tuple[str, float, dict[str, Any]]] = []
        self.failed: str | None = None

    def learn(self, data: dict[str, Any], names: Sequence[str]) -> None:
        for name in names:
            value = data.get(name)
            if value is not None:
                self.attributes[f"toolcrib.{name}"] = value


class OtelExporter:
    """An exporter that makes one span `execute_tool NAME` of each call, refused calls too.

    A call that a tool made is a child of that tool's span. Without providers the global ones are
    used. `content=True` adds the (redacted) arguments and output. Providers are not shut down.
    """

    mode: Literal["inline", "queued"] = "queued"
    name = "otel"

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        content: bool = False,
    ) -> None:
        try:
            from opentelemetry import metrics, trace
            from opentelemetry.context import Context
        except ImportError as error:
            raise ConfigError(
                "the OpenTelemetry exporter needs the package opentelemetry-api",
                cure="Run: pip install 'toolcrib[otel]'",
            ) from error
        self._trace = trace
        self._root = Context()
        self._tracer = trace.get_tracer("toolcrib", tracer_provider=tracer_provider)
        self._duration = metrics.get_meter(
            "toolcrib", meter_provider=meter_provider
        ).create_histogram(
            "gen_ai.execute_tool.duration",
            unit="s",
            description="Duration of tool calls, refused ones included.",
            explicit_bucket_boundaries_advisory=BOUNDS,
        )
        self._content = content
        self._tools = Labels(MAX_TOOLS, OTHER)
        self._reasons = reason_labels()
        self._calls: OrderedDict[str, _Call] = OrderedDict()
        self._spans: OrderedDict[str, Span] = OrderedDict()
        # Calls without a span, by the parent that has none yet.
        self._waiting: OrderedDict[str, list[_Call]] = OrderedDict()

    async def export(self, batch: Sequence[Event]) -> None:
        for number, event in enumerate(batch):
            self._take(event)
            if number % 64 == 63:
                # A span costs tens of microseconds: a batch must not hold up the calls.
                await asyncio.sleep(0)
        if batch:
            self._give_up(before=batch[-1].time - PATIENCE)

    def close(self) -> None:
        """Make spans of what waited for a parent in vain."""
        self._give_up(before=float("inf"))

    def _take(self, event: Event) -> None:
        if event.call_id is None:
            return
        if event.type == "call.received":
            self._received(event, event.call_id)
        elif event.type in ("call.finished", "call.denied"):
            self._ended(event, event.call_id)
        elif call := self._calls.get(event.call_id):
            if event.type == "call.decided":
                call.learn(event.data, _DECIDED)
            elif event.type in _NOTED:
                call.notes.append((event.type, event.time, _primitives(event.data)))

    def _received(self, event: Event, id: str) -> None:
        data = event.data
        call = _Call(id, str(data.get("tool")), event.time, data.get("parent"))
        call.learn(data, _RECEIVED)
        if self._content and data.get("arguments") is not None:
            call.attributes["gen_ai.tool.call.arguments"] = _encode(data["arguments"]).decode()
        self._calls[id] = call
        if len(self._calls) > KEPT:
            _, lost = self._calls.popitem(last=False)
            lost.end = event.time
            lost.attributes["toolcrib.status"] = "unknown"
            self._finish(lost)
        if call.parent is None or call.parent in self._spans:
            self._begin(call)
        else:
            self._waiting.setdefault(call.parent, []).append(call)

    def _ended(self, event: Event, id: str) -> None:
        data = event.data
        timings: dict[str, float] = data.get("timings") or {
            "wait": data.get("wait_s") or 0.0,
            "total": data.get("total_s") or 0.0,
        }
        call = self._calls.pop(id, None)
        if call is None:
            # Its beginning was dropped, or lies before this exporter's.
            call = _Call(id, str(data.get("tool")), event.time - timings.get("total", 0.0), None)
            call.learn(data, _RECEIVED)
            self._begin(call)
        call.end = max(event.time, call.begin)
        call.learn(data, _ENDED)
        call.attributes |= {f"toolcrib.{name}_seconds": value for name, value in timings.items()}
        if self._content and data.get("output") is not None:
            call.attributes["gen_ai.tool.call.result"] = _encode(data["output"]).decode()
        # A caller may invent tools: their names must not become labels.
        unknown = data.get("reason") == "unknown_tool"
        labels = {
            _OPERATION: "execute_tool",
            _TOOL: OTHER if unknown else self._tools.of(call.name),
            "toolcrib.status": str(data.get("status")),
        }
        if data.get("status") != "ok":
            call.attributes[_ERROR] = data.get("reason") or "_OTHER"
            labels[_ERROR] = self._reasons.of(call.attributes[_ERROR])
            call.failed = data.get("message") or call.attributes[_ERROR]
        self._duration.record(timings.get("total", 0.0), labels)
        self._finish(call)

    def _begin(self, call: _Call) -> None:
        """Give `call` its span, then its children theirs."""
        begun = [call]
        while begun:
            call = begun.pop()
            parent = self._spans.get(call.parent) if call.parent else None
            context = self._root
            if parent is not None:
                context = self._trace.set_span_in_context(parent, self._root)
            call.span = self._tracer.start_span(
                f"execute_tool {call.name}",
                context=context,
                attributes=call.attributes,
                start_time=_ns(call.begin),
            )
            self._spans[call.id] = call.span
            if len(self._spans) > KEPT:
                self._spans.popitem(last=False)
            self._finish(call)
            begun += self._waiting.pop(call.id, [])

    def _finish(self, call: _Call) -> None:
        """End the span of a call that has ended, unless it still waits for its parent."""
        if call.span is None or call.end is None:
            return
        for name, time, data in call.notes:
            call.span.add_event(name, data, timestamp=_ns(time))
        call.span.set_attributes(call.attributes)
        if call.failed is not None:
            # Refused is no success either; `toolcrib.status` tells the two apart.
            status = self._trace.Status(self._trace.StatusCode.ERROR, call.failed)
            call.span.set_status(status)
        call.span.end(end_time=_ns(call.end))

    def _give_up(self, *, before: float) -> None:
        """Let calls stand alone whose parent has not come."""
        waiting = {call.id for calls in self._waiting.values() for call in calls}
        for parent, calls in list(self._waiting.items()):
            too_many = len(waiting) > KEPT
            late = any(call.end is not None and call.end <= before for call in calls)
            # A parent that waits itself takes its children along when its turn comes.
            if too_many or (late and parent not in waiting):
                waiting.difference_update(call.id for call in self._waiting.pop(parent, ()))
                for call in calls:
                    if call.span is None:
                        self._begin(call)


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)


def _primitives(data: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in data.items() if isinstance(v, (str, int, float, bool))}
