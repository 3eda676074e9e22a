"""An MCP server over HTTP on 127.0.0.1, of either era, that misbehaves when it is asked to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

VERSION = "io.modelcontextprotocol/protocolVersion"
NAMES = ["echo", "stream", "drop", "resume", "hang", "huge", "huge_event", "garbage", "html"]
NAMES += ["wrong_id", "status", "ask", "slow", "cut", "change", "drip", "drip_event", "task"]
MARKED = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
}


class HttpServer:
    """What it is asked is kept in `seen`; what it is told, in `told`."""

    def __init__(
        self, era: str = "both", *, sessions: bool = True, listen: int = 200, old: bool = False
    ) -> None:
        self.era = era
        self.with_sessions = sessions
        self.listen = listen
        """What a GET for the stream of no request is answered with."""
        self.old = old
        """Whether only the transport of the first revision is spoken."""
        self.endpoint = "/messages?session=1"
        self.port = 0
        self.sessions: set[str] = set()
        self.forgotten = 404
        """What a session that is not there is answered with."""
        self.seen: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.gets: list[str | None] = []
        self.connections: set[Any] = set()
        """Where clients connected from."""
        self.deleted: list[str] = []
        self.told: list[str] = []
        self.gone: list[str] = []
        self.kept: dict[str, dict[str, Any]] = {}
        self.answers: dict[str, asyncio.Future[Any]] = {}
        self.tools: list[Any] = [{"name": n, "inputSchema": {"type": "object"}} for n in NAMES]
        self.tools.append({"name": "region", "inputSchema": MARKED})
        self.standing: web.StreamResponse | None = None
        self.listening: tuple[web.StreamResponse, Any] | None = None
        self.needs_token: str | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def stop(self) -> None:
        """End it while its clients are still there."""

    def last(self, method: str) -> tuple[dict[str, Any], dict[str, str]]:
        """Params and headers of the last such request."""
        return next((p, h) for m, p, h in reversed(self.seen) if m == method)

    def calls(self, name: str) -> int:
        """How often a tool was called."""
        return sum(1 for m, p, _ in self.seen if m == "tools/call" and p["name"] == name)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        self.connections.add(request.transport.get_extra_info("peername"))
        given = request.headers.get("Authorization")
        if self.needs_token is not None and given != f"Bearer {self.needs_token}":
            return web.Response(status=401)
        if self.old:
            return await self.first_revision(request)
        if request.method == "GET":
            return await self.get(request)
        if request.method == "DELETE":
            self.deleted.append(request.headers["mcp-session-id"])
            return web.Response()
        message = await request.json()
        if "method" not in message:
            self.answers.pop(message["id"]).set_result(message)
            return web.Response(status=202)
        params = message.get("params") or {}
        modern = VERSION in (params.get("_meta") or {})
        refused = (modern and self.era == "handshake") or (not modern and self.era == "modern")
        if refused and message["method"] in ("server/discover", "initialize"):
            return web.Response(status=400, text="no")
        if "id" not in message:
            self.told.append(message["method"])
            return web.Response(status=202)
        session = request.headers.get("mcp-session-id")
        asked = message["method"]
        self.seen.append((asked, params, {k.lower(): v for k, v in request.headers.items()}))
        bound = not modern and asked != "initialize" and self.with_sessions
        if bound and session not in self.sessions:
            return web.Response(status=self.forgotten)
        if asked == "initialize" and self.with_sessions:
            session = f"session-{len(self.seen)}"
            self.sessions.add(session)
        headers = {"mcp-session-id": session} if session else None
        if asked == "tools/call":
            return await self.call(request, message["id"], params, modern)
        if asked == "subscriptions/listen":
            return await self.listened(request, message["id"], params)
        return web.json_response(self.result(message["id"], asked), headers=headers)

    async def first_revision(self, request: web.Request) -> web.StreamResponse:
        """One stream for all answers, and POSTs elsewhere."""
        if request.method == "GET":
            self.standing = await opened(request)
            await self.standing.write(f"event: endpoint\ndata: {self.endpoint}\n\n".encode())
            await asyncio.sleep(3600)
        if request.path == "/mcp":
            return web.Response(status=405)
        assert self.standing is not None
        message = await request.json()
        method, params = message.get("method"), message.get("params") or {}
        if "id" not in message:
            self.told.append(method)
        elif method == "tools/call" and params["name"] == "cut":
            assert self.standing._req.transport is not None  # type: ignore[union-attr]
            self.standing._req.transport.close()  # type: ignore[union-attr]
        elif method == "tools/call":
            good = {"id": message["id"], "result": content("good")}
            await event(self.standing, good)
        else:
            made = self.result(message["id"], method)
            if method == "initialize":
                made["result"]["protocolVersion"] = "2024-11-05"
            await event(self.standing, made)
        return web.Response(status=202, text="Accepted")

    def result(self, id: Any, method: str) -> dict[str, Any]:
        capabilities = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}
        if method == "server/discover":
            found: dict[str, Any] = {"supportedVersions": ["2026-07-28"]}
            found["capabilities"] = capabilities
        elif method == "initialize":
            found = {"protocolVersion": "2025-06-18", "capabilities": capabilities}
        elif method == "tools/list":
            found = {"tools": self.tools}
        else:
            found = {}
        return {"jsonrpc": "2.0", "id": id, "result": found}

    async def get(self, request: web.Request) -> web.StreamResponse:
        last = request.headers.get("Last-Event-ID")
        self.gets.append(last)
        if self.listen != 200 and last is None:
            return web.Response(status=self.listen)
        stream = await opened(request)
        if last is not None:
            await event(stream, self.kept[last], id="after")
            return stream
        self.standing = stream
        await asyncio.sleep(3600)
        return stream

    async def listened(self, request: web.Request, id: Any, params: Any) -> web.StreamResponse:
        stream = await opened(request)
        meta = {"io.modelcontextprotocol/subscriptionId": id}
        told = {"_meta": meta, "notifications": params["notifications"]}
        await event(stream, {"method": "notifications/subscriptions/acknowledged", "params": told})
        self.listening = stream, meta
        try:
            await asyncio.sleep(3600)
        finally:
            self.gone.append("listen")
        return stream

    async def call(
        self, request: web.Request, id: Any, params: dict[str, Any], modern: bool
    ) -> web.StreamResponse:
        name = params["name"]
        good = {"jsonrpc": "2.0", "id": id, "result": content("good")}
        if name == "status":
            return web.Response(status=params["arguments"]["status"], text="no")
        if name == "garbage":
            return web.Response(text="{nonsense", content_type="application/json")
        if name == "html":
            return web.Response(text="<html>", content_type="text/html")
        if name == "wrong_id":
            return web.json_response({**good, "id": 999_999})
        if name == "cut":
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        if name == "huge":
            return await huge(request, b'{"jsonrpc":"2.0","id":1,"result":{"x":"')
        if name == "huge_event":
            return await huge(request, b"data: ", "text/event-stream")
        if name == "task":
            made = {"resultType": "task", "taskId": "t1", "status": "working"}
            return web.json_response({**good, "result": made})
        if name in ("drip", "drip_event"):
            kind = "application/json" if name == "drip" else "text/event-stream"
            return await dripping(request, kind)
        if name in ("hang", "slow"):
            try:
                await asyncio.sleep(3600)
            finally:
                self.gone.append(name)
        if name in ("stream", "drop", "resume", "ask", "change"):
            return await self.stream(request, name, id, params, modern)
        return web.json_response(good)

    async def stream(
        self, request: web.Request, name: str, id: Any, params: dict[str, Any], modern: bool
    ) -> web.StreamResponse:
        good = {"jsonrpc": "2.0", "id": id, "result": content("good")}
        stream = await opened(request)
        if name == "resume":
            self.kept["e1"] = {k: v for k, v in good.items() if k != "jsonrpc"}
            await stream.write(b"id: e1\nretry: 10\ndata:\n\n")
            return stream
        if name == "drop":
            await stream.write(b": nothing yet\n\n")
            assert request.transport is not None
            request.transport.abort()
            return stream
        if name == "ask" and modern:
            given = params.get("inputResponses")
            requests = {"who": {"method": "elicitation/create", "params": {"message": "who?"}}}
            made = {"resultType": "input_required", "inputRequests": requests}
            good["result"] = made if given is None else content(json.dumps(given))
        elif name == "ask":
            self.answers["q"] = asyncio.get_running_loop().create_future()
            question = {"method": "elicitation/create", "params": {"message": "who?"}}
            await event(stream, {"id": "q", **question})
            good["result"] = content(json.dumps((await self.answers["q"]).get("result")))
        elif name == "change":
            await event(stream, {"method": "notifications/tools/list_changed"})
        token = (params.get("_meta") or {}).get("progressToken")
        told = {"progressToken": token, "progress": 1, "total": 2}
        await event(stream, {"method": "notifications/progress", "params": told})
        await event(stream, {k: v for k, v in good.items() if k != "jsonrpc"})
        return stream


def content(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


async def opened(request: web.Request) -> web.StreamResponse:
    stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await stream.prepare(request)
    return stream


async def event(stream: web.StreamResponse, message: dict[str, Any], id: str | None = None) -> None:
    named = f"id: {id}\n" if id else ""
    text = json.dumps({"jsonrpc": "2.0", **message})
    await stream.write(f"{named}event: message\ndata: {text}\n\n".encode())


async def huge(
    request: web.Request, head: bytes, kind: str = "application/json"
) -> web.StreamResponse:
    stream = web.StreamResponse(headers={"Content-Type": kind})
    await stream.prepare(request)
    await stream.write(head)
    for _ in range(200):
        await stream.write(b"x" * 1_000_000)
    return stream


async def dripping(request: web.Request, kind: str) -> web.StreamResponse:
    """A byte now and then, and never an end."""
    stream = web.StreamResponse(headers={"Content-Type": kind})
    await stream.prepare(request)
    while True:
        await stream.write(b" ")
        await asyncio.sleep(0.01)


@asynccontextmanager
async def mcp_server(era: str = "both", **options: Any) -> AsyncIterator[HttpServer]:
    """A running server."""
    made = HttpServer(era, **options)
    app = web.Application()
    app.router.add_route("*", "/mcp", made.handle)
    app.router.add_route("*", "/messages", made.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    made.stop = runner.cleanup  # type: ignore[method-assign]
    try:
        yield made
    finally:
        await runner.cleanup()
