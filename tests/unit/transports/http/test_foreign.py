"""The same application under a server that is not ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from http_gateway import CONFIG, Gateway, Wire, settings, tools
from toolcrib import ToolHost
from toolcrib.core.serving import Listen
from toolcrib.testing import EventRecorder
from toolcrib.transports.http.app import create_app
from toolcrib.transports.identity.identity import Identity
from toolcrib.transports.service import Service
from toolcrib.transports.serving import Serving


class _Server(uvicorn.Server):
    def capture_signals(self) -> Any:
        import contextlib

        return contextlib.nullcontext()


@asynccontextmanager
async def foreign(**http: Any) -> AsyncIterator[Gateway]:
    given = settings(**http)
    host = ToolHost(tools(), config=CONFIG)
    service = Service(host, given)
    await service.start()
    identity = Identity(host, given)
    import socket

    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        app = create_app(service, identity, [Listen(host="127.0.0.1", port=port)])
        config = uvicorn.Config(app, http="h11", log_config=None, access_log=False)
        server = _Server(config)
        running = asyncio.ensure_future(server.serve(sockets=[held]))
        async with asyncio.timeout(5):
            while not server.started:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        url = f"http://127.0.0.1:{port}"
        opened = Serving(service=service, doors=("http",), urls=(url,))
        try:
            yield Gateway(opened, host, EventRecorder(host), asyncio.Event(), running)
        finally:
            await service.stop()
            server.should_exit = True
            await running
            await identity.close()


async def until(condition: Any) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_calls_lists_and_refusals() -> None:
    async with foreign(max_body=1000) as served:
        assert (await served.call("add", {"a": 1, "b": 2})).json()["output"] == 3
        assert (await served.call("fail")).reason == "tool_error"
        assert (await served.ask("GET", "/v1/tools")).json()["total"] >= 5
        assert (await served.ask("HEAD", "/v1/tools")).body == b""
        assert (await served.call("echo", {"value": "x" * 2000})).status == 413
        evil = {"Host": "evil.example"}
        assert (await served.call("add", {"a": 1, "b": 2}, headers=evil)).status == 421
        assert (await served.call("add", {"a": 1, "b": 2}, who=None)).status == 401


async def test_waiting_and_leaving() -> None:
    async with foreign(wait=0.1) as served:
        reply = await served.call("slow", {"seconds": 0.4})
        assert reply.status == 202
        ended = await served.ask("GET", f"{reply.headers['location']}?wait=5")
        assert ended.json()["output"] == "done"


async def test_a_client_that_leaves_stops_its_call() -> None:
    async with foreign() as served:
        wire = Wire(*await asyncio.open_connection("127.0.0.1", served.port))
        body = {"arguments": {"seconds": 60}}
        await wire.send(served.request("POST", "/v1/tools/slow/call", body))
        await served.recorder.wait_for("call.started")
        await wire.close()
        await until(lambda: served.recorder.only("call.finished"))
        assert served.recorder.only("call.finished")[0].data["reason"] == "cancelled"


async def test_nobody_is_the_operator_by_a_proxys_word() -> None:
    async with foreign(guarded=False) as served:
        assert (await served.ask("GET", "/v1/info", who=None)).json()["principal"] == "local"
        given = {"X-Forwarded-For": "192.0.2.1"}
        assert (await served.ask("GET", "/v1/info", who=None, headers=given)).status == 401
