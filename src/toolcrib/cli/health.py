"""What `toolcrib doctor` says of what lives: sandboxes and providers, found out by trying."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

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
        yield Finding("sandbox", state, f"{box.name} ({box.type}{use}): {test.message}")
    for provider in seen.providers:
        good = provider.state == "up"
        text = f"{provider.name}: {provider.state}, {many(provider.tools, 'tool')}"
        if provider.problems:
            text += f"; {many(len(provider.problems), 'other')} cannot be used"
        cure = None if good else provider.error
        yield Finding("provider", "ok" if good else "fail", text, cure)


def _see(host: ToolHost) -> _Seen:
    from toolcrib.sandbox.build import FACTORIES

    used = {box.name: box for e in host.catalog.snapshot().values() for box in e.sandboxes}
    found = {**host.sandboxes.named, **used}
    types = {box.type for box in found.values()}
    workshop = host.entries.workshop(None)
    for type_, factory in FACTORIES.items():
        if type_ not in types and type_ != NEEDS_IMAGE:
            found[type_] = factory(type_, {}, workshop)
    return _Seen(list(found.values()), frozenset(used), host.sources.status())


async def _tested(boxes: list[Sandbox]) -> list[tuple[Sandbox, SelfTest]]:
    return [(box, await box.probe()) for box in boxes]
