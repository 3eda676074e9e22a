"""Calls that change things: each is on disk before it runs and before it is answered."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from worker import cpu, serve

from toolcrib import ToolHost, tool

ROUNDS, CALLERS = 20, 64


@tool(effects=["write"])
async def note(a: int) -> int:
    """Pretend to write."""
    return a


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trail.db")
        async with ToolHost([note], store=f"sqlite:{path}") as host:

            async def caller(count: int) -> None:
                for number in range(count):
                    result = await host.call("note", {"a": number})
                    if result.status != "ok":
                        raise SystemExit(f"a call failed: {result}")

            async def together(count: int) -> None:
                await asyncio.gather(*(caller(count // CALLERS) for _ in range(CALLERS)))

            await together(CALLERS)

            async def round_() -> dict[str, float]:
                return {"durable": await cpu(together, ROUNDS * CALLERS)}

            await serve(round_)


if __name__ == "__main__":
    asyncio.run(main())
