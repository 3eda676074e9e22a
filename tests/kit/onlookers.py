"""A running host with a hub, and people who look on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from toolcrib import Principal, ToolContext, ToolHost, tool
from toolcrib.core.events import Event
from toolcrib.transports.caller import Badge, Caller
from toolcrib.transports.events import Hub, Seen, View

PATIENCE = 10.0
"""Seconds for what comes at once on any machine that is not stuck."""


@tool(effects=["read"])
async def look(path: str = "a") -> str:
    """Look at a path."""
    return path


@tool(effects=["read"])
async def work(ctx: ToolContext, steps: int = 2) -> int:
    """Say how far it is."""
    for step in range(steps):
        ctx.progress(step / steps, f"step {step}")
        ctx.log(f"step {step}", principal="bob")
        ctx.emit("stepped", step=step)
    return steps


def caller(name: str, *rights: str, badge: Badge | None = None) -> Caller:
    """Somebody at a door, with some rights."""
    permissions = frozenset(f"toolcrib.{right}" for right in rights)
    return Caller(Principal(name, permissions=permissions), door="http", badge=badge)


AUDITOR = caller("eve", "audit")


def decoded(seen: Seen) -> Event:
    """The event that a viewer got."""
    return msgspec.json.decode(seen.data, type=Event)


async def take(view: View, count: int) -> list[Seen]:
    """The next so many of a view."""

    async def collect() -> list[Seen]:
        return [await anext(view) for _ in range(count)]

    return await asyncio.wait_for(collect(), PATIENCE)


async def rest(view: View) -> list[Seen]:
    """All of a view that ends."""

    async def collect() -> list[Seen]:
        return [seen async for seen in view]

    return await asyncio.wait_for(collect(), PATIENCE)


async def until(view: View, stop: Callable[[Event], bool]) -> list[Seen]:
    """A view up to the event that fits."""
    found: list[Seen] = []
    while not found or not stop(decoded(found[-1])):
        found += await take(view, 1)
    return found


def types(found: Sequence[Seen]) -> list[str]:
    """What they are about."""
    return [seen.type for seen in found]


@asynccontextmanager
async def watched(*tools: Any, **options: Any) -> AsyncIterator[tuple[ToolHost, Hub]]:
    """A running host with a hub."""
    given = {"queue", "viewers", "per_principal"} & options.keys()
    sizes = {name: options.pop(name) for name in given}
    async with ToolHost(tools or [look, work], **options) as host:
        hub = Hub(host, **sizes)
        await hub.start()
        await (await host.start()).store.flush()  # that it started is not waited for otherwise
        try:
            yield host, hub
        finally:
            await hub.stop()
