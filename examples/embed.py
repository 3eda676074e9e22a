"""An agent's loop with governed tools: list them for a model, make the calls it asks for.

The model here is a script; put a real one in its place.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from toolcrib import ToolHost, ToolResult, tool

STOCK = {"bolt": 40, "nut": 0}


@tool(effects=["read"])
async def stock(part: str) -> int:
    """How many of a part are in stock."""
    return STOCK[part]


@tool(effects=["write"])
async def reserve(part: str, count: int) -> str:
    """Reserve parts."""
    STOCK[part] -= count
    return f"reserved {count} of {part}"


PROFILES = {
    "profiles": {
        "clerk": {
            "rules": [
                {"allow": {"effects": ["read"]}},
                {
                    "allow": "reserve",
                    "when": {"arguments": {"count": {"max": 10}}},
                    "reason": "reserve_at_most_ten",
                },
            ]
        }
    }
}


def model(tools: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """What a model would ask for: names from the list, arguments as JSON text."""
    names = [entry["function"]["name"] for entry in tools]
    print(f"the model sees: {', '.join(names)}")
    return [
        ("stock", '{"part": "bolt"}'),
        ("reserve", '{"part": "bolt", "count": 5}'),
        ("reserve", '{"part": "bolt", "count": 500}'),
        ("stock", '{"part": 7}'),
    ]


def message(result: ToolResult) -> str:
    """What the model is told: the output, or the reason and the words that go with it."""
    if result.error is None:
        return json.dumps(result.output)
    return f"{result.status} ({result.error.reason}): {result.error.message}"


async def main() -> None:
    """One turn of the loop."""
    async with ToolHost([stock, reserve], config=PROFILES) as host:
        for name, arguments in model(host.tools(format="openai")):
            result = await host.call(name, json.loads(arguments), principal="agent-1")
            print(f"{name} {arguments} -> {message(result)}")


if __name__ == "__main__":
    asyncio.run(main())
