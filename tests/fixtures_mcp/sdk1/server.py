"""An MCP server of the handshake era, written with the Python SDK 1.x.

    python server.py --port 0     streamable HTTP on loopback
    python server.py --sse        the older HTTP+SSE transport instead
    python server.py --stdio      stdin and stdout

It runs in an environment of its own and prints its address when it is ready.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import signal
import socket
import sys
from typing import Any

import anyio
import uvicorn
from mcp.server.fastmcp import Context, FastMCP
from mcp.server.lowlevel.server import NotificationOptions
from pydantic import BaseModel

server = FastMCP("fixture-sdk1")
cancelled: list[str] = []


class Sum(BaseModel):
    sum: int


class Response(BaseModel):
    response: str


@server.tool(structured_output=False)
async def test_simple_text() -> str:
    """Says one sentence."""
    return "This is a simple text response for testing."


@server.tool(title="Sum")
async def test_structured(a: int, b: int) -> Sum:
    """Adds two numbers and gives the sum as data."""
    return Sum(sum=a + b)


@server.tool(structured_output=False)
async def test_error_handling() -> str:
    """Always fails."""
    raise ValueError("This tool intentionally returns an error for testing")


@server.tool(structured_output=False)
async def test_elicitation(message: str, ctx: Context[Any, Any, Any]) -> str:
    """Asks the person at the client."""
    answer = await ctx.elicit(message, Response)
    filled = answer.data.model_dump() if answer.action == "accept" else {}
    return f"User response: action={answer.action}, content={json.dumps(filled)}"


@server.tool(structured_output=False)
async def test_tool_with_progress(ctx: Context[Any, Any, Any]) -> str:
    """Reports how far it is, three times."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100, f"{done} of 100")
        await anyio.sleep(0.05)
    return "Done, with progress."


@server.tool(structured_output=False)
async def test_slow(ctx: Context[Any, Any, Any]) -> str:
    """Takes a minute, unless it is cancelled."""
    await ctx.report_progress(0, 60)
    try:
        await anyio.sleep(60)
    except anyio.get_cancelled_exc_class():
        cancelled.append("test_slow")
        raise
    return "That took a minute."


@server.tool(structured_output=False)
async def test_cancelled() -> str:
    """Says how often the slow tool was cancelled."""
    return str(len(cancelled))


@server.tool(structured_output=False)
async def test_trigger_tool_change(ctx: Context[Any, Any, Any]) -> str:
    """Adds a tool."""

    async def test_dynamic_tool() -> str:
        """Came later."""
        return "I came later."

    server.add_tool(test_dynamic_tool)
    await ctx.session.send_tool_list_changed()
    return "The tools changed."


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """A sentence."""
    return "This is the content of the static text resource."


@server.prompt()
def test_simple_prompt() -> str:
    """One sentence."""
    return "This is a simple prompt for testing."


class Announced(uvicorn.Server):
    """Says where it is once it answers."""

    path = "/mcp"

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        assert sockets
        print(f"ready http://127.0.0.1:{sockets[0].getsockname()[1]}{self.path}", flush=True)


async def serve_http(port: int, app: Any, path: str) -> None:
    listening = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    web = Announced(config)
    web.path = path
    await web.serve(sockets=[listening])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--stdio", action="store_true")
    parser.add_argument("--sse", action="store_true")
    chosen = parser.parse_args()
    low = server._mcp_server
    # The SDK has no other way to say in the handshake that the list of tools changes.
    low.create_initialization_options = functools.partial(
        low.create_initialization_options, NotificationOptions(tools_changed=True)
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if chosen.stdio:
        asyncio.run(server.run_stdio_async())
    elif chosen.sse:
        asyncio.run(serve_http(chosen.port, server.sse_app(), "/sse"))
    else:
        asyncio.run(serve_http(chosen.port, server.streamable_http_app(), "/mcp"))


if __name__ == "__main__":
    main()
