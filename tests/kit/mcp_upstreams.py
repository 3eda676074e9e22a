"""MCP servers for tests of the provider, and what a door would be to it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from toolcrib.core.context import ToolContext
from toolcrib.core.link import InputRefused
from toolcrib.errors import ToolFailure
from toolcrib.host.workshop import Sandboxes, Workshop
from toolcrib.providers.mcp.provider import McpProvider, factory

SCRIPT = Path(__file__).with_name("mcp_stdio_server.py")


def command(**options: Any) -> list[str]:
    """The command of a server on standard streams."""
    return [sys.executable, "-I", str(SCRIPT), json.dumps(options)]


def provider(folder: Path, settings: Mapping[str, Any], name: str = "up") -> McpProvider:
    """A provider that is not entered yet."""
    return factory(name, settings, Workshop(Sandboxes(), folder))


@asynccontextmanager
async def entered(
    folder: Path, settings: Mapping[str, Any], changed: Callable[[], None] | None = None
) -> AsyncIterator[McpProvider]:
    """A provider that is up and has listed its tools."""
    made = provider(folder, settings)
    if changed is not None:
        made.follow(changed)
    async with made:
        await made.list_tools()
        yield made


async def call(made: McpProvider, name: str, /, **arguments: Any) -> Any:
    """One call, as the pipeline makes it."""
    return await made.execute(context(made, name, **arguments))


def context(made: McpProvider, name: str, /, **arguments: Any) -> ToolContext:
    """The context of a call."""
    spec = made._listing.specs[f"up-{name}"]
    return ToolContext(tool=spec.name, arguments=arguments, spec=spec, call_id="c1")


async def failure(made: McpProvider, name: str, /, **arguments: Any) -> ToolFailure:
    """What a call fails with."""
    try:
        result = await call(made, name, **arguments)
    except ToolFailure as error:
        return error
    raise AssertionError(f"it ended with {result}")


class Link:
    """What a door is to a call: it answers questions and takes notifications."""

    era = "modern"
    version = "2026-07-28"
    client = None
    wants_progress = True
    log_level: str | None = None

    def __init__(self, answers: Mapping[str, Any] | None = None, **capabilities: Any) -> None:
        self.answers = answers
        self.capabilities: Mapping[str, Any] = capabilities
        self.meta: Mapping[str, Any] = {"traceparent": "00-1-2-01"}
        self.asked: list[Mapping[str, Any]] = []
        self.told: list[tuple[str, Mapping[str, Any]]] = []

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        self.asked.append(requests)
        await asyncio.sleep(0)
        if self.answers is None:
            raise InputRefused("nobody is there")
        return dict.fromkeys(requests, self.answers)

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        self.told.append((method, params))


def lives(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def until(true: Callable[[], Any], seconds: float = 10.0) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 - what is waited for is in another process
            await asyncio.sleep(0.005)


def descriptors() -> int:
    """How many descriptors this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
