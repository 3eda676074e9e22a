"""Clients that ask for events and never read are cut off; those that read late are not."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from http_gateway import Gateway, gateway
from toolcrib.core.events import Event
from toolcrib.transports import websocket
from toolcrib.transports.http import connection, sse

PATIENCE = 10.0
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is waited for as long as an operator would."""
    monkeypatch.setattr(sse, "GRACE", 0.05)
    monkeypatch.setattr(websocket, "GRACE", 0.05)
    monkeypatch.setattr(websocket, "LOOK", 0.02)
    monkeypatch.setattr(connection, "LAST_WORDS", 0.05)


@asynccontextmanager
async def deaf(at: Gateway, request: bytes, then: bytes = b"") -> AsyncIterator[socket.socket]:
    """A connection on which something was sent, and of which nothing is read but, where something
    is sent `then`, the head of the answer."""
    loop = asyncio.get_running_loop()
    with socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        raw.connect(("127.0.0.1", at.port))
        raw.setblocking(False)
        await loop.sock_sendall(raw, request)
        if then:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += await asyncio.wait_for(loop.sock_recv(raw, 1), PATIENCE)
            await loop.sock_sendall(raw, then)
        yield raw


def frame(message: object) -> bytes:
    """A text frame as clients send it, under a mask that changes nothing."""
    text = json.dumps(message).encode()
    assert len(text) < 126
    return bytes([0x81, 0x80 | len(text)]) + bytes(4) + text


def answering() -> int:
    """How many requests are being answered."""
    coroutines = [task.get_coro() for task in asyncio.all_tasks()]
    # A task that stood by runs its work inside of a coroutine of its own.
    works = [getattr(each, "_work", each) for each in coroutines]
    return sum(getattr(work, "__qualname__", "").endswith("run_asgi") for work in works)


async def until(check: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not check():  # noqa: ASYNC110 - nobody tells when a connection ends
            await asyncio.sleep(0.005)


async def shout(at: Gateway) -> None:
    """Tell more than anybody takes who does not read."""
    hub = at.serving.service.hub
    data = {"message": "x" * 200_000}
    for _ in range(500):
        at.host.bus.publish(Event(id="", type="tool.log", time=0.0, data=data))
        await asyncio.sleep(0)
        if not len(hub):
            return
    raise AssertionError("nobody was sent away")


async def everything(raw: socket.socket) -> bytes:
    """What comes until the connection ends."""

    def read() -> bytes:
        raw.settimeout(PATIENCE)
        found = bytearray()
        try:
            while data := raw.recv(1 << 20):
                found += data
        except ConnectionResetError:
            pass
        return bytes(found)

    return await asyncio.to_thread(read)


@pytest.mark.usefixtures("hasty")
async def test_an_event_stream_that_nobody_reads_is_cut() -> None:
    async with gateway(queue=20) as at, deaf(at, at.request("GET", "/v1/events")) as raw:
        await until(lambda: len(at.serving.service.hub) == 1)
        await shout(at)
        await until(lambda: not answering())
        assert b"viewer.dropped" not in await everything(raw)


async def test_an_event_stream_that_is_read_late_is_told_why_it_ends() -> None:
    async with gateway(queue=20) as at, deaf(at, at.request("GET", "/v1/events")) as raw:
        await until(lambda: len(at.serving.service.hub) == 1)
        await shout(at)
        reading = asyncio.ensure_future(asyncio.to_thread(_read_until, raw, b"\r\n0\r\n\r\n"))
        assert b"event: viewer.dropped\n" in await reading
        await until(lambda: not answering())


@pytest.mark.usefixtures("hasty")
async def test_a_slow_reader_that_takes_something_now_and_then_is_not_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sse, "GRACE", 0.6)
    async with gateway(queue=20) as at, deaf(at, at.request("GET", "/v1/events")) as raw:
        await until(lambda: len(at.serving.service.hub) == 1)
        await shout(at)
        slowly = asyncio.to_thread(_read_until, raw, b"\r\n0\r\n\r\n", 0.02)
        assert b"event: viewer.dropped\n" in await slowly


def _read_until(raw: socket.socket, end: bytes, pause: float = 0.0) -> bytes:
    raw.settimeout(PATIENCE)
    found = bytearray()
    while not found.endswith(end):
        data = raw.recv(200_000)
        assert data, "it was cut"
        found += data
        if pause:
            time.sleep(pause)
    return bytes(found)


@pytest.mark.usefixtures("hasty")
async def test_a_websocket_that_nobody_reads_is_cut() -> None:
    async with gateway(queue=20) as at:
        head = at.request("GET", "/v1/ws", headers=UPGRADE)
        async with deaf(at, head, SUBSCRIBE) as raw:
            await until(lambda: len(at.serving.service.hub) == 1)
            assert len(at.host.callers.sessions) == 1
            await shout(at)
            await until(lambda: not at.host.callers.sessions)
            await until(lambda: not answering())
            assert b"event.dropped" not in await everything(raw)


async def stuck(at: Gateway) -> connection.Socket:
    """The one WebSocket, when there is more for it than its client takes."""
    (found,) = sockets()
    data = {"message": "x" * 200_000}
    async with asyncio.timeout(PATIENCE):
        while found.writable.is_set():
            at.host.bus.publish(Event(id="", type="tool.log", time=0.0, data=data))
            await asyncio.sleep(0)
    return found


def sockets() -> list[connection.Socket]:
    """The open WebSockets of this process."""
    # By type: asked what it is, a proxy whose object is gone raises.
    found = [each for each in gc.get_objects() if issubclass(type(each), connection.Socket)]
    return [each for each in found if not each.disconnected]


SUBSCRIBE = frame({"jsonrpc": "2.0", "id": 1, "method": "events.subscribe"})
CLOSE = bytes([0x88, 0x80]) + bytes(4)


@pytest.mark.usefixtures("hasty")
async def test_a_websocket_that_says_goodbye_and_does_not_read_is_cut() -> None:
    async with (
        gateway() as at,
        deaf(at, at.request("GET", "/v1/ws", headers=UPGRADE), SUBSCRIBE) as raw,
    ):
        await until(lambda: len(at.serving.service.hub) == 1)
        await stuck(at)
        raw.sendall(CLOSE)
        await until(lambda: not sockets())


async def test_a_websocket_that_answers_no_ping_is_cut() -> None:
    async with (
        gateway() as at,
        deaf(at, at.request("GET", "/v1/ws", headers=UPGRADE), SUBSCRIBE),
    ):
        await until(lambda: len(at.serving.service.hub) == 1)
        (await stuck(at)).keepalive_timeout()
        await until(lambda: not sockets())
        await until(lambda: not at.host.callers.sessions)
