"""A host for MCP clients at the stdio door, run as a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from toolcrib.transports.pipes import claim

claim()

from toolcrib import ToolContext, ToolHost, tool  # noqa: E402
from toolcrib.core.link import LINK, InputRefused  # noqa: E402
from toolcrib.core.serving import McpSettings, ServeSettings, StdioSettings  # noqa: E402
from toolcrib.core.settings import HostConfig, HostSettings  # noqa: E402
from toolcrib.errors import ToolFailure  # noqa: E402
from toolcrib.transports.serving import serve  # noqa: E402


@tool(effects=["read"])
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(effects=["read"])
async def wait(ctx: ToolContext, seconds: float) -> str:
    """Tell that it began, and wait."""
    ctx.progress(0.5, "began")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        print("stopped waiting", file=sys.stderr, flush=True)
        raise
    return "waited"


@tool(effects=["read"])
async def ask_name() -> str:
    """Ask the client for a name."""
    link = LINK.get()
    assert link is not None
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    params = {"message": "Who?", "requestedSchema": schema}
    try:
        given = await link.ask({"who": {"method": "elicitation/create", "params": params}})
    except InputRefused as refused:
        print("nobody to ask", file=sys.stderr, flush=True)
        raise ToolFailure(str(refused)) from None
    answer: Any = given.get("who", {})
    return f"{answer.get('action')} {answer.get('content', {}).get('name')}"


@tool(effects=["read"])
def shout() -> str:
    """Write to standard output."""
    print("shout: print")
    os.write(1, b"shout: descriptor\n")
    return "done"


async def main() -> None:
    given = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    enabled = given.pop("mcp", True)
    host = ToolHost(
        [add, wait, ask_name, shout],
        config=HostConfig(settings=HostSettings(drain=given.pop("drain", 5.0))),
    )

    @tool(effects=["read"])
    async def grow() -> str:
        """Make one more tool."""

        @tool(effects=["read"])
        async def grown() -> str:
            """Be new."""
            return "new"

        host.register(grown)
        return "grown"

    host.register(grow)
    doors = ServeSettings(stdio=StdioSettings(**given), mcp=McpSettings(enabled=enabled))
    await serve(host, doors, doors=("stdio",), ready=lambda _: None)


asyncio.run(main())
