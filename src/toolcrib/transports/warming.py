"""What may be called, found out beforehand: with many tools the first to list them would wait."""

from __future__ import annotations

import asyncio
import time

from toolcrib.core.serving import ServeSettings
from toolcrib.host.host import ToolHost

_SLICE = 0.005
"""Seconds after which others get their turn."""


async def warm(host: ToolHost, settings: ServeSettings) -> None:
    """Compile the plans of every tool under the profiles that callers come with."""
    names = list(host.catalog.snapshot())
    given = (settings.http.profile, settings.stdio.profile, *(t.profile for t in settings.tokens))
    began = time.monotonic()
    for profile in {name for name in given if name is not None} or {None}:
        for name in names:
            host.calling.plan(name, profile, None)
            if time.monotonic() - began > _SLICE:
                await asyncio.sleep(0)
                began = time.monotonic()
