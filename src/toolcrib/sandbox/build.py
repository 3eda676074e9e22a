"""Sandboxes by their type in a configuration, the strict built-in one, and a report on some."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from toolcrib.core.protocols import Sandbox, Workshop
from toolcrib.core.sandbox import SelfTest
from toolcrib.sandbox import bubblewrap, container, landlock, subprocess
from toolcrib.sandbox.settings import Settings, refusal

Factory = Callable[[str, Mapping[str, Any], Workshop], Sandbox]

FACTORIES: dict[str, Factory] = {
    "bubblewrap": bubblewrap.factory,
    "container": container.factory,
    "landlock": landlock.factory,
    "subprocess": subprocess.factory,
}
"""What builds each `type:` of sandbox."""


def strict(workshop: Workshop, *, folder: bool = True) -> Sandbox:
    """The sandbox of commands for which none is named: bubblewrap, the workshop's folder to be
    read if it is wanted, nothing to be written but a private /tmp, no network."""
    settings = Settings(folder=str(workshop.folder.absolute()))
    if folder and not refusal(settings.folder):
        settings = replace(settings, read=(settings.folder,))
    return bubblewrap.BubblewrapSandbox(
        "strict", settings, lambda: workshop.hidden, lambda: workshop.guarded
    )


async def report(sandboxes: Iterable[Sandbox]) -> list[tuple[str, str, SelfTest]]:
    """The name, type and self-test of each."""
    return [(sandbox.name, sandbox.type, await sandbox.probe()) for sandbox in sandboxes]
