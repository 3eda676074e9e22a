"""Tools that show every way a call can go."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from toolcrib import ToolContext, ToolFailure, tool


@tool(effects=["read"])
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@tool(effects=["read"])
def nested(depth: int = 3) -> dict[str, Any]:
    """Objects in objects, with every kind of value."""
    value: dict[str, Any] = {"none": None, "yes": True, "pi": 3.25, "list": [2**53, "ä", []]}
    for level in range(depth):
        value = {"level": level, "inner": value}
    return value


@tool(effects=["read"])
def echo(text: str) -> str:
    """Give back what came."""
    print("a print must not reach a protocol")
    return text


@tool(effects=["read"])
def broken() -> int:
    """Fail in a way nobody expected; its words are nobody's business."""
    raise RuntimeError("secret words of a traceback")


@tool(effects=["read"])
def failing(code: int = 7) -> int:
    """Fail in words for the model."""
    raise ToolFailure("the warehouse is closed", reason="warehouse_closed", details={"code": code})


@tool(effects=["read"])
async def slow(seconds: float = 30.0) -> str:
    """Sleep."""
    await asyncio.sleep(seconds)
    return "slept"


@tool(effects=["read"], timeout=0.2)
async def late() -> str:
    """Never come to an end in time."""
    await asyncio.sleep(30)
    return "never"


@tool(effects=["read"])
async def steps(ctx: ToolContext, count: int = 3) -> int:
    """Tell how far it is."""
    for step in range(count):
        ctx.progress((step + 1) / count, f"step {step + 1}")
        await asyncio.sleep(0.01)
    return count


@tool(effects=["read"])
def large(size: int = 5000) -> str:
    """More text than the host hands over."""
    return "0123456789" * (size // 10)


@tool(effects=["write"])
def deploy(env: str, version: int = 1) -> str:
    """Put a version in place. A person is asked first."""
    return f"version {version} on {env}"


@tool(effects=["destructive"])
def wipe(disk: str) -> str:
    """Never allowed."""
    return f"wiped {disk}"


@tool(effects=["read"])
async def sum_all(ctx: ToolContext, numbers: list[int]) -> int:
    """Add numbers by calling `add`."""
    total = 0
    for number in numbers:
        total = (await ctx.call("add", {"a": total, "b": number})).unwrap()
    return total


@tool(effects=["read"])
async def reach(ctx: ToolContext) -> str | None:
    """Try to call what its caller may not."""
    return (await ctx.call("wipe", {"disk": "sda"})).reason


@tool(effects=["read"], name="greet", version="1")
def greet(name: str) -> str:
    """Say hello."""
    return f"hello {name}"


@tool(effects=["read"], name="greet", version="2")
def greet_again(name: str) -> str:
    """Say good day."""
    return f"good day {name}"


@tool(name="counter", effects=["read"], scope="session")
class Counter:
    """Count the calls of this session."""

    def __init__(self, ctx: ToolContext) -> None:
        self.count = 0

    async def __call__(self) -> int:
        """One more."""
        self.count += 1
        return self.count


@tool(effects=["read"])
def where(ctx: ToolContext) -> str:
    """The name of the folder that the call works in."""
    return Path(ctx.cwd).name
