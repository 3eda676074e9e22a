"""What lives, found out by trying: sandboxes and providers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from toolcrib.host.reports.words import many

if TYPE_CHECKING:
    from toolcrib.core.protocols import Sandbox
    from toolcrib.host.host import ToolHost
    from toolcrib.host.provider_settings import ProviderStatus


class Finding(NamedTuple):
    """One thing looked at."""

    name: str
    state: str
    """`ok`, `warn` or `fail`."""
    text: str
    cure: str | None = None


NEEDS_IMAGE = "container"
"""The type that cannot be tried before somebody names an image."""


class Seen(NamedTuple):
    """What there is to be tried."""

    boxes: list[Sandbox]
    """Those that are configured or that a tool runs in, then one of each other type."""
    needed: frozenset[str]
    providers: list[ProviderStatus]
    places: dict[str, str]
    """Where each provider stands in the configuration."""


def user() -> Iterator[Finding]:
    """Who runs this."""
    if os.geteuid() == 0:
        cure = "Run it as a user of its own: what escapes a tool then escapes as that user"
        yield Finding("user", "warn", "root", cure)


async def living(seen: Seen) -> list[Finding]:
    """Sandboxes, each after its self-test; providers, each after an attempt to start it."""
    found: list[Finding] = []
    for box in seen.boxes:
        test = await box.probe()
        needed = box.name in seen.needed
        state = "ok" if test.available else ("fail" if needed else "warn")
        use = "" if needed else ", in no tool's use"
        text = tidy(f"{box.name} ({box.type}{use}): {test.message}")
        found.append(Finding("sandbox", state, text))
    if not any(box.type == NEEDS_IMAGE for box in seen.boxes):
        found.append(await _container())
    found += [_provider(each, seen.places.get(each.name)) for each in seen.providers]
    return found


async def _container() -> Finding:
    """What can be said of containers where nobody named an image: never that they isolate."""
    from toolcrib.sandbox.container import unverified

    why = await unverified() or "no sandbox of the configuration names an image to try it with"
    text = f"{NEEDS_IMAGE} ({NEEDS_IMAGE}, in no tool's use): unverified: {why}"
    return Finding("sandbox", "ok", tidy(text))


def _provider(provider: ProviderStatus, place: str | None) -> Finding:
    text = f"{provider.name}: {provider.state}, {many(provider.tools, 'tool')}"
    held = len(provider.quarantined)
    others = len(provider.problems) if not held else 0
    if others:
        text += f"; {many(others, 'other')} cannot be used"
    if provider.state == "up":
        return _reviewed(provider, text)
    if provider.error:
        text += f"; {provider.error}"
    settings = f"its settings ({place})" if place else "its settings"
    cure = f"Mend what it needs, or {settings}; `toolcrib providers` tries it again"
    return Finding("provider", "fail", tidy(text), cure)


def _reviewed(provider: ProviderStatus, text: str) -> Finding:
    """A provider that is up, and whether somebody has to look at its tools."""
    if provider.quarantined:
        text += f"; {len(provider.quarantined)} of them quarantined: {provider.problems[0]}"
    elif provider.warnings:
        text += f"; {many(len(provider.warnings), 'warning')}: {provider.warnings[0]}"
    else:
        return Finding("provider", "ok", text)
    return Finding(
        "provider", "warn", tidy(text), f"Run `toolcrib providers review {provider.name}`"
    )


def tidy(text: str) -> str:
    """Sentences put together: a full stop behind a question mark is one sign too many."""
    return re.sub(r"([?!.])\.(?=\s|$)", r"\1", text)


def see(host: ToolHost) -> Seen:
    """What a host has of sandboxes and providers."""
    from toolcrib.sandbox.build import FACTORIES

    used = {box.name: box for e in host.catalog.snapshot().values() for box in e.sandboxes}
    found = {**host.sandboxes.named, **used}
    types = {box.type for box in found.values()}
    workshop = host.entries.workshop(None)
    for type_, factory in FACTORIES.items():
        if type_ not in types and type_ != NEEDS_IMAGE:
            found[type_] = factory(type_, {}, workshop)
    return Seen(list(found.values()), frozenset(used), _providers(host), _places(host))


def _providers(host: ToolHost) -> list[ProviderStatus]:
    return host.sources.status(warnings=True)


def _places(host: ToolHost) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, given in host.config.providers.items():
        place: Mapping[str, Any] = given.get("place") or {}
        if place.get("source"):
            found[name] = str(place["source"])
    return found
