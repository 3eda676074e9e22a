"""Heads of requests that come again and again on one connection, read once.

A client that keeps its connection sends nearly the same head with every call: only the length of
the body differs. What was found out about a head is kept with its bytes: equal bytes mean the same,
whoever parses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.net.framing import Frame, frame_of
from toolcrib.transports.http.guard import Guard
from toolcrib.transports.identity.identity import Known

MOST = 8
"""Heads that are kept for one connection."""
LONGEST = 2048
"""Bytes of a head that is worth keeping."""


class Plain:
    """The head of a plain call: all that is asked of one has been found in order. It holds for as
    long as its guard is the one in force and its caller is still known."""

    __slots__ = ("frame", "guard", "head", "known", "name", "scope", "seen")

    def __init__(
        self,
        scope: Mapping[str, Any],
        head: Mapping[bytes, bytes],
        guard: Guard,
        known: Known,
        name: str | None,
    ) -> None:
        self.scope = scope
        self.head = head
        self.guard = guard
        self.known = known
        self.name = name
        """Of the tool, where the address says it; None for MCP."""
        self.frame: Frame | None = None
        """Its bytes, once they are kept."""
        self.seen: Any = None
        """What the door that it is for keeps beside it."""


class Heads:
    """The heads of one connection."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: list[Plain] = []

    def find(self, data: bytes) -> tuple[Plain, bytes, int] | None:
        """What is known of a request that begins with `data`, what is here of its body, and how
        many bytes are missing."""
        for place, plain in enumerate(self._known):
            found = None if plain.frame is None else plain.frame.open(data)
            if found is not None:
                if place:
                    self._known.insert(0, self._known.pop(place))
                return plain, *found
        return None

    def keep(self, data: bytes, plain: Plain) -> None:
        """Remember the head of the request that begins with `data`."""
        frame = frame_of(data, plain.head.get(b"content-length"))
        if frame is None or b"transfer-encoding" in plain.head:
            return
        if len(frame.before) + len(frame.after) <= LONGEST:
            plain.frame = frame
            self._known.insert(0, plain)
            del self._known[MOST:]

    def clear(self) -> None:
        """Forget them: the connection is gone."""
        self._known.clear()
