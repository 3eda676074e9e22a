"""Peers, each in its own environment: the SDK's server, FastMCP's proxy in front of one, and the
SDK's client.

`peer_mcp.py sdk` serves `add` and `rows` statelessly with JSON answers; `peer_mcp.py proxy URL`
passes calls on over one client that stays connected; `peer_mcp.py client URL TOOL TOKEN URL TOOL`
calls at both addresses in turn and prints how much longer the first takes.
"""

from __future__ import annotations

import socket
import statistics
import sys
import time
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

    @server.tool()
    async def rows(a: int, b: int) -> list[dict[str, Any]]:  # pyright: ignore[reportUnusedFunction]
        """A hundred records."""
        return [{"id": a + b + n, "name": f"record {n}", "tags": ["x", "y"]} for n in range(100)]

    await serve(server.streamable_http_app(stateless_http=True, json_response=True))


async def proxy(url: str) -> None:
    from fastmcp import Client
    from fastmcp.server import create_proxy

    async with Client(url) as client:
        made = create_proxy(client, name="proxy")
        await serve(made.http_app(path="/mcp", stateless_http=True, json_response=True))


async def client(url: str, tool: str, token: str, other_url: str, other_tool: str) -> None:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async def rate(one: Client, name: str) -> float:
        count, began = 0, time.perf_counter()
        while time.perf_counter() - began < 0.3:
            result = await one.call_tool(name, {"a": 1, "b": 2})
            if result.structured_content != {"result": 3}:
                raise SystemExit(f"the server said {result}")
            count += 1
        return count / (time.perf_counter() - began)

    web = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"})
    async with (
        web,
        Client(streamable_http_client(url, http_client=web)) as first,
        Client(other_url) as second,
    ):
        pairs = [(await rate(first, tool), await rate(second, other_tool)) for _ in range(12)]
    print(statistics.median(direct / hop for hop, direct in pairs[1:]), flush=True)


if __name__ == "__main__":
    work = {"sdk": sdk, "proxy": proxy, "client": client}[sys.argv[1]]
    uvloop.run(work(*sys.argv[2:]))
