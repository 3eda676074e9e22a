"""Heads of messages that come again: equal but for the length of the body, which they state."""

from __future__ import annotations

import re
from typing import NamedTuple

MOST = 65_536
"""Bytes of a body that is waited for without a parser."""
_DIGITS = 5
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)(?=\r\n)", re.IGNORECASE)


class Parts:
    """A message of which parts are missing."""

    __slots__ = ("data", "missing", "start")

    def __init__(self, data: bytes, body: bytes, missing: int) -> None:
        self.data = bytearray(data)
        """What came."""
        self.start = len(data) - len(body)
        """Where the body begins."""
        self.missing = missing
        """Bytes that are still to come; negative when something came behind it."""

    def add(self, data: bytes) -> None:
        """More of it came."""
        self.data += data
        self.missing -= len(data)

    @property
    def body(self) -> bytes:
        """The body, as far as it is here."""
        return bytes(self.data[self.start :])


class Frame(NamedTuple):
    """The bytes of a head that a parser has read."""

    before: bytes
    """Up to the length of the body."""
    after: bytes
    """And behind that."""

    def open(self, data: bytes) -> tuple[bytes, int] | None:
        """What is here of the body of a message with this head, and how many bytes are missing;
        None for anything else, and for what is too long to be waited for here."""
        before, after = self
        if not data.startswith(before):
            return None
        start = len(before)
        end = data.find(b"\r", start, start + _DIGITS + 1)
        digits = data[start:end]
        if end < 0 or not digits.isdigit() or not data.startswith(after, end):
            return None
        body = data[end + len(after) :]
        missing = int(digits) - len(body)
        return (body, missing) if 0 <= missing <= MOST else None


def frame_of(data: bytes, length: bytes | None) -> Frame | None:
    """The head of the message that begins with `data`; None where it cannot be known again.
    `length` is the length of its body, as the parser read it."""
    end = data.find(b"\r\n\r\n") + 4
    found = _LENGTH.search(data, 0, end)
    if found is None or found[1] != length:
        return None
    return Frame(data[: found.start(1)], data[found.end(1) : end])
