"""Which server a prompt or a URI belongs to, for one caller."""

from __future__ import annotations

from typing import NamedTuple

from toolcrib.transports.mcp.catalogue import Catalogue
from toolcrib.transports.mcp.definitions import PROMPTS, RESOURCES, TEMPLATES
from toolcrib.transports.mcp.offers import Offers, What
from toolcrib.transports.mcp.templates import fits
from toolcrib.transports.mcp.upstreams import Upstream, Upstreams


class Owner(NamedTuple):
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
            item = next((one for one in items if fits(one.key, uri)), None)
        if item is not None:
            return Owner(item.upstream, uri)
        seen = self._seen(offers, "resources")
        return Owner(seen[0], uri) if len(seen) == 1 else None

    async def template(self, offers: Offers, uri: str) -> Owner | None:
        """The server whose template, or else whose resource, that is."""
        view = await self._catalogue.view(offers, TEMPLATES)
        item = view.items.get(uri)
        return await self.uri(offers, uri) if item is None else Owner(item.upstream, uri)

    def hidden(self, offers: Offers, what: What, name: str) -> Owner | None:
        """The server that has it and that the caller does not see, by what is known already. The
        call is refused then, and that is on the trail."""
        for upstream in self._upstreams.all():
            if offers.sees(upstream, what) is not None:
                continue
            if offers.plan(upstream, what) is None:
                continue
            for kind in (PROMPTS,) if what == "prompts" else (RESOURCES, TEMPLATES):
                listing = self._catalogue.last(upstream, kind)
                for key in () if listing is None else listing.items:
                    shown = (upstream.prefix + key, f"{upstream.name}-{key}")
                    if name in shown if kind.named else (key == name or fits(key, name)):
                        return Owner(upstream, key if kind.named else name)
        return None

    def _seen(self, offers: Offers, what: What) -> list[Upstream]:
        return [up for up in self._upstreams.all() if offers.sees(up, what) is not None]
