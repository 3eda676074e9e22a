"""A client of the Python SDK 1.x: does what a user would, and prints what it saw as JSON.

python sdk1.py URL
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp import ClientSession, types
from mcp.client.streamable_http import streamable_http_client

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
        root = getattr(message, "root", None)
        if isinstance(root, types.ToolListChangedNotification):
            self.changed.set()


def _text(result: Any) -> str:
    return "".join(block.text for block in result.content if block.type == "text")


async def call(client: ClientSession, seen: Seen) -> Any:
    return {"text": _text(await client.call_tool("test_simple_text", {}))}


async def structured(client: ClientSession, seen: Seen) -> Any:
    result = await client.call_tool("test_structured", {"a": 2, "b": 3})
    return {"structured": result.structuredContent, "text": json.loads(_text(result))}


async def error(client: ClientSession, seen: Seen) -> Any:
    result = await client.call_tool("test_error_handling", {})
    return {"error": result.isError, "text": _text(result)}


async def elicitation(client: ClientSession, seen: Seen) -> Any:
    result = await client.call_tool("test_elicitation", {"message": "Which colour?"})
    return {"asked": seen.questions, "text": _text(result)}


async def progress(client: ClientSession, seen: Seen) -> Any:
    steps: list[Any] = []

    async def step(done: float, total: float | None, message: str | None) -> None:
        steps.append([done, total, message])

    result = await client.call_tool("test_tool_with_progress", {}, progress_callback=step)
    return {"steps": steps, "text": _text(result)}


async def cancel(client: ClientSession, seen: Seen) -> Any:
    begun = asyncio.Event()

    async def step(done: float, total: float | None, message: str | None) -> None:
        begun.set()

    # This SDK does not tell the server by itself, and the number is what it will use next.
    number = client._request_id
    calling = asyncio.create_task(client.call_tool("test_slow", {}, progress_callback=step))
    await begun.wait()
    told = types.CancelledNotification(params=types.CancelledNotificationParams(requestId=number))
    await client.send_notification(types.ClientNotification(told))
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    # The server sees it a moment later, and can only be asked.
    while (count := _text(await client.call_tool("test_cancelled", {}))) == "0":  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    return {"cancelled": count}


async def list_change(client: ClientSession, seen: Seen) -> Any:
    before = [tool.name for tool in (await client.list_tools()).tools]
    seen.changed.clear()
    await client.call_tool("test_trigger_tool_change", {})
    await seen.changed.wait()
    after = [tool.name for tool in (await client.list_tools()).tools]
    return {"more": sorted(set(after) - set(before)), "fewer": sorted(set(before) - set(after))}


CELLS = (call, structured, error, elicitation, progress, cancel, list_change)


async def main(url: str) -> None:
    seen = Seen()
    found: dict[str, Any] = {}
    async with (
        streamable_http_client(url) as (incoming, outgoing, _),
        ClientSession(
            incoming, outgoing, elicitation_callback=seen.answer, message_handler=seen.told
        ) as client,
    ):
        found["version"] = (await client.initialize()).protocolVersion
        for cell in CELLS:
            try:
                found[cell.__name__] = await asyncio.wait_for(cell(client, seen), SECONDS)
            except Exception as error:
                found[cell.__name__] = {"failed": f"{type(error).__name__}: {error}"}
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
