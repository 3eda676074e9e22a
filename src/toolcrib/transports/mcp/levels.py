"""From which level on the servers behind the host log: one level for all their clients."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from toolcrib.transports.mcp.logging import lowest
from toolcrib.transports.mcp.upstreams import Upstream, Upstreams


class Levels:
    """Has servers log what anybody wants to read."""

    def __init__(
        self, upstreams: Upstreams, spawn: Callable[[Coroutine[Any, Any, None]], None]
    ) -> None:
        self._upstreams = upstreams
        self._spawn = spawn
        self._level: str | None = None

    def renew(self, wanted: Iterable[str | None]) -> None:
        """These are the levels that are wanted now. When none is, servers stay at the last one."""
        level = lowest(wanted)
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
