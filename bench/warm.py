"""A function in a warm worker process, against a bare `await` of it and a process of its own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from worker import quickest, serve

from toolcrib.core.context import ToolContext
from toolcrib.core.entry import Execute
from toolcrib.core.spec import ToolSpec
from toolcrib.executors.process import ProcessExecutor
from toolcrib.host.workshop import Sandboxes, Workshop

COUNT = 400
ARGUMENTS = {"a": 1, "b": 2}
BARE = 1000
"""Turns of the bare `await` that are timed together: one alone is shorter than the clock ticks."""
FUNCTION = """
import os

def add(a: int, b: int) -> int:
    return a + b

def where() -> int:
    return os.getpid()
"""
FRESH = (sys.executable, "-I", "-S", "-c", "print(1 + 2)")


async def add(a: int, b: int) -> int:
    return a + b


async def bare() -> None:
    for _ in range(BARE):
        await add(**ARGUMENTS)


async def fresh() -> None:
    ended = await asyncio.to_thread(subprocess.run, FRESH, capture_output=True, check=True)
    if ended.stdout != b"3\n":
        raise SystemExit(f"it said {ended.stdout!r}")


def write(file: Path) -> None:
    file.write_text(FUNCTION)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder, "summing.py"))
        executor = ProcessExecutor(workers=1)
        schema = {"type": "object", "properties": {"a": {}, "b": {}}}

        def bound(function: str) -> tuple[Execute, ToolContext]:
            config = {"module": "summing", "function": function, "path": [folder]}
            spec = ToolSpec(name=function, kind="process", input_schema=schema, config=config)
            given = ARGUMENTS if function == "add" else {}
            ctx = ToolContext("s", tool=function, arguments=given, call_id="c", spec=spec)
            return executor.bind(spec, Workshop(Sandboxes(), folder)), ctx

        execute, ctx = bound("add")

        async def warm() -> None:
            if await execute(ctx) != 3:
                raise SystemExit("another sum came")

        where, asked = bound("where")
        if await where(asked) == os.getpid():
            raise SystemExit("the function did not run in another process")

        async def round_() -> dict[str, float]:
            times = await quickest({"warm": warm}, COUNT)
            times |= await quickest({"bare": bare, "fresh": fresh}, 4)
            return {**times, "bare": times["bare"] / BARE}

        await warm()
        await serve(round_)
        await executor.aclose()


if __name__ == "__main__":
    asyncio.run(main())
