"""Levels of log messages: how weighty each is, and from which on servers behind the host log."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from toolcrib.transports.mcp.faults import invalid
from toolcrib.transports.mcp.upstreams import Upstream, Upstreams

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_RANK = {level: rank for rank, level in enumerate(LEVELS)}


def checked(level: Any) -> str:
    """The level that a client names. Raises `McpFault`."""
    if isinstance(level, str) and level in _RANK:
        return level
    raise invalid(f"{ascii(level)[:60]} is not a log level. Use one of: {', '.join(LEVELS)}")


def reaches(level: Any, wanted: str | None) -> bool:
    """Whether a message of this level is for somebody who wants `wanted` and above. A level that
    nobody knows counts as the highest: it is not for us to lose it."""
    if wanted is None:
        return False
    rank = _RANK.get(level, len(LEVELS)) if isinstance(level, str) else len(LEVELS)
    return rank >= _RANK.get(wanted, 0)


def _lowest(levels: Iterable[str | None]) -> str | None:
    """The level that is enough for all of them; None when none is wanted."""
    wanted = [level for level in levels if level is not None]
    return min(wanted, key=lambda level: _RANK.get(level, 0)) if wanted else None


class Levels:
    """Has servers log what anybody wants to read: one level for all their clients."""

    def __init__(
        self, upstreams: Upstreams, spawn: Callable[[Coroutine[Any, Any, None]], None]
    ) -> None:
        self._upstreams = upstreams
        self._spawn = spawn
        self._level: str | None = None

    def renew(self, wanted: Iterable[str | None]) -> None:
        """These are the levels that are wanted now. When none is, servers stay at the last one."""
        level = _lowest(wanted)
        if level is not None and level != self._level:
            self._level = level
            for upstream in self._upstreams.all():
                self.came(upstream)

    def came(self, upstream: Upstream) -> None:
        """A server is up that knows nothing of it."""
        relay, level = upstream.relay, self._level
        if level is None or relay is None or not upstream.has("logging"):
            return
        if relay.era == "handshake":
            self._spawn(_set(upstream, level))


async def _set(upstream: Upstream, level: str) -> None:
    await upstream.request("logging/setLevel", {"level": level})
