"""Sixteen writers call a tool that changes something, until the process is killed.

Every effect goes to a log of its own before the call ends; every ending that the host gave goes
to stdout.
"""

from __future__ import annotations

import asyncio
import os
import sys

from toolcrib import ToolContext, ToolHost, tool

db, effects = sys.argv[1:]
log = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


@tool(effects=["write"])
def note(n: int, ctx: ToolContext) -> int:
    """Leave a line in the independent log."""
    os.write(log, f"{ctx.call_id}\n".encode())
    os.fsync(log)
    return n


async def writer(host: ToolHost, number: int) -> None:
    n = number
    while True:
        result = await host.call("note", {"n": n})
        assert result.status == "ok", result
        os.write(1, f"{result.call_id}\n".encode())
        n += 16


async def main() -> None:
    config = {"version": 1, "host": {"store": f"sqlite:{db}", "audit": {"key": f"{db}.key"}}}
    async with ToolHost([note], config=config) as host:
        await asyncio.gather(*(writer(host, number) for number in range(16)))


asyncio.run(main())
