"""The tools that answer on their own: content, errors, progress, logging, and the odd shapes."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio
from blocks import NOTHING, audio, image, resource, text
from call import Call
from mcp.shared.exceptions import MCPError
from mcp.types import MISSING_REQUIRED_CLIENT_CAPABILITY
from schemas import KEYWORDS, REGION

Run = Callable[[Call], Awaitable[dict[str, Any]]]


@dataclass(frozen=True)
class Tool:
    definition: dict[str, Any]
    run: Run


TOOLS: dict[str, Tool] = {}
CANCELLED: list[str] = []


def tool(name: str, schema: dict[str, Any] = NOTHING, **more: Any) -> Callable[[Run], Run]:
    """Offer a function under a name; its docstring is what a model reads."""

    def offer(run: Run) -> Run:
        described = {"name": name, "description": run.__doc__, "inputSchema": schema, **more}
        TOOLS[name] = Tool(described, run)
        return run

    return offer


def content(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"content": list(blocks)}


@tool("test_simple_text")
async def simple(call: Call) -> dict[str, Any]:
    """Says one sentence."""
    return content(text("This is a simple text response for testing."))


@tool("test_image_content")
async def picture(call: Call) -> dict[str, Any]:
    """Shows a picture."""
    return content(image())


@tool("test_audio_content")
async def sound(call: Call) -> dict[str, Any]:
    """Plays a sound."""
    return content(audio())


@tool("test_embedded_resource")
async def embedded(call: Call) -> dict[str, Any]:
    """Hands over a resource."""
    words = "This is an embedded resource content."
    return content(resource("test://embedded-resource", "text/plain", words))


@tool("test_multiple_content_types")
async def mixed(call: Call) -> dict[str, Any]:
    """Hands over text, a picture and a resource."""
    values = json.dumps({"test": "data", "value": 123})
    part = resource("test://mixed-content-resource", "application/json", values)
    return content(text("Multiple content types test:"), image(), part)


@tool("test_error_handling")
async def failing(call: Call) -> dict[str, Any]:
    """Always fails."""
    words = "This tool intentionally returns an error for testing"
    return {**content(text(words)), "isError": True}


@tool("test_tool_with_progress")
async def progressing(call: Call) -> dict[str, Any]:
    """Reports how far it is, three times."""
    for done in (0, 50, 100):
        await call.progress(done, 100, f"{done} of 100")
        await anyio.sleep(0.05)
    return content(text("Done, with progress."))


@tool("test_tool_with_logging")
async def logging(call: Call) -> dict[str, Any]:
    """Writes three log messages."""
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await call.log(words)
        await anyio.sleep(0.05)
    return content(text("Done, with a log."))


@tool("test_logging_tool")
async def quiet_logging(call: Call) -> dict[str, Any]:
    """Writes a log message, for whoever wants to read it."""
    await call.log("A message nobody has to read.")
    return content(text("Logged."))


@tool("test_missing_capability")
async def needs_sampling(call: Call) -> dict[str, Any]:
    """Works only for clients that can sample."""
    if not call.can("sampling"):
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            "This tool needs a client that can sample.",
            {"requiredCapabilities": {"sampling": {}}},
        )
    return content(text("The client can sample."))


SUM: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
SUM_OUTPUT: dict[str, Any] = {
    "type": "object",
    "properties": {"sum": {"type": "integer"}},
    "required": ["sum"],
}


@tool("test_structured", SUM, outputSchema=SUM_OUTPUT, title="Sum")
async def add(call: Call) -> dict[str, Any]:
    """Adds two numbers and gives the sum as data."""
    values = {"sum": call.arguments["a"] + call.arguments["b"]}
    return {**content(text(json.dumps(values))), "structuredContent": values}


@tool("test_slow")
async def slow(call: Call) -> dict[str, Any]:
    """Takes a minute, unless it is cancelled."""
    await call.progress(0, 60)
    try:
        await anyio.sleep(60)
    except anyio.get_cancelled_exc_class():
        CANCELLED.append("test_slow")
        raise
    return content(text("That took a minute."))


@tool("test_cancelled")
async def cancelled(call: Call) -> dict[str, Any]:
    """Says how often the slow tool was cancelled."""
    return content(text(str(len(CANCELLED))))


@tool("test_x_mcp_header", REGION)
async def header(call: Call) -> dict[str, Any]:
    """Has an argument that also travels as a header."""
    return content(text(f"region={call.arguments.get('region', 'none')}"))


@tool("json_schema_2020_12_tool", KEYWORDS)
async def keywords(call: Call) -> dict[str, Any]:
    """Has an input schema with the keywords that proxies like to lose."""
    return content(text("Kept."))


@tool("test_reconnection")
async def reconnection(call: Call) -> dict[str, Any]:
    """Closes its stream in the middle, where the transport has one."""
    if call.ctx.close_sse_stream is not None:
        await call.ctx.close_sse_stream()
    await anyio.sleep(0.2)
    return content(text("Still here."))
