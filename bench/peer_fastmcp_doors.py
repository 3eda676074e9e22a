"""The peer's doors: FastMCP over stateless HTTP with JSON answers, or over stdio. Runs in its own
environment."""

from __future__ import annotations

import socket
import sys

from fastmcp import FastMCP

server = FastMCP("bench")


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def main() -> None:
    if sys.argv[1:] == ["stdio"]:
        server.run(transport="stdio", show_banner=False)
        return
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    app = server.http_app(path="/mcp", stateless_http=True, json_response=True)
    config = uvicorn.Config(
        app, loop="uvloop", http="httptools", access_log=False, log_level="error"
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
