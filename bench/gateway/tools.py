"""What is called over every door."""

from __future__ import annotations

from toolcrib import ToolContext, ToolPolicy, tool
from toolcrib.core.decision import Decision


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
