"""Servers of peers, each in its own environment: the SDK's, and FastMCP's proxy in front of one.

`peer_mcp.py sdk` serves `add` statelessly with JSON answers; `peer_mcp.py proxy URL` passes calls
on over one client that stays connected.
"""

from __future__ import annotations

import socket
import sys
from typing import Any

import uvicorn
import uvloop


def config(app: Any) -> uvicorn.Config:
    return uvicorn.Config(app, http="httptools", access_log=False, log_level="error")


async def serve(app: Any) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    await uvicorn.Server(config(app)).serve(sockets=[listener])


async def sdk() -> None:
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("bench", log_level="ERROR")

    @server.tool()
    async def add(a: int, b: int) -> int:  # pyright: ignore[reportUnusedFunction]
        """Add two numbers."""
        return a + b

    await serve(server.streamable_http_app(stateless_http=True, json_response=True))


async def proxy(url: str) -> None:
    from fastmcp import Client
    from fastmcp.server import create_proxy

    async with Client(url) as client:
        made = create_proxy(client, name="proxy")
        await serve(made.http_app(path="/mcp", stateless_http=True, json_response=True))


if __name__ == "__main__":
    uvloop.run(proxy(sys.argv[2]) if sys.argv[1] == "proxy" else sdk())
