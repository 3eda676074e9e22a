"""Resources that somebody follows: found, looked at by the rules, and subscribed to."""

from __future__ import annotations

import logging
from collections.abc import Callable

from toolcrib.observe.log import escape
from toolcrib.protocol.mcp import codes
from toolcrib.transports.faults import Fault
from toolcrib.transports.mcp.faults import McpFault
from toolcrib.transports.mcp.offers import Offers
from toolcrib.transports.mcp.owners import Owners
from toolcrib.transports.mcp.updates import Updates
from toolcrib.transports.mcp.upstreams import Upstream
from toolcrib.transports.mcp.watching import Watch

_log = logging.getLogger("toolcrib")


class Following:
    """Who follows what."""

    def __init__(self, owners: Owners, updates: Updates) -> None:
        self._owners = owners
        self._updates = updates
        self._joining: dict[str, Upstream] = {}
        """Owners of resources whose watch is about to be renewed."""

    async def join(self, held: Offers, uri: str, join: Callable[[], None]) -> None:
        """Have the server of a resource tell of it, and then `join`, which renews a watch with it.
        Raises `McpFault` instead when the server refuses or the caller may not read it."""
        upstream = await self._owner(held, uri)
        self._updates.take(upstream, uri)
        try:
            await self._updates.ready(upstream, uri)
            self._joining[uri] = upstream
            join()
        finally:
            self._joining.pop(uri, None)
            self._updates.drop(upstream.name, uri)

    def joined(self, watch: Watch, uri: str) -> bool:
        """Whether the resource is one that `join` has found; it is followed then."""
        upstream = self._joining.get(uri)
        if upstream is None:
            return False
        self._updates.take(upstream, uri)
        watch.followed[uri] = upstream.name
        return True

    async def follow(self, watch: Watch, held: Offers, uri: str) -> None:
        """Follow a resource. One that cannot be followed is left out and logged."""
        try:
            upstream = await self._owner(held, uri)
        except McpFault as fault:
            _log.info("not subscribed to %s: %s", escape(uri), fault)
            return
        self._updates.take(upstream, uri)
        try:
            await self._updates.ready(upstream, uri)
        except McpFault as fault:
            self._updates.drop(upstream.name, uri)
            _log.info("not subscribed to %s: %s", escape(uri), fault)
            return
        except BaseException:
            self._updates.drop(upstream.name, uri)
            raise
        if watch.closed or uri in watch.followed:
            self._updates.drop(upstream.name, uri)
        else:
            watch.followed[uri] = upstream.name

    def leave(self, watch: Watch, uri: str) -> None:
        """Follow it no more."""
        name = watch.followed.pop(uri, None)
        if name is not None:
            self._updates.drop(name, uri)

    async def _owner(self, held: Offers, uri: str) -> Upstream:
        owner = await self._owners.uri(held, uri)
        plan = None if owner is None else held.sees(owner.upstream, "resources")
        if owner is None or plan is None:
            raise McpFault(codes.RESOURCE_NOT_FOUND, "there is no such resource", {"uri": uri})
        if not held.may(plan, {"uri": uri}):
            text = f"{held.who.name} may not read this resource"
            raise McpFault.of(Fault("not_permitted", text, uri=uri))
        return owner.upstream
