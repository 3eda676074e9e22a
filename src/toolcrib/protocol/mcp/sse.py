"""Event streams (`text/event-stream`), read piece by piece."""

from __future__ import annotations

import re
from typing import NamedTuple

from toolcrib.errors import ToolcribError

_LINE_END = re.compile(rb"\r\n|\n|\r").search
_LONGEST_ID = 1024
_CARRIED = re.compile(rb"[\x20-\x7e]*").fullmatch


class EventTooLarge(ToolcribError):
    """An event is larger than may be."""


class Event(NamedTuple):
    """One event with data; others are not told."""

    type: str
    data: str
    id: str
    """The last id that the stream named; empty when it named none."""


class EventParser:
    """Takes the bytes of a stream as they come, and gives the events that are whole."""

    __slots__ = ("_buffer", "_data", "_id", "_limit", "_seen", "_size", "_skip", "_type", "last_id",
                 "retry")  # fmt: skip

    def __init__(self, max_bytes: int) -> None:
        self._limit = max_bytes
        self._buffer = bytearray()
        self._seen = 0
        """How many of the buffered bytes are known to hold no line end."""
        self._skip = False
        """Whether a line feed belongs to the carriage return before it."""
        self._data: list[bytes] = []
        self._size = 0
        self._type = ""
        self._id: str | None = None
        self.last_id = ""
        """What to give as `Last-Event-ID` to have the stream go on."""
        self.retry: float | None = None
        """Seconds to wait before that, when the stream said so."""

    def feed(self, piece: bytes) -> list[Event]:
        """The events that this piece completes. Raises `EventTooLarge`."""
        if self._skip and piece:
            self._skip = False
            piece = piece.removeprefix(b"\n")
        buffer = self._buffer
        buffer += piece
        events: list[Event] = []
        start = 0
        while (found := _LINE_END(buffer, max(start, self._seen))) is not None:
            line = bytes(buffer[start : found.start()])
            start = self._seen = found.end()
            self._skip = found.group() == b"\r" and start == len(buffer)
            self._line(line, events)
        if start:
            del buffer[:start]
        self._seen = len(buffer)
        self._check(len(buffer))
        return events

    def _line(self, line: bytes, events: list[Event]) -> None:
        if not line:
            self._dispatch(events)
            return
        name, _, value = line.removeprefix(b"\xef\xbb\xbf").partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1
            self._check(0)
        elif name == b"event":
            self._type = value[:100].decode("utf-8", "replace")
        elif name == b"id":
            if b"\0" not in value and len(value) <= _LONGEST_ID:
                # One that no header can carry is as good as none: the stream cannot go on by it.
                self._id = value.decode() if _CARRIED(value) else ""
        elif name == b"retry" and value.isdigit() and len(value) < 10:
            self.retry = int(value) / 1000

    def _dispatch(self, events: list[Event]) -> None:
        if self._id is not None:
            self.last_id = self._id
        data, self._data, self._size = b"\n".join(self._data), [], 0
        kind, self._type = self._type or "message", ""
        if data:
            events.append(Event(kind, data.decode("utf-8", "replace"), self.last_id))

    def _check(self, buffered: int) -> None:
        if self._size + buffered > self._limit:
            raise EventTooLarge(f"an event has more than {self._limit} bytes")
