"""The event names of earlier frameworks, for hooks and log readers that know them."""

from __future__ import annotations

import inspect
import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Literal

from toolcrib.core.events import Event
from toolcrib.observe.log import escape

_REMEMBERED = 10_000
_FIELD = 400


class HookLog:
    """An exporter that writes `hook.tool.*` and `hook.policy.*` lines of `key=value` fields.

    A call is `hook.tool.before`, `hook.policy.before`, perhaps `hook.policy.deny`, and always
    `hook.tool.after`. `calls=False` leaves out everything but refusals, which are always written.
    """

    mode: Literal["inline", "queued"] = "inline"
    name = "hook-log"

    def __init__(self, write: Callable[[str], object], *, calls: bool = True) -> None:
        self._write = write
        self._calls = calls
        self._tools: OrderedDict[str, str] = OrderedDict()

    async def export(self, batch: Sequence[Event]) -> None:
        for event in batch:
            self.handle(event)

    def handle(self, event: Event) -> None:
        """Write the lines of one event."""
        data = event.data
        call = {"tool": data.get("tool"), "call_id": event.call_id}
        if event.type == "call.received":
            self._remember(event.call_id or "", str(data.get("tool")))
            if self._calls:
                who = {key: data.get(key) for key in ("principal", "session", "profile")}
                self._line("hook.tool.before", **call, **who, arguments=data.get("arguments"))
        elif event.type == "call.decided":
            if self._calls:
                call["tool"] = self._tools.get(event.call_id or "")
                rule = {key: data.get(key) for key in ("verdict", "gate", "rule", "source")}
                self._line("hook.policy.before", **call, **rule)
        elif event.type == "call.denied":
            self._tools.pop(event.call_id or "", None)
            because = {"reason": data.get("reason"), "message": data.get("message")}
            self._line("hook.policy.deny", **call, **because)
            self._after(call, data, data.get("total_s"))
        elif event.type == "call.finished":
            self._tools.pop(event.call_id or "", None)
            if self._calls:
                timings: dict[str, float] = data.get("timings") or {}
                self._after(call, data, timings.get("total"))

    def _after(self, call: dict[str, Any], data: dict[str, Any], seconds: float | None) -> None:
        # The earlier framework knew two endings; a refusal was an error to it.
        ok = data.get("status") == "ok"
        self._line(
            "hook.tool.after",
            status="ok" if ok else "error",
            **call,
            reason=None if ok else data.get("reason"),
            error=None if ok else data.get("message"),
            duration_ms=None if seconds is None else round(seconds * 1000, 3),
            output_size=data.get("output_size"),
        )

    def _remember(self, call_id: str, tool: str) -> None:
        self._tools[call_id] = tool
        if len(self._tools) > _REMEMBERED:
            self._tools.popitem(last=False)

    def _line(self, hook: str, /, **fields: Any) -> None:
        shown = (f"{key}={_field(value)}" for key, value in fields.items() if value is not None)
        self._write(" ".join((hook, *shown)))


def _field(value: Any) -> str:
    """A value as one word: quoted as JSON when it would not be one by itself."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if len(text) > _FIELD:
        text = f"{text[:_FIELD]}… ({len(text)} characters)"
    if not text or any(c in text for c in ' "=') or text != escape(text):
        text = escape(json.dumps(text, ensure_ascii=False))
    return text


class AmplifierEvents:
    """An exporter that emits `tool:pre`, `tool:post` and `tool:error` with dictionaries.

    `emit(name, data)` may be a coroutine function. What failed or was refused is `tool:error`,
    never `tool:post`.
    """

    mode: Literal["inline", "queued"] = "inline"
    name = "amplifier-events"

    def __init__(self, emit: Callable[[str, dict[str, Any]], object]) -> None:
        self._emit = emit
        self._inputs: OrderedDict[str, Any] = OrderedDict()

    async def export(self, batch: Sequence[Event]) -> None:
        for event in batch:
            said = self._translate(event)
            if said is not None:
                answer = self._emit(*said)
                if inspect.isawaitable(answer):
                    await answer

    def _translate(self, event: Event) -> tuple[str, dict[str, Any]] | None:
        data = event.data
        call_id = event.call_id or ""
        call: dict[str, Any] = {
            "tool_name": data.get("tool"),
            "tool_call_id": event.call_id,
            "session_id": data.get("session"),
        }
        if event.type == "call.received":
            self._inputs[call_id] = data.get("arguments")
            if len(self._inputs) > _REMEMBERED:
                self._inputs.popitem(last=False)
            return "tool:pre", call | {
                "tool_input": data.get("arguments"),
                "parent_id": data.get("parent"),
            }
        if event.type not in ("call.finished", "call.denied"):
            return None
        timings: dict[str, float] = data.get("timings") or {}
        seconds = timings.get("total", data.get("total_s"))
        call |= {
            "tool_input": self._inputs.pop(call_id, None),
            "duration_ms": None if seconds is None else round(seconds * 1000, 3),
        }
        if data.get("status") == "ok":
            return "tool:post", call | {"result": {"success": True, "output": data.get("output")}}
        error = {"type": data.get("reason"), "message": data.get("message")}
        return "tool:error", call | {"status": data.get("status"), "error": error}
