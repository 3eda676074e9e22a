"""Subscriptions to resources at the servers behind the host: one for all who want the same."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from toolcrib.core.link import LINK, Relay
from toolcrib.observe.log import escape
from toolcrib.protocol.mcp import codes
from toolcrib.transports.faults import Fault
from toolcrib.transports.mcp.faults import McpFault
from toolcrib.transports.mcp.upstreams import Upstream, Upstreams

_log = logging.getLogger("toolcrib")


class _Hold:
    """What is held of one resource."""

    __slots__ = ("count", "fault", "on", "task", "uri")

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.count = 0
        self.on: Relay | None = None
        """The life of the server in which it was subscribed to, or refused."""
        self.fault: McpFault | None = None
        """Why the server refused."""
        self.task: asyncio.Task[None] | None = None


class Updates:
    """Counts who wants to know of a resource, and has its server tell as long as anybody does."""

    def __init__(self, upstreams: Upstreams, missed: Callable[[Upstream, str], None]) -> None:
        self._upstreams = upstreams
        self._missed = missed
        """Told of a resource that may have changed while its server was away."""
        self._holds: dict[tuple[str, str], _Hold] = {}

    def take(self, upstream: Upstream, uri: str) -> None:
        """One more wants it."""
        hold = self._holds.setdefault((upstream.name, uri), _Hold(uri))
        hold.count += 1
        self._settle(upstream.name, hold)

    def drop(self, name: str, uri: str) -> None:
        """One of them does not any more."""
        hold = self._holds.get((name, uri))
        if hold is not None:
            hold.count -= 1
            self._settle(name, hold)

    async def ready(self, upstream: Upstream, uri: str) -> None:
        """Wait until the server tells of it. Raises `McpFault` when it refuses."""
        hold = self._holds[upstream.name, uri]
        while hold.task is not None:
            await asyncio.shield(hold.task)
        if hold.fault is not None:
            raise hold.fault

    def renew(self, upstream: Upstream) -> None:
        """The server was started anew: subscribe again."""
        for (name, _), hold in list(self._holds.items()):
            if name == upstream.name:
                self._settle(name, hold)

    def wanted(self, upstream: Upstream, uri: str) -> list[str]:
        """The resources that are subscribed to and that a change of this one is about: itself, and
        what it is a part of."""
        return [
            hold.uri
            for (name, _), hold in self._holds.items()
            if name == upstream.name and hold.count > 0 and _within(uri, hold.uri)
        ]

    async def close(self) -> None:
        """Leave everything as it is; the host lets go of the servers."""
        tasks = [hold.task for hold in self._holds.values() if hold.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._holds.clear()

    def _settle(self, name: str, hold: _Hold) -> None:
        if hold.task is None:
            hold.task = asyncio.ensure_future(self._make_so(name, hold))

    async def _make_so(self, name: str, hold: _Hold) -> None:
        """Subscribe or unsubscribe until it is as it is wanted; changes in quick succession are
        looked at once."""
        LINK.set(None)
        try:
            while await self._step(name, hold):
                pass
        except Exception:
            _log.exception("provider %s: subscribing to %s failed", name, escape(hold.uri))
            hold.fault = McpFault.of(Fault("unexpected_failure"))
        finally:
            hold.task = None
            if hold.count <= 0:
                self._holds.pop((name, hold.uri), None)

    async def _step(self, name: str, hold: _Hold) -> bool:
        upstream = self._upstreams.get(name)
        relay = None if upstream is None else upstream.relay
        if upstream is None or relay is None:
            return False
        params: dict[str, Any] = {"uri": hold.uri}
        if hold.count > 0 and hold.on is not relay:
            again = hold.on is not None and hold.fault is None
            hold.on, hold.fault = relay, None
            try:
                if not upstream.has("resources", "subscribe"):
                    text = f"the provider {name} does not tell of changes of its resources"
                    raise McpFault(codes.METHOD_NOT_FOUND, text, http=404)
                await upstream.request("resources/subscribe", params)
            except McpFault as fault:
                hold.fault = fault
            else:
                if again:
                    self._missed(upstream, hold.uri)
            return True
        if hold.count <= 0 and hold.on is relay:
            refused, hold.on = hold.fault is not None, None
            try:
                if not refused:
                    await upstream.request("resources/unsubscribe", params)
            except McpFault as fault:
                words = escape(f"{hold.uri}: {fault}")
                _log.info("provider %s: unsubscribing failed: %s", name, words)
            return True
        return False


def _within(uri: str, subscribed: str) -> bool:
    if uri == subscribed:
        return True
    if not uri.startswith(subscribed):
        return False
    return subscribed.endswith("/") or uri[len(subscribed)] in "/?#"
