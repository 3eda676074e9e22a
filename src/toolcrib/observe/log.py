"""Events as lines: one for people, one for machines."""

from __future__ import annotations

import functools
import os
import re
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Literal, TextIO, cast

import msgspec

from toolcrib.core.events import Event

HELD_LINES = 10_000
_REMEMBERED = 10_000
_SHOWN = 400
_NAMED = 3
"""How many of a list are shown in a line."""

_encoder = msgspec.json.Encoder(enc_hook=str)

# Everything of the categories control, format, private use, surrogate, line and paragraph
# separator, and letters and marks that show nothing: what a terminal obeys, or what makes a line
# look like another one.
_UNSAFE = (
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    "\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\uf8ff"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff]"
)
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


@functools.cache
def _unsafe() -> re.Pattern[str]:
    """Compiled when a line has more than plain characters for the first time: it takes long."""
    return re.compile(_UNSAFE)


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    if code > 0xFFFF:
        # As JSON wants it: two halves.
        high, low = divmod(code - 0x10000, 0x400)
        return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
    return f"\\u{code:04x}"


def escape(text: str) -> str:
    """`text` as one harmless line: what a terminal would obey is written as `\\u001b` is."""
    if text.isascii() and text.isprintable():
        return text  # none of them is among those
    return _unsafe().sub(_escape, text)


class LineWriter:
    """Writes whole lines, and holds them back while a prompt is open. Safe from any thread."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._holds = 0
        self._held: list[str] = []
        self._lost = 0

    @property
    def stream(self) -> TextIO:
        """Where lines go; standard error as it is at the time, unless told otherwise."""
        return sys.stderr if self._stream is None else self._stream

    def write(self, line: str) -> None:
        """Write `line`, now or once nothing holds it back."""
        with self._lock:
            if not self._holds:
                self._put(line)
            elif len(self._held) < HELD_LINES:
                self._held.append(line)
            else:
                self._lost += 1

    @contextmanager
    def hold(self) -> Generator[None]:
        """Hold lines back until the `with` block is left. Blocks may nest."""
        with self._lock:
            self._holds += 1
        try:
            yield
        finally:
            with self._lock:
                self._holds -= 1
                if not self._holds:
                    self._release()

    def _release(self) -> None:
        held, self._held = self._held, []
        lost, self._lost = self._lost, 0
        if lost:
            held.append(f"{lost} more lines came while the prompt was open; the trail has them")
        if held:
            self._put("\n".join(held))

    def _put(self, text: str) -> None:
        stream = self.stream
        encoding = getattr(stream, "encoding", None) or "utf-8"
        try:
            text.encode(encoding)
        except UnicodeEncodeError:
            text = text.encode(encoding, "backslashreplace").decode(encoding)
        stream.write(text + "\n")
        stream.flush()


def _json(value: Any) -> str:
    try:
        return _encoder.encode(value).decode()
    except (TypeError, ValueError):
        # Half a surrogate pair, or keys that JSON has not: one odd event must not stop the others.
        if isinstance(value, Event):
            value = msgspec.structs.replace(value, data={"unwritable": True})
            return _encoder.encode(value).decode()
        return "null"


class JsonLog:
    """An exporter that writes each event as one line of JSON."""

    mode: Literal["inline", "queued"] = "inline"
    name = "json-log"

    def __init__(self, stream: TextIO | None = None, *, file: str | None = None) -> None:
        self._path = file
        self._file: TextIO | None = None
        self._lines = LineWriter(stream)

    def close(self) -> None:
        """Close the file, if this log opened one."""
        if self._file is not None:
            self._file.close()

    def hold(self) -> AbstractContextManager[None]:
        """Hold lines back, as `with log.hold():`, while a prompt is open."""
        return self._lines.hold()

    def write(self, event: Event) -> None:
        """Write one event; the first one opens the file."""
        if self._path is not None and self._file is None:
            self._file = Path(self._path).open("a", encoding="utf-8", buffering=1)  # noqa: SIM115
            self._lines = LineWriter(self._file)
        self._lines.write(escape(_json(event)))

    async def export(self, batch: Sequence[Event]) -> None:
        for event in batch:
            self.write(event)


_COLOURS = {"ok": "32", "error": "31", "denied": "33", "asks": "36"}


class HumanLog:
    """An exporter that writes one line for people about each call, question and change.

    A refusal names its reason and the rule, file and line it stands on. No meaning lives in
    colour alone.
    """

    mode: Literal["inline", "queued"] = "inline"
    name = "log"

    def __init__(self, stream: TextIO | None = None, colour: bool | None = None) -> None:
        self._lines = LineWriter(stream)
        self._colour = _wants_colour(self._lines.stream) if colour is None else colour
        self._decided: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def hold(self) -> AbstractContextManager[None]:
        """Hold lines back, as `with log.hold():`, while a prompt is open."""
        return self._lines.hold()

    def write(self, event: Event) -> None:
        """Write what there is to say about one event, which may be nothing."""
        call_id = event.call_id or ""
        if event.type == "call.decided":
            # A refusal comes later and does not repeat on which rule it stands.
            if event.data.get("verdict") != "allow":
                self._decided[call_id] = event.data
                if len(self._decided) > _REMEMBERED:
                    self._decided.popitem(last=False)
            return
        say = _SAY.get(event.type)
        if say is None:
            return
        ended = event.type in ("call.finished", "call.denied")
        decided = self._decided.pop(call_id, {}) if ended else {}
        word, text = say(event, decided)
        mark = f"\x1b[{_COLOURS[word]}m{word:7}\x1b[0m" if self._paints(word) else f"{word:7}"
        clock = time.strftime("%H:%M:%S", time.localtime(event.time))
        self._lines.write(f"{clock}  {mark}  {escape(text)}")

    def _paints(self, word: str) -> bool:
        return self._colour and word in _COLOURS

    async def export(self, batch: Sequence[Event]) -> None:
        for event in batch:
            self.write(event)


def _wants_colour(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    isatty = getattr(stream, "isatty", None)
    return bool(isatty and isatty())


_Said = tuple[str, str]


def _finished(event: Event, decided: dict[str, Any]) -> _Said:
    data = event.data
    timings: dict[str, float] = data.get("timings") or {}
    parts = [data.get("tool"), _took(timings.get("total")), f"for {data.get('principal')}"]
    if data.get("status") != "ok":
        parts.insert(1, f"{data.get('reason')}: {_short(data.get('message') or '')}")
    if (data.get("attempts") or 0) > 1:
        parts.append(f"{data['attempts']} attempts")
    if data.get("still_running"):
        parts.append("still running")
    return str(data.get("status")), _joined(*parts, event.call_id)


def _denied(event: Event, decided: dict[str, Any]) -> _Said:
    data = event.data
    why = (
        f"{data.get('reason')}: {_short(data['message'])}"
        if data.get("message")
        else data.get("reason")
    )
    gate, rule = str(decided.get("gate") or ""), str(decided.get("rule") or "")
    rule = rule if rule.startswith(gate) else f"{gate} {rule}".rstrip()
    stands = f"by {rule} {decided.get('source') or ''}".rstrip() if rule else None
    return "denied", _joined(
        data.get("tool"), why, stands, f"for {data.get('principal')}", event.call_id
    )


def _requested(event: Event, decided: dict[str, Any]) -> _Said:
    data = event.data
    asks = f"{data.get('principal') or 'somebody'} asks to run {data.get('tool') or 'a tool'}"
    return "asks", _joined(asks, data.get("message"), data.get("source"), event.call_id)


def _answered(event: Event, decided: dict[str, Any]) -> _Said:
    data = event.data
    return str(data.get("state") or "answered"), _joined(
        data.get("tool"),
        f"by {data['by']}" if data.get("by") else None,
        f"for {data.get('principal')}",
        "with changed arguments" if data.get("edited") else None,
        f"reaches {data['reach']}" if data.get("reach") not in (None, "once") else None,
        _short(data.get("note") or ""),
        data.get("request"),
        event.call_id,
    )


def _fact(event: Event, decided: dict[str, Any]) -> _Said:
    fields = " ".join(
        f"{key}={_value(value)}" for key, value in event.data.items() if value is not None
    )
    return "", _joined(event.type, fields, event.call_id)


_SAY: dict[str, Callable[[Event, dict[str, Any]], _Said]] = {
    "call.finished": _finished,
    "call.denied": _denied,
    "approval.requested": _requested,
    "approval.decided": _answered,
    **dict.fromkeys(
        (
            *("call.attempt", "tool.emitted", "tool.log"),
            *("host.started", "host.stopped", "config.loaded", "config.rejected"),
            *("catalog.changed", "provider.up", "provider.down"),
            *("provider.drift", "provider.accepted", "provider.rejected"),
            *("grant.created", "grant.used", "grant.revoked"),
        ),
        _fact,
    ),
}


def _joined(*parts: Any) -> str:
    return "  ".join(str(part) for part in parts if part)


def _took(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _value(value: Any) -> str:
    """Of many names the first few: a server can have hundreds of tools, and this is one line."""
    if isinstance(value, str):
        return _short(value)
    if isinstance(value, list | tuple) and len(cast("list[Any]", value)) > _NAMED:
        names = cast("list[Any]", value)
        text = _json(names[:_NAMED]).removesuffix("]")
        return _short(f"{text}, … {len(names) - _NAMED} more]")
    return _short(_json(value))


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"
