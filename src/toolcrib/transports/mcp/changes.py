"""What MCP clients are told without asking: changed lists and resources, and log messages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any

from toolcrib.core.events import Event
from toolcrib.core.link import LINK
from toolcrib.protocol.mcp.hops import passed_on
from toolcrib.transports.caller import Caller
from toolcrib.transports.mcp.asked import Endpoint
from toolcrib.transports.mcp.catalogue import Catalogue
from toolcrib.transports.mcp.definitions import PROMPTS, RESOURCES, TEMPLATES
from toolcrib.transports.mcp.faults import McpFault
from toolcrib.transports.mcp.following import Following
from toolcrib.transports.mcp.home import Home
from toolcrib.transports.mcp.levels import Levels, reaches
from toolcrib.transports.mcp.offers import Offers, What, offers_for
from toolcrib.transports.mcp.owners import Owners
from toolcrib.transports.mcp.sight import Part, Sight, changed
from toolcrib.transports.mcp.updates import Updates
from toolcrib.transports.mcp.upstreams import Upstream, Upstreams
from toolcrib.transports.mcp.watching import Tell, Wanted, Watch
from toolcrib.transports.service import Service

_log = logging.getLogger("toolcrib")
PAUSE = 0.05
"""Seconds in which several changes are told as one."""
AT_ONCE = 16
"""Subscriptions of one stream that are made side by side."""
_CHANGES = frozenset({"catalog.changed", "config.loaded", "provider.up", "provider.down"})
_UPDATED = "notifications/resources/updated"
_MESSAGE = "notifications/message"
_LISTS: Mapping[str, What] = {
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
}

Key = tuple[Any, ...]


class _News:
    """What is to be told at the next occasion."""

    __slots__ = ("everybody", "lists", "sessions", "updates")

    def __init__(self) -> None:
        self.everybody = False
        """Whether anybody's tools may have changed."""
        self.sessions: set[str] = set()
        """Sessions whose own tools changed."""
        self.lists: set[tuple[What, str]] = set()
        """What changed, and at which provider."""
        self.updates: dict[tuple[str, str], Mapping[str, Any]] = {}
        """By provider and URI."""


class Changes:
    """One for all clients of a service; listens only while there are some."""

    def __init__(self, service: Service) -> None:
        self._host = service.host
        self.upstreams = Upstreams(service.host)
        self.catalogue = Catalogue(self.upstreams, lambda: service.settings.mcp.ttl)
        self.owners = Owners(self.upstreams, self.catalogue)
        self._updates = Updates(self.upstreams, self._missed)
        self._following = Following(self.owners, self._updates)
        self._watches: dict[Watch, None] = {}
        self._sights: dict[Key, Sight] = {}
        """What was there to be seen when it was last told."""
        self._levels = Levels(self.upstreams, self._spawn)
        self._news = _News()
        self._timer: asyncio.TimerHandle | None = None
        self._telling = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._home: Home | None = None
        self._stop: Callable[[], None] | None = None
        self.upstreams.listen(self._heard, self._came)

    # Those who are told.

    def watch(self, caller: Caller, endpoint: Endpoint, wanted: Wanted, told: Tell) -> Watch:
        """Tell somebody from now on. `told` must not wait; it is called in this loop."""
        watch = Watch(self, caller, endpoint, replace(wanted, uris=frozenset()), told)
        self._add(watch)
        self.renew(watch, wanted)
        return watch

    async def listen(self, caller: Caller, endpoint: Endpoint, wanted: Wanted, told: Tell) -> Watch:
        """The same, with its resources found and subscribed to: nothing is told before this
        returns, and `wanted` of what it gives is what is honoured. Raises `McpFault`."""
        held = offers_for(self._host, caller, endpoint)
        watch = Watch(self, caller, endpoint, replace(wanted, uris=frozenset()), told)
        turns = asyncio.Semaphore(AT_ONCE)

        async def follow(uri: str) -> None:
            async with turns:
                await self._following.follow(watch, held, uri)

        try:
            await asyncio.gather(*(follow(uri) for uri in wanted.uris))
        except BaseException:
            watch.close()
            raise
        watch.wanted = replace(wanted, uris=frozenset(watch.followed))
        self._add(watch)
        return watch

    async def subscribe(
        self, caller: Caller, endpoint: Endpoint, uri: str, join: Callable[[], None]
    ) -> None:
        """Have the server of a resource tell of it, and then `join`, which renews a watch with it.
        Raises `McpFault` instead when the server refuses or the caller may not read it."""
        await self._following.join(offers_for(self._host, caller, endpoint), uri, join)

    def renew(self, watch: Watch, wanted: Wanted) -> None:
        """What somebody wants to be told has changed."""
        before, watch.wanted = watch.wanted, wanted
        for uri in before.uris - wanted.uris:
            self._following.leave(watch, uri)
        for uri in wanted.uris - before.uris:
            if not self._following.joined(watch, uri):
                self._spawn(self._follow_later(watch, uri))
        if before.messages != wanted.messages:
            self._levels.renew(watch.wanted.messages for watch in self._watches)

    def forget(self, watch: Watch) -> None:
        """Somebody is told nothing more."""
        for uri in list(watch.followed):
            self._following.leave(watch, uri)
        self._watches.pop(watch, None)
        key = _key(watch)
        if all(_key(other) != key for other in self._watches):
            self._sights.pop(key, None)
        if watch.wanted.messages is not None:
            self._levels.renew(watch.wanted.messages for watch in self._watches)
        if not self._watches and self._stop is not None:
            self._stop()
            self._stop = None
            self._news = _News()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    async def close(self) -> None:
        """Tell nobody any more."""
        for watch in list(self._watches):
            watch.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._updates.close()
        await self.catalogue.close()
        self.upstreams.close()

    def _add(self, watch: Watch) -> None:
        self.upstreams.renew()  # who is up already is no news
        self._watches[watch] = None
        if self._stop is None:
            self._home = Home.here()
            self._stop = self._host.bus.on_fact(self._fact)
        key = _key(watch)
        if key not in self._sights:
            held = self._offers(watch)
            if held is not None:
                self._sights[key] = Sight(held)
        if watch.wanted.messages is not None:
            self._levels.renew(watch.wanted.messages for watch in self._watches)

    async def _follow_later(self, watch: Watch, uri: str) -> None:
        held = self._offers(watch)
        if held is not None:
            await self._following.follow(watch, held, uri)
            if uri not in watch.wanted.uris:
                self._following.leave(watch, uri)

    # What happens.

    def _fact(self, event: Event) -> None:
        """A fact, in whatever thread it came up."""
        if event.type in _CHANGES and self._home is not None:
            self._home.do(self._changed, event.data.get("session"))

    def _changed(self, session: Any) -> None:
        if isinstance(session, str):
            self._news.sessions.add(session)
        else:
            self._news.everybody = True
        self._soon()

    def _heard(self, upstream: Upstream, method: str, params: Mapping[str, Any]) -> None:
        """What a server says outside of any request."""
        if not self._watches:
            return
        if method == _MESSAGE:
            self._message(upstream, params)
        elif method == _UPDATED:
            uri = params.get("uri")
            if isinstance(uri, str) and self._updates.wanted(upstream, uri):
                self._news.updates[upstream.name, uri] = passed_on(params)
                self._soon()
        elif method in _LISTS:
            self._news.lists.add((_LISTS[method], upstream.name))
            self._soon()

    def _missed(self, upstream: Upstream, uri: str) -> None:
        self._news.updates[upstream.name, uri] = {"uri": uri}
        self._soon()

    def _came(self, upstream: Upstream) -> None:
        """A server is up, perhaps again."""
        self._updates.renew(upstream)
        if self._watches:
            self._spawn(self._compare(upstream))
            self._levels.came(upstream)

    async def _compare(self, upstream: Upstream) -> None:
        """Find out whether a server that is up again lists what it did."""
        for kind in (PROMPTS, RESOURCES, TEMPLATES):
            if upstream.has(kind.what):
                before = self.catalogue.last(upstream, kind)
                now = await self.catalogue.listing(upstream, kind)
                if before is None or before.items is not now.items:
                    self._news.lists.add((kind.what, upstream.name))
                    self._soon()

    # Telling.

    def _soon(self) -> None:
        if self._timer is None and self._watches:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(PAUSE, lambda: self._spawn(self._tell()))

    async def _tell(self) -> None:
        self._timer = None
        async with self._telling:
            self.upstreams.renew()
            news, self._news = self._news, _News()
            groups: dict[Key, list[Watch]] = {}
            for watch in self._watches:
                groups.setdefault(_key(watch), []).append(watch)
            for key in self._sights.keys() - groups.keys():
                del self._sights[key]  # who had it is somebody else by now, with other roles say
            for key, watches in groups.items():
                held = self._offers(watches[0])
                if held is not None:
                    await self._tell_alike(key, held, watches, news)
                await asyncio.sleep(0)  # others have their turn

    async def _tell_alike(self, key: Key, held: Offers, watches: list[Watch], news: _News) -> None:
        """Tell those who see the same."""
        parts: set[Part] = set()
        mine = held.session is not None and held.session.id in news.sessions
        before = self._sights.get(key)
        if news.everybody or mine or before is None:
            now = Sight(held)
            parts = {"tools", "prompts", "resources"}
            if before is not None:
                parts = await changed(self._host, before, now)
            if key in self._sights or before is None:
                self._sights[key] = now
        for what, name in news.lists:
            upstream = self.upstreams.get(name)
            if upstream is not None and held.sees(upstream, what) is not None:
                parts.add(what)
        for watch in watches:
            wanted = watch.wanted
            for part, wants in (
                ("tools", wanted.tools),
                ("prompts", wanted.prompts),
                ("resources", wanted.resources),
            ):
                if wants and part in parts:
                    _say(watch, f"notifications/{part}/list_changed", {})
        for (name, uri), params in news.updates.items():
            self._tell_update(held, watches, name, uri, params)

    def _tell_update(
        self, held: Offers, watches: list[Watch], name: str, uri: str, params: Mapping[str, Any]
    ) -> None:
        upstream = self.upstreams.get(name)
        plan = None if upstream is None else held.sees(upstream, "resources")
        # Rules may have changed since it was subscribed to.
        if upstream is None or plan is None or not held.may(plan, {"uri": uri}):
            return
        about = self._updates.wanted(upstream, uri)
        for watch in watches:
            if any(watch.followed.get(one) == name for one in about):
                _say(watch, _UPDATED, dict(params))

    def _message(self, upstream: Upstream, params: Mapping[str, Any]) -> None:
        level = params.get("level")
        for watch in list(self._watches):
            if reaches(level, watch.wanted.messages) and self._knows(watch, upstream.name):
                _say(watch, _MESSAGE, passed_on(params))

    def _knows(self, watch: Watch, provider: str) -> bool:
        """Whether somebody sees anything of that provider's."""
        held = self._offers(watch)
        if held is None:
            return False
        sight = self._sights.get(_key(watch))
        if sight is None:
            return held.knows(provider)
        if provider not in sight.knows:
            sight.knows[provider] = held.knows(provider)
        return sight.knows[provider]

    def _offers(self, watch: Watch) -> Offers | None:
        """What somebody is held to now; None for who may do nothing any more."""
        try:
            return offers_for(self._host, watch.caller, watch.endpoint)
        except McpFault:
            return None

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(self._quietly(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _quietly(self, work: Coroutine[Any, Any, None]) -> None:
        LINK.set(None)  # it is done for everybody, and in nobody's name
        try:
            await work
        except McpFault as fault:
            _log.info("an MCP server could not be told or asked: %s", fault)
        except Exception:
            _log.exception("telling MCP clients of changes failed")


def _key(watch: Watch) -> Key:
    """Who sees the same."""
    caller = watch.caller
    session = None if caller.session is None else caller.session.id
    return caller.principal, caller.profile, session, watch.endpoint


def _say(watch: Watch, method: str, params: dict[str, Any]) -> None:
    if watch.closed or watch.caller.badge.over:
        return
    try:
        watch.tell(method, params)
    except Exception:
        _log.exception("an MCP client could not be told of %s", method)
