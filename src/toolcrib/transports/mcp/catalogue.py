"""The lists of prompts and resources of the servers behind the host: fetched, kept, merged."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from toolcrib.core.link import LINK
from toolcrib.observe.log import escape
from toolcrib.protocol.mcp import codes
from toolcrib.transports.mcp.definitions import Kind, shown
from toolcrib.transports.mcp.faults import McpFault
from toolcrib.transports.mcp.offers import Offers
from toolcrib.transports.mcp.upstreams import Upstream, Upstreams

_log = logging.getLogger("toolcrib")
_encode = msgspec.json.Encoder().encode
MOST_PAGES = 1000
MOST_ITEMS = 20_000
MOST_BYTES = 33_554_432
LONGEST = 10.0
"""Seconds that fetching one list may take in all."""
PAUSE = 5.0
"""Seconds until a list that could not be fetched is asked for again."""
KEPT = 600.0
"""Seconds that a list is kept whose server tells of changes."""
SHORTEST = 1.0
"""Seconds that a list is kept in any case: its pages are asked for one after the other."""
MOST_VIEWS = 32


class Listing:
    """What one server listed. Never changes."""

    __slots__ = ("items", "until")

    def __init__(self, items: Mapping[str, Mapping[str, Any]], until: float) -> None:
        self.items = items
        """By the server's own key: a prompt's name, a resource's URI, a template."""
        self.until = until


class Item(msgspec.Struct, frozen=True):
    """One entry of a merged list."""

    upstream: Upstream
    key: str
    """As its server calls it."""
    shown: Mapping[str, Any]


class View:
    """The lists of some servers as one, in the order of the keys."""

    __slots__ = ("items", "keys", "made_of")

    def __init__(self, items: Mapping[str, Item], made_of: Sequence[Any]) -> None:
        self.items = items
        self.keys = sorted(items)
        self.made_of = made_of
        """Held on to, because the view is found by what these are."""


class Catalogue:
    """Keeps what servers listed until they say that it changed, or for a while."""

    def __init__(self, upstreams: Upstreams, ttl: Callable[[], float]) -> None:
        self._ttl = ttl
        """Seconds that a list is kept whose server does not tell of changes."""
        self._upstreams = upstreams
        self._listings: dict[tuple[str, str], Listing] = {}
        self._news: dict[tuple[str, str], int] = {}
        """What had changed when the list was asked for."""
        self._fetches: dict[tuple[str, str], asyncio.Task[Listing]] = {}
        self._views: OrderedDict[tuple[Any, ...], View] = OrderedDict()

    async def view(self, offers: Offers, kind: Kind) -> View:
        """What the caller may see, as one list. A server that fails is left out."""
        seen = [up for up in self._upstreams.all() if offers.sees(up, kind.what) is not None]
        listings = [await self.listing(seen[0], kind)] if len(seen) == 1 else []
        if len(seen) > 1:
            listings = await asyncio.gather(*(self.listing(up, kind) for up in seen))
        parts = zip(seen, listings, strict=True)
        key = (kind.method, *((up.prefix, id(up), id(listing.items)) for up, listing in parts))
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = View(merged(kind, seen, listings), [*seen, *listings])
            if len(self._views) > MOST_VIEWS:
                self._views.popitem(last=False)
        else:
            self._views.move_to_end(key)
        return view

    def last(self, upstream: Upstream, kind: Kind) -> Listing | None:
        """What the server listed last, however long ago."""
        return self._listings.get((upstream.name, kind.method))

    async def listing(self, upstream: Upstream, kind: Kind) -> Listing:
        """What the server lists now; while it is down or fails, what it listed last."""
        key = (upstream.name, kind.method)
        known = self._listings.get(key)
        now = asyncio.get_running_loop().time()
        fresh = self._news.get(key) == upstream.news
        if known is not None and ((fresh and now < known.until) or upstream.relay is None):
            return known
        if upstream.relay is None:
            return Listing({}, now)
        task = self._fetches.get(key)
        if task is None:
            # For everybody, so in nobody's name: what one caller's request says is not passed on.
            context = contextvars.copy_context()
            context.run(LINK.set, None)
            work = self._renew(key, upstream, kind, known)
            task = asyncio.get_running_loop().create_task(work, context=context)
            self._fetches[key] = task
            task.add_done_callback(lambda _: self._fetches.pop(key, None))
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Fetch no more."""
        tasks = list(self._fetches.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _renew(
        self, key: tuple[str, str], upstream: Upstream, kind: Kind, known: Listing | None
    ) -> Listing:
        loop = asyncio.get_running_loop()
        news = upstream.news
        items: Mapping[str, Mapping[str, Any]] = {}
        try:
            async with asyncio.timeout(LONGEST):
                items, told = await _fetch(upstream, kind)
        except (McpFault, TimeoutError) as error:
            absent = isinstance(error, McpFault) and error.code == codes.METHOD_NOT_FOUND
            if not absent:
                words = escape(str(error)) or "it took too long"
                _log.warning("provider %s: no %s: %s", upstream.name, kind.member, words)
                items = known.items if known is not None else {}
            listing = Listing(items, loop.time() + (self._ttl() if absent else PAUSE))
        else:
            told_of = upstream.has(kind.what, "listChanged")
            seconds = KEPT if told_of else max(SHORTEST, min(self._ttl(), told))
            if known is not None and known.items == items:
                items = known.items
            listing = Listing(items, loop.time() + seconds)
        self._listings[key] = listing
        self._news[key] = news
        return listing


async def _fetch(upstream: Upstream, kind: Kind) -> tuple[dict[str, Mapping[str, Any]], float]:
    """All pages of one list, and for how many seconds the server says they hold."""
    items: dict[str, Mapping[str, Any]] = {}
    cursors: set[str] = set()
    params: dict[str, Any] = {}
    seconds = float("inf")
    size = wrong = 0
    for _ in range(MOST_PAGES):
        page = await upstream.request(kind.method, params)
        size += len(_encode(page))
        found: Any = page.get(kind.member)
        for raw in cast("list[Any]", found) if isinstance(found, list) else []:
            made = shown(kind, raw)
            if made is None:
                wrong += 1
            elif len(items) < MOST_ITEMS:
                items.setdefault(made[kind.key], made)
        ttl: Any = page.get("ttlMs")
        if type(ttl) in (int, float) and ttl >= 0:
            seconds = min(seconds, ttl / 1000)
        cursor: Any = page.get("nextCursor")
        if not isinstance(cursor, str):
            break
        if cursor in cursors or size > MOST_BYTES or len(items) >= MOST_ITEMS:
            text = "the list of %s goes in circles or is too long, and was cut after %d"
            _log.warning("provider %s: " + text, upstream.name, kind.member, len(items))
            break
        cursors.add(cursor)
        params = {"cursor": cursor}
    if wrong:
        text = "provider %s: %d of its %s cannot be used and are left out"
        _log.warning(text, upstream.name, wrong, kind.member)
    return items, seconds


def merged(
    kind: Kind, upstreams: Sequence[Upstream], listings: Sequence[Listing]
) -> dict[str, Item]:
    """Several lists as one. Of those that name the same, the first server has it; the others' are
    found under their provider's name where the protocol lets us choose it, and else not."""
    found: dict[str, Item] = {}
    for upstream, listing in zip(upstreams, listings, strict=True):
        for key, item in listing.items.items():
            if not kind.named:
                found.setdefault(key, Item(upstream, key, item))
                continue
            for name in (upstream.prefix + key, f"{upstream.name}-{key}"):
                if name not in found:
                    told = item if name == key else {**item, kind.key: name}
                    found[name] = Item(upstream, key, told)
                    break
    return found
