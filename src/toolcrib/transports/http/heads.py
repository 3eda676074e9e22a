"""Heads of requests that come again and again on one connection, read once.

A client that keeps its connection sends nearly the same head with every call. What was found out
about it is kept with its bytes: equal bytes mean the same, whoever parses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.transports.http.guard import Guard
from toolcrib.transports.identity.identity import Known

END = b"\r\n\r\n"
MOST = 16
"""Heads that are kept for one connection."""
LONGEST = 4096
"""Bytes of a head that is worth keeping."""


class Plain:
    """The head of a plain call: all that is asked of one has been found in order. It holds for as
    long as its guard is the one in force and its caller is still known."""

    __slots__ = ("guard", "head", "known", "length", "name", "scope", "seen", "size")

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
        self.size = self.length = 0
        """Bytes of the whole request, and of its body."""
        self.seen: Any = None
        """What the door that it is for keeps beside it."""


class Heads:
    """The heads of one connection."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, Plain] = {}

    def find(self, data: bytes) -> Plain | None:
        """What is known of a request that came in one piece."""
        found = self._known.get(data[: data.find(END) + 4])
        return found if found is not None and found.size == len(data) else None

    def keep(self, data: bytes, plain: Plain) -> None:
        """Remember the head of a request, if it came whole and alone in these bytes."""
        end = data.find(END) + 4
        length = plain.head.get(b"content-length")
        if length is None or end > LONGEST or not length.isdigit():
            return
        if b"transfer-encoding" in plain.head or end + int(length) != len(data):
            return
        if len(self._known) >= MOST:
            self._known.clear()
        plain.size, plain.length = len(data), int(length)
        self._known[data[:end]] = plain

    def clear(self) -> None:
        """Forget them: the connection is gone."""
        self._known.clear()
