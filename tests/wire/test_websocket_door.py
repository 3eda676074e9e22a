"""The WebSocket door: a real server, real sockets, text frames with JSON-RPC."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from executing import until
from rpc_peer import Peer, caller_of, serving
from toolcrib import ToolHost, tool
from toolcrib.core.serving import HttpSettings, ServeSettings, SessionSettings
from toolcrib.testing import EventRecorder
from toolcrib.transports import websocket
from toolcrib.transports.caller import Caller
from toolcrib.transports.http.sockets import DirectSocket
from toolcrib.transports.service import Service
from toolcrib.transports.websocket import close_websockets, serve_websocket


@tool(effects=["read"])
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(effects=["read"])
async def echo(text: str) -> str:
    """Give it back."""
    return text


@tool(effects=["read"])
async def slow(seconds: float = 60) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "waited"


SERVERS: dict[str, Any] = {"asgi": "websockets-sansio", "direct": DirectSocket}


@pytest.fixture(autouse=True, params=list(SERVERS))
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Another's server, or the part of our own that takes the short way."""
    monkeypatch.setattr(Served, "protocol", SERVERS[request.param])
    return request.param


class Served:
    """A service behind a server, and its callers by name."""

    protocol: Any = None

    def __init__(self, service: Service, port: int) -> None:
        self.service = service
        self.port = port
        self.callers: dict[str, Caller] = {}

    def caller(self, name: str) -> Caller:
        return self.callers.setdefault(name, caller_of(name, door="http", local=False))

    @contextlib.asynccontextmanager
    async def open(self, name: str = "ann", **given: Any) -> AsyncIterator[Client]:
        url = f"ws://127.0.0.1:{self.port}/{name}"
        async with connect(url, proxy=None, max_size=None, **given) as socket:
            client = Client(socket)
            reading = asyncio.ensure_future(client.read())
            try:
                yield client
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)


class Client(Peer):
    """A client whose connection may be closed by the host."""

    def __init__(self, socket: ClientConnection) -> None:
        super().__init__(socket.send)
        self.socket = socket

    async def read(self) -> None:
        async for text in self.socket:
            self.take(text)

    async def closed(self) -> tuple[int | None, str | None]:
        """Code and reason, when the host has closed it."""
        async with asyncio.timeout(20):
            await self.socket.wait_closed()
        return self.socket.close_code, self.socket.close_reason


@contextlib.asynccontextmanager
async def served(*tools: Any, settings: ServeSettings | None = None) -> AsyncIterator[Served]:
    async with serving(ToolHost([add, echo, slow, *tools]), settings) as service:
        listening = socket.create_server(("127.0.0.1", 0))
        found = Served(service, listening.getsockname()[1])

        async def app(scope: Any, receive: Any, send: Any) -> None:
            assert scope["type"] == "websocket"
            await serve_websocket(
                service, found.caller(scope["path"].strip("/")), scope, receive, send
            )

        config = uvicorn.Config(
            app,
            ws=Served.protocol,
            lifespan="off",
            log_level="critical",
            ws_per_message_deflate=False,
        )
        server = uvicorn.Server(config)
        running = asyncio.ensure_future(server.serve(sockets=[listening]))
        await until(lambda: server.started)
        try:
            yield found
        finally:
            server.should_exit = True
            await running


async def test_calls_at_the_same_time() -> None:
    async with served() as door, door.open() as peer:
        waiting = await peer.begin("tools.call", {"name": "slow"})
        results = await asyncio.gather(*(peer.call("add", {"a": n, "b": n}) for n in range(200)))
        assert [result["output"] for result in results] == [2 * n for n in range(200)]
        assert waiting not in peer.answers
        await peer.notify("calls.cancel", {"request": waiting})
        assert (await peer.answer(waiting))["result"]["error"]["reason"] == "cancelled"
        info = await peer.request("host.info")
        assert (info["door"], info["principal"]) == ("websocket", "ann")
        assert info["session"] in door.service.host.callers.sessions


async def test_the_result_is_that_of_every_door() -> None:
    async with served() as door, door.open() as peer:
        outside = await peer.call("add", {"a": 1})
        inside = (await door.service.host.call("add", {"a": 1})).to_dict()
        for result in (outside, inside):
            result.pop("call_id")
        assert outside == inside


async def test_the_subprotocol_is_taken_when_it_is_offered() -> None:
    async with served() as door:
        async with door.open(subprotocols=["other", "toolcrib.v1"]) as peer:
            assert peer.socket.subprotocol == "toolcrib.v1"
        async with door.open() as peer:
            assert peer.socket.subprotocol is None
            assert (await peer.request("host.health"))["status"] == "ok"


async def test_nonsense_is_answered_and_survived() -> None:
    async with served() as door, door.open() as peer:
        for text in ("{", "nonsense", "", '{"a":1,"a":2}'):
            await peer.send(text)
        assert (await peer.call("add", {"a": 1, "b": 2}))["output"] == 3
        wrong = [answer for answer in peer.came if answer.get("id") is None]
        assert [answer["error"]["code"] for answer in wrong] == [-32700] * 4


async def test_binary_frames_are_refused() -> None:
    async with served() as door, door.open() as peer:
        await peer.socket.send(b'{"jsonrpc":"2.0","id":1,"method":"host.info"}')
        code, reason = await peer.closed()
        assert code == 1003
        assert "text" in (reason or "")
        assert peer.came == []


async def test_messages_that_are_too_big_are_refused() -> None:
    settings = ServeSettings(http=HttpSettings(max_body=10_000))
    async with served(settings=settings) as door:
        async with door.open() as peer:
            assert (await peer.call("echo", {"text": "x" * 9000}))["status"] == "ok"
            await peer.begin("tools.call", {"name": "echo", "arguments": {"text": "x" * 10_000}})
            assert (await peer.closed())[0] == 1009
        async with door.open() as peer:
            assert (await peer.request("host.health"))["status"] == "ok"


async def test_a_large_payload_in_both_directions() -> None:
    async with served() as door, door.open() as peer:
        text = "ü" * 300_000
        assert (await peer.call("echo", {"text": text}))["output"] == text


async def test_a_client_that_goes_cancels_its_calls_and_ends_its_session() -> None:
    async with served() as door:
        recorder = EventRecorder(door.service.host)
        async with door.open() as peer:
            await peer.begin("tools.call", {"name": "slow"})
            await recorder.wait_for("call.started")
        finished = await recorder.wait_for("call.finished")
        assert finished.data["reason"] == "cancelled"
        await recorder.wait_for("session.closed")
        assert door.service.host.callers.sessions == {}


async def test_a_client_that_vanishes_does_the_same() -> None:
    async with served() as door:
        recorder = EventRecorder(door.service.host)
        async with door.open() as peer:
            await peer.begin("tools.call", {"name": "slow"})
            await recorder.wait_for("call.started")
            peer.socket.transport.abort()
            finished = await recorder.wait_for("call.finished")
            assert finished.data["reason"] == "cancelled"


async def test_a_host_that_stops_lets_calls_end_and_says_so() -> None:
    async with served() as door, door.open() as peer, door.open() as idle:
        recorder = EventRecorder(door.service.host)
        call = await peer.begin("tools.call", {"name": "slow", "arguments": {"seconds": 0.2}})
        await recorder.wait_for("call.started")
        await close_websockets(door.service, 10)
        assert (await peer.answer(call))["result"]["output"] == "waited"
        for one in (peer, idle):
            assert await one.closed() == (1012, "host_stopping")


async def test_a_host_that_stops_takes_nobody_in() -> None:
    async with served() as door:
        door.service.stopping = True
        async with door.open() as peer:
            assert await peer.closed() == (1012, "host_stopping")
        assert door.service.host.callers.sessions == {}


async def test_too_many_connections_of_one_principal() -> None:
    settings = ServeSettings(sessions=SessionSettings(per_principal=1, connections=2))
    async with (
        served(settings=settings) as door,
        door.open() as first,
        door.open() as second,
        door.open("bob") as other,
    ):
        for one in (first, second, other):
            await one.request("host.health")
        async with door.open() as third:
            code, reason = await third.closed()
            assert code == 1013
            assert (reason or "").startswith("too_many_sessions")


async def test_revoked_credentials_end_the_connection() -> None:
    async with served() as door, door.open() as peer, door.open("bob") as other:
        await peer.request("host.health")
        door.caller("ann").badge.revoked = True
        assert await peer.closed() == (1008, "unauthenticated")
        assert (await other.request("host.health"))["status"] == "ok"


async def test_a_client_that_does_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its calls end all the same, and nobody else notices."""
    for name in ("Outgoing", "Direct"):
        few = functools.partial(getattr(websocket, name), most=2_000_000)
        monkeypatch.setattr(websocket, name, few)
    go = asyncio.Event()
    ended: list[int] = []

    @tool(effects=["read"])
    async def late(n: int) -> str:
        """A long text, later."""
        await go.wait()
        ended.append(n)
        return "x" * 100_000

    async with served(late) as door, door.open("other") as other:
        recorder = EventRecorder(door.service.host)
        loop = asyncio.get_running_loop()
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.setblocking(False)
        await loop.sock_connect(deaf, ("127.0.0.1", door.port))
        await loop.sock_sendall(
            deaf,
            b"GET /deaf HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        )
        assert b" 101 " in await loop.sock_recv(deaf, 4096)  # the last thing it ever reads
        for n in range(100):
            params = {"name": "late", "arguments": {"n": n}}
            call = {"jsonrpc": "2.0", "id": n, "method": "tools.call", "params": params}
            await loop.sock_sendall(deaf, _frame(json.dumps(call)))
        await until(lambda: len(recorder.only("call.started")) == 100)
        go.set()
        await until(lambda: len(ended) == 100)
        closed = await recorder.wait_for("session.closed")
        assert closed.data["principal"] == "deaf"
        assert (await other.call("add", {"a": 1, "b": 2}))["output"] == 3
        deaf.close()


def _frame(text: str) -> bytes:
    """A text frame as clients send it: masked, here with zeros."""
    data = text.encode()
    return b"\x81" + bytes([0xFF]) + len(data).to_bytes(8, "big") + b"\0\0\0\0" + data


async def test_pushes_reach_the_client() -> None:
    async with served() as door, door.open() as peer:
        await peer.request("events.subscribe", {"types": ["call.finished"]})
        result = await peer.call("add", {"a": 1, "b": 2})
        told = await peer.notification("event")
        assert told["event"]["call_id"] == result["call_id"]
        door.service.host.unregister("slow")
        assert await peer.notification("tools.changed") == {}


async def test_tools_of_the_client_over_a_socket() -> None:
    async def double(params: dict[str, Any]) -> Any:
        return {"output": params["arguments"]["n"] * 2}

    async with served() as door, door.open() as peer, door.open() as other:
        peer.tools["double"] = double
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        described = {"name": "double", "input_schema": schema, "effects": ["read"]}
        await peer.request("tools.register", {"tools": [described]})
        results = await asyncio.gather(*(peer.call("double", {"n": n}) for n in range(50)))
        assert [result["output"] for result in results] == [2 * n for n in range(50)]
        assert (await other.call("double", {"n": 1}))["error"]["reason"] == "unknown_tool"


async def test_equal_ids_of_many_clients_do_not_cross() -> None:
    async def one(door: Served, number: int) -> None:
        async with door.open(f"p{number}") as peer:
            for n in range(40):
                params = {"name": "add", "arguments": {"a": number * 1000, "b": n}}
                await peer.send(
                    {"jsonrpc": "2.0", "id": n, "method": "tools.call", "params": params}
                )
            for n in range(40):
                assert (await peer.answer(n))["result"]["output"] == number * 1000 + n

    async with served() as door:
        await asyncio.gather(*(one(door, number) for number in range(20)))


async def test_nothing_stays_behind() -> None:
    async with served() as door:
        for _ in range(3):
            async with door.open() as peer:
                await peer.call("add", {"a": 1, "b": 2})
        host = door.service.host
        await until(lambda: not host.callers.sessions and not host.bus.heard)
        with pytest.raises(ConnectionClosed):
            await peer.socket.send("{}")
