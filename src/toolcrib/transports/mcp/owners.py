"""Which server a prompt or a URI belongs to, for one caller."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from toolcrib.transports.mcp.catalogue import Catalogue
from toolcrib.transports.mcp.definitions import PROMPTS, RESOURCES, TEMPLATES
from toolcrib.transports.mcp.offers import Offers, What
from toolcrib.transports.mcp.templates import fits
from toolcrib.transports.mcp.upstreams import Upstream, Upstreams

_SLICE = 200
"""Templates that are looked at before others have their turn: a server may list many."""


class Owner(msgspec.Struct, frozen=True):
    """A server, and what it calls the thing itself."""

    upstream: Upstream
    key: str


class Owners:
    """Finds owners by what servers list; names and URIs themselves say nothing."""

    def __init__(self, upstreams: Upstreams, catalogue: Catalogue) -> None:
        self._upstreams = upstreams
        self._catalogue = catalogue

    async def prompt(self, offers: Offers, name: str) -> Owner | None:
        """The server whose prompt the caller sees under that name."""
        view = await self._catalogue.view(offers, PROMPTS)
        item = view.items.get(name)
        return None if item is None else Owner(item.upstream, item.key)

    async def uri(self, offers: Offers, uri: str) -> Owner | None:
        """The server that lists the URI, or a template that it fits, or the only one there is."""
        view = await self._catalogue.view(offers, RESOURCES)
        item = view.items.get(uri)
        if item is None:
            view = await self._catalogue.view(offers, TEMPLATES)
            # In the order of the providers' names, as everywhere.
            items = sorted(view.items.values(), key=lambda one: (one.upstream.name, one.key))
            place = await _first([one.key for one in items], uri)
            item = None if place is None else items[place]
        if item is not None:
            return Owner(item.upstream, uri)
        seen = self._seen(offers, "resources")
        return Owner(seen[0], uri) if len(seen) == 1 else None

    async def template(self, offers: Offers, uri: str) -> Owner | None:
        """The server whose template, or else whose resource, that is."""
        view = await self._catalogue.view(offers, TEMPLATES)
        item = view.items.get(uri)
        return await self.uri(offers, uri) if item is None else Owner(item.upstream, uri)

    async def hidden(self, offers: Offers, what: What, name: str) -> Owner | None:
        """The server that has it and that the caller does not see, by what is known already. The
        call is refused then, and that is on the trail."""
        for upstream in self._upstreams.all():
            if offers.sees(upstream, what) is not None:
                continue
            if offers.plan(upstream, what) is None:
                continue
            for kind in (PROMPTS,) if what == "prompts" else (RESOURCES, TEMPLATES):
                listing = self._catalogue.last(upstream, kind)
                if listing is None:
                    continue
                if kind.named:
                    for key in listing.items:
                        if name in (upstream.prefix + key, f"{upstream.name}-{key}"):
                            return Owner(upstream, key)
                elif name in listing.items or (
                    kind is TEMPLATES and await _first(listing.items, name) is not None
                ):
                    return Owner(upstream, name)
        return None

    def _seen(self, offers: Offers, what: What) -> list[Upstream]:
        return [up for up in self._upstreams.all() if offers.sees(up, what) is not None]


async def _first(templates: Iterable[str], uri: str) -> int | None:
    """The place of the first template that the URI fits."""
    for place, template in enumerate(templates):
        if place % _SLICE == _SLICE - 1:
            await asyncio.sleep(0)
        if fits(template, uri):
            return place
    return None
