"""The floors of the network doors: a raw ASGI app on uvicorn that parses and answers, and a bare
WebSocket echo. Nothing is checked, kept or decided."""

from __future__ import annotations

import socket
from typing import Any

import msgspec
import uvicorn

HEAD = {"type": "http.response.start", "status": 200}


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        body = (await receive())["body"]
        asked = msgspec.json.decode(body)["arguments"]
        answer = msgspec.json.encode({"output": asked["a"] + asked["b"]})
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(answer)).encode()),
        ]
        await send({**HEAD, "headers": headers})
        await send({"type": "http.response.body", "body": answer})
    elif scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        ws="websockets-sansio",
        lifespan="off",
        access_log=False,
        log_level="error",
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
