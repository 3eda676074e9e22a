"""Trying the sandboxes that tools need: a tool whose sandbox failed is listed as unavailable."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from toolcrib.core.entry import Entry, Unavailable
from toolcrib.core.protocols import Sandbox
from toolcrib.core.sandbox import SelfTest

if TYPE_CHECKING:
    from toolcrib.catalog.catalog import Catalog

_log = logging.getLogger("toolcrib")
REASON = "sandbox_unavailable"


async def try_sandboxes(catalog: Catalog) -> dict[str, tuple[Sandbox, SelfTest]]:
    """Probe every sandbox that a tool of the catalog runs in, and mark the tools accordingly."""
    entries = [entry for entry in catalog.snapshot().values() if entry.sandboxes]
    found = {box.name: box for entry in entries for box in entry.sandboxes}
    tests = await asyncio.gather(*map(_tried, found.values()))
    tried = {name: (box, test) for (name, box), test in zip(found.items(), tests, strict=True)}
    mark_entries(catalog, {name: test for name, (_, test) in tried.items()})
    return tried


async def _tried(box: Sandbox) -> SelfTest:
    """What its self-test says; one that breaks is a sandbox that cannot be used."""
    try:
        said: Any = await box.probe()
    except Exception as error:
        # Only its type: the words of strangers may hold secrets.
        _log.warning("the self-test of the sandbox %s broke: %s", box.name, type(error).__name__)
        return SelfTest(False, f"its self-test broke: {type(error).__name__}")
    if not isinstance(said, SelfTest):
        return SelfTest(False, f"its self-test gave a {type(said).__name__}")
    return said


def mark_entries(catalog: Catalog, tests: dict[str, SelfTest]) -> None:
    """Have tools listed as unavailable whose sandbox failed, and available again where not."""
    changed: list[Entry] = []
    for entry in catalog.snapshot().values():
        failed = [
            (box.name, tests[box.name].message)
            for box in entry.sandboxes
            if box.name in tests and not tests[box.name].available
        ]
        down = entry.unavailable
        if failed and down is None:
            name, message = failed[0]
            text = f"its sandbox {name} cannot be used: {message}"
            changed.append(entry.marked(Unavailable(REASON, text, time.time())))
        elif not failed and down is not None and down.reason == REASON:
            changed.append(entry.marked(None))
    # Who was replaced meanwhile is somebody else's to judge.
    ours = [e for e in changed if _current(catalog, e)]
    names = [f"{entry.name}@{entry.spec.version}" for entry in ours]
    catalog.swap(remove=names, add=ours)


def _current(catalog: Catalog, entry: Entry) -> bool:
    found = catalog.version(entry.name, entry.spec.version)
    return found is not None and found.execute is entry.execute


async def stop_probing(probing: asyncio.Task[Any] | None) -> None:
    """End a search that still goes on; one in another loop ends with it."""
    if probing is None or probing.done() or probing.get_loop() is not asyncio.get_running_loop():
        return
    probing.cancel()
    await asyncio.wait({probing})
