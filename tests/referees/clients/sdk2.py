"""A client of the Python SDK 2.x: does what a user would, and prints what it saw as JSON.

python sdk2.py URL [auto|legacy]
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import mcp_types as types
from mcp import Client

SECONDS = 15


class Seen:
    """What came without being asked for."""

    def __init__(self) -> None:
        self.questions: list[str] = []
        self.changed = asyncio.Event()

    async def answer(self, context: Any, params: Any) -> types.ElicitResult:
        self.questions.append(params.message)
        return types.ElicitResult(action="accept", content={"response": "blue"})

    async def told(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.changed.set()


def _text(result: Any) -> str:
    return "".join(block.text for block in result.content if block.type == "text")


async def call(client: Client, seen: Seen) -> Any:
    return {"text": _text(await client.call_tool("test_simple_text", {}))}


async def structured(client: Client, seen: Seen) -> Any:
    result = await client.call_tool("test_structured", {"a": 2, "b": 3})
    return {"structured": result.structured_content, "text": json.loads(_text(result))}


async def error(client: Client, seen: Seen) -> Any:
    result = await client.call_tool("test_error_handling", {})
    return {"error": result.is_error, "text": _text(result)}


async def elicitation(client: Client, seen: Seen) -> Any:
    result = await client.call_tool("test_elicitation", {"message": "Which colour?"})
    return {"asked": seen.questions, "text": _text(result)}


async def progress(client: Client, seen: Seen) -> Any:
    steps: list[Any] = []

    async def step(done: float, total: float | None, message: str | None) -> None:
        steps.append([done, total, message])

    result = await client.call_tool("test_tool_with_progress", {}, progress_callback=step)
    return {"steps": steps, "text": _text(result)}


async def cancel(client: Client, seen: Seen) -> Any:
    begun = asyncio.Event()

    async def step(done: float, total: float | None, message: str | None) -> None:
        begun.set()

    calling = asyncio.create_task(client.call_tool("test_slow", {}, progress_callback=step))
    await begun.wait()
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    # The server sees it a moment later, and can only be asked.
    while (count := _text(await client.call_tool("test_cancelled", {}))) == "0":  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    return {"cancelled": count}


async def list_change(client: Client, seen: Seen) -> Any:
    before = [tool.name for tool in (await client.list_tools()).tools]
    if client.protocol_version == "2026-07-28":
        async with client.listen(tools_list_changed=True) as changes:
            await client.call_tool("test_trigger_tool_change", {})
            async for _ in changes:
                break
    else:
        await client.call_tool("test_trigger_tool_change", {})
        await seen.changed.wait()
    after = [tool.name for tool in (await client.list_tools()).tools]
    return {"more": sorted(set(after) - set(before)), "fewer": sorted(set(before) - set(after))}


CELLS = (call, structured, error, elicitation, progress, cancel, list_change)


async def main(url: str, mode: str) -> None:
    seen = Seen()
    found: dict[str, Any] = {}
    async with Client(
        url, mode=mode, elicitation_callback=seen.answer, message_handler=seen.told
    ) as client:
        found["version"] = client.protocol_version
        for cell in CELLS:
            try:
                found[cell.__name__] = await asyncio.wait_for(cell(client, seen), SECONDS)
            except Exception as error:
                found[cell.__name__] = {"failed": f"{type(error).__name__}: {error}"}
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "auto"))
