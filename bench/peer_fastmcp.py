"""The peer: FastMCP's `server.call_tool` on the same function. Runs in its own environment."""

from __future__ import annotations

import asyncio

from fastmcp import FastMCP
from worker import cpu, serve

COUNT = 200
ARGUMENTS = {"a": 1, "b": 2}
server = FastMCP("bench")


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def call(count: int) -> None:
    for _ in range(count):
        await server.call_tool("add", ARGUMENTS)


async def main() -> None:
    await call(COUNT)

    async def round_() -> dict[str, float]:
        return {"call": await cpu(call, COUNT)}

    await serve(round_)


if __name__ == "__main__":
    asyncio.run(main())
