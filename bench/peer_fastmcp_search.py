"""The peer: FastMCP's `search_tools` over the same tools. Runs in its own environment."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time

import phrases
from fastmcp import FastMCP
from fastmcp.server.transforms.search import BM25SearchTransform
from fastmcp.tools import FunctionTool


async def run(a: int, b: int, note: str = "") -> int:
    """What every tool does."""
    return a + b


async def main() -> None:
    tools = list(phrases.few(int(sys.argv[1])))
    server = FastMCP("bench", transforms=[BM25SearchTransform(max_results=10)])
    pattern = FunctionTool.from_function(run, name="pattern", description="pattern")
    for tool in tools:
        # A copy: reading the function anew for each tool takes minutes.
        changes = {"name": tool.name, "description": tool.text}
        server.add_tool(pattern.model_copy(update=changes))
    took: list[float] = []
    for query in phrases.queries(tools, 15):
        began = time.process_time()
        await server.call_tool("search_tools", {"query": query})
        took.append((time.process_time() - began) * 1000)
    # The first one makes the index.
    print(json.dumps({"called": statistics.median(took[1:])}))


if __name__ == "__main__":
    asyncio.run(main())
