"""A bare MCP server of 2026-07-28 with many tools: parses, answers, checks nothing."""

from __future__ import annotations

import socket
import sys
from typing import Any

import msgspec
import uvicorn

PAGE = 1000
HINTS = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}


def tool(number: int) -> dict[str, Any]:
    text = {"type": "string", "description": f"What number {number} works on"}
    schema = {"type": "object", "properties": {"path": text, "deep": {"type": "boolean"}}}
    words = f"Does what tool {number} of this server does, carefully and more than once"
    return {"name": f"tool_{number:05}", "description": words, "inputSchema": schema}


TOOLS = [tool(number) for number in range(int(sys.argv[1]))]


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    method, params = asked["method"], asked.get("params") or {}
    if method == "server/discover":
        return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **HINTS,
                "serverInfo": {"name": "bench", "version": "1"}}  # fmt: skip
    if method == "tools/list":
        start = int(params.get("cursor") or 0)
        more = {"nextCursor": str(start + PAGE)} if start + PAGE < len(TOOLS) else {}
        return {"tools": TOOLS[start : start + PAGE], **more, **HINTS}
    return {"content": [], "resultType": "complete"}


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    body = b""
    more = True
    while more:
        message = await receive()
        body += message["body"]
        more = message.get("more_body", False)
    asked = msgspec.json.decode(body)
    made = {"jsonrpc": "2.0", "id": asked.get("id"), "result": answer(asked)}
    text = msgspec.json.encode(made)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(text)).encode()),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text})


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    made = uvicorn.Config(app, loop="uvloop", http="httptools", lifespan="off", log_level="error")
    uvicorn.Server(made).run(sockets=[listener])


if __name__ == "__main__":
    main()
