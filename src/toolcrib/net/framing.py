"""Heads of messages that come again: equal but for the length of the body, which they state."""

from __future__ import annotations

import re
from typing import NamedTuple

_DIGITS = 8
"""Of a length that is looked at here; longer bodies do not come in one piece."""
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,8})(?=\r\n)", re.IGNORECASE)


class Frame(NamedTuple):
    """The bytes of a head that a parser has read."""

    before: bytes
    """Up to the length of the body."""
    after: bytes
    """And behind that."""

    def body(self, data: bytes) -> bytes | None:
        """The body of a message with this head that came whole and alone; else None."""
        before, after = self
        if not data.startswith(before):
            return None
        start = len(before)
        end = data.find(b"\r", start, start + _DIGITS + 1)
        digits = data[start:end]
        if end < 0 or not digits.isdigit() or not data.startswith(after, end):
            return None
        body = data[end + len(after) :]
        return body if len(body) == int(digits) else None


def frame_of(data: bytes, length: bytes | None) -> Frame | None:
    """The head of a message that came whole and alone; None where it did not. `length` is the
    length of its body, as the parser read it."""
    end = data.find(b"\r\n\r\n") + 4
    found = _LENGTH.search(data, 0, end)
    if found is None or found[1] != length or end + int(found[1]) != len(data):
        return None
    return Frame(data[: found.start(1)], data[found.end(1) : end])
