"""A governed call in process, with everything on, against a bare `await` of the same function."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from pathlib import Path

from worker import cpu, serve

from toolcrib import Principal, ToolContext, ToolHost, ToolPolicy, tool
from toolcrib.core.decision import Decision

COUNT = 4000
ARGUMENTS = {"a": 1, "b": 2}
WHO = Principal("agent", roles=["worker"], permissions=["math"])
CONFIG = {
    "profiles": {
        "bench": {
            "rules": [{"allow": "add", "when": {"roles": ["worker"]}}],
            "limits": {"calls": "1000000000/s", "concurrent": 64},
        }
    }
}


class SumPolicy(ToolPolicy):
    """One policy that looks at the arguments."""

    most: int = 1_000_000

    def check(self, ctx: ToolContext) -> Decision | None:
        if ctx.arguments["a"] > self.most:
            return self.deny("too_large")
        return None


@tool(effects=["read"], policy=SumPolicy, permissions=["math"], timeout=30)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def bare(count: int) -> None:
    for _ in range(count):
        await add(**ARGUMENTS)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trail.db")
        async with ToolHost([add], config=CONFIG, store=f"sqlite:{path}") as host:
            calls = 0

            async def governed(count: int) -> None:
                nonlocal calls
                calls += count
                for _ in range(count):
                    await host.call("add", ARGUMENTS, principal=WHO, profile="bench")

            await bare(COUNT)
            await governed(COUNT)

            async def round_() -> dict[str, float]:
                before = await cpu(bare, COUNT)
                cost = await cpu(governed, COUNT)
                after = await cpu(bare, COUNT)
                return {"bare": (before + after) / 2, "governed": cost}

            await serve(round_)
        # Every call is on disk, or the numbers mean nothing. The host adds two facts of its own.
        with sqlite3.connect(path) as database:
            (records,) = database.execute("SELECT sum(count) FROM blocks").fetchone()
        if records != calls + 2:
            raise SystemExit(f"{calls} calls, {records} records on disk")


if __name__ == "__main__":
    asyncio.run(main())
