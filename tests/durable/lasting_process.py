"""Starts a call that writes and never ends; prints its id once the tool runs."""

from __future__ import annotations

import asyncio
import sys

from toolcrib import ToolContext, ToolHost, tool


@tool(effects=["write"])
async def forever(ctx: ToolContext) -> None:
    """Write for ever."""
    print(ctx.call_id, flush=True)
    await asyncio.sleep(3600)


async def main() -> None:
    async with ToolHost([forever], store=f"sqlite:{sys.argv[1]}") as host:
        await host.call("forever")


asyncio.run(main())
