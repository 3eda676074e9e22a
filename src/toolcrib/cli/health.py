"""What `toolcrib doctor` says of what lives: sandboxes and providers, found out by trying."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from toolcrib.cli.output import many
from toolcrib.errors import ConfigError

if TYPE_CHECKING:
    from toolcrib.cli.project import Project
    from toolcrib.core.protocols import Sandbox
    from toolcrib.core.sandbox import SelfTest
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


class _Seen(NamedTuple):
    boxes: list[Sandbox]
    """Those that are configured or that a tool runs in, then one of each other type."""
    needed: frozenset[str]
    providers: list[ProviderStatus]
    places: dict[str, str]
    """Where each provider stands in the configuration."""


def living(project: Project) -> Iterator[Finding]:
    """Sandboxes, each after its self-test; providers, each after an attempt to start it."""
    if os.geteuid() == 0:
        cure = "Run it as a user of its own: what escapes a tool then escapes as that user"
        yield Finding("user", "warn", "root", cure)
    try:
        project.host()
    except ConfigError:
        return  # told already
    seen = project.look(_see)
    for box, test in asyncio.run(_tested(seen.boxes)):
        needed = box.name in seen.needed
        state = "ok" if test.available else ("fail" if needed else "warn")
        use = "" if needed else ", in no tool's use"
        yield Finding("sandbox", state, tidy(f"{box.name} ({box.type}{use}): {test.message}"))
    for provider in seen.providers:
        yield _provider(provider, seen.places.get(provider.name))


def _provider(provider: ProviderStatus, place: str | None) -> Finding:
    text = f"{provider.name}: {provider.state}, {many(provider.tools, 'tool')}"
    if provider.problems:
        text += f"; {many(len(provider.problems), 'other')} cannot be used"
    if provider.state == "up":
        return Finding("provider", "ok", text)
    if provider.error:
        text += f"; {provider.error}"
    settings = f"its settings ({place})" if place else "its settings"
    cure = f"Mend what it needs, or {settings}; `toolcrib providers` tries it again"
    return Finding("provider", "fail", tidy(text), cure)


def tidy(text: str) -> str:
    """Sentences put together: a full stop behind a question mark is one sign too many."""
    return re.sub(r"([?!.])\.(?=\s|$)", r"\1", text)


def _see(host: ToolHost) -> _Seen:
    from toolcrib.sandbox.build import FACTORIES

    used = {box.name: box for e in host.catalog.snapshot().values() for box in e.sandboxes}
    found = {**host.sandboxes.named, **used}
    types = {box.type for box in found.values()}
    workshop = host.entries.workshop(None)
    for type_, factory in FACTORIES.items():
        if type_ not in types and type_ != NEEDS_IMAGE:
            found[type_] = factory(type_, {}, workshop)
    return _Seen(list(found.values()), frozenset(used), host.sources.status(), _places(host))


def _places(host: ToolHost) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, given in host.config.providers.items():
        place: Mapping[str, Any] = given.get("place") or {}
        if place.get("source"):
            found[name] = str(place["source"])
    return found


async def _tested(boxes: list[Sandbox]) -> list[tuple[Sandbox, SelfTest]]:
    return [(box, await box.probe()) for box in boxes]
