"""What would make the first who needs it wait, done beforehand or in a quiet moment."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolcrib.core.serving import ServeSettings
    from toolcrib.host.host import ToolHost

_log = logging.getLogger("toolcrib")
_SLICE = 0.005
"""Seconds after which others get their turn."""
QUIET = 1.0
"""Seconds until a gateway that has started loads the rest."""
REST = (
    "jsonschema_rs",
    "toolcrib.approvals.inbox",
    "toolcrib.catalog.ranking",
    "toolcrib.host.history",
    "toolcrib.pipeline.asking",
    "toolcrib.pipeline.explain",
    "toolcrib.transports.calls",
    "toolcrib.transports.client_tools",
    "toolcrib.transports.events",
    "toolcrib.transports.methods",
    "toolcrib.transports.rpc",
    "toolcrib.transports.subscriptions",
    "toolcrib.transports.wire",
)
"""What a gateway starts without and may need at any time."""


async def warm(host: ToolHost, settings: ServeSettings) -> None:
    """Compile the plans of every tool under the profiles that callers come with: with many tools
    the first to list them would wait."""
    names = list(host.catalog.snapshot())
    given = (settings.http.profile, settings.stdio.profile, *(t.profile for t in settings.tokens))
    began = time.monotonic()
    for profile in {name for name in given if name is not None} or {None}:
        for name in names:
            host.calling.plan(name, profile, None)
            if time.monotonic() - began > _SLICE:
                await asyncio.sleep(0)
                began = time.monotonic()


def load_rest(names: Sequence[str] = REST) -> None:
    """Load these, a module in a turn of the loop. From then on it does not matter either if
    somebody puts another version in the place of the one that runs."""
    if not names:
        return
    try:
        import_module(names[0])
    except ImportError as error:
        _log.error("%s cannot be loaded any more: %s. Start the gateway anew", names[0], error)
    asyncio.get_running_loop().call_soon(load_rest, names[1:])
