"""Frames as a network may bring them, on the short way of our own server."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from executing import until
from http_gateway import Gateway, gateway
from toolcrib.transports import websocket
from toolcrib.transports.http import sockets

UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}
MASK = b"\x01\x02\x03\x04"


def frame(data: bytes, first: int = 0x81, *, form: int = 0, mask: bytes = MASK) -> bytes:
    """A frame from a client; `form` asks for a longer way to write its length."""
    size = len(data)
    form = form or (7 if size < 126 else 16 if size < 65_536 else 64)
    length = {7: bytes([0x80 | (size & 127)]), 16: b"\xfe", 64: b"\xff"}[form]
    length += b"" if form == 7 else size.to_bytes(form // 8, "big")
    masked = bytes(byte ^ mask[n % 4] for n, byte in enumerate(data))
    return bytes([first]) + length + mask + masked


def asking(id: int, **more: Any) -> bytes:
    message = {"jsonrpc": "2.0", "id": id, "method": "host.health", **more}
    return json.dumps(message, ensure_ascii=False).encode()


class Raw:
    """A connection after its handshake, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def next(self) -> tuple[int, bytes]:
        """The next frame: its first byte and what is in it."""
        async with asyncio.timeout(20):
            first, size = await self._reader.readexactly(2)
            if size >= 126:
                size = int.from_bytes(await self._reader.readexactly(2 if size == 126 else 8))
            return first, await self._reader.readexactly(size)

    async def ids(self, count: int) -> list[Any]:
        """The ids of so many answers."""
        return [json.loads((await self.next())[1])["id"] for _ in range(count)]

    async def code(self) -> int:
        """The code with which the host closes it."""
        while True:
            first, data = await self.next()
            if first == 0x88:
                return int.from_bytes(data[:2])


@contextlib.asynccontextmanager
async def opened(at: Gateway) -> AsyncIterator[Raw]:
    """A WebSocket."""
    reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
    try:
        writer.write(at.request("GET", "/v1/ws", headers=UPGRADE))
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        yield Raw(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.fixture
def only_direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever takes the long way fails."""
    monkeypatch.delattr(websocket, "Reading")


@pytest.mark.usefixtures("only_direct")
@pytest.mark.parametrize("form", [7, 16, 64])
async def test_a_length_may_be_written_in_three_ways(form: int) -> None:
    async with gateway() as at, opened(at) as raw:
        for number in range(3):
            # Of a size that another way to read the length would take for a whole frame, too.
            text = asking(number).ljust(119)
            raw.writer.write(frame(text, form=form))
            assert await raw.ids(1) == [number]


@pytest.mark.usefixtures("only_direct")
async def test_frames_come_in_any_pieces() -> None:
    data = b"".join(frame(asking(number)) for number in range(4))
    data += frame(asking(4).ljust(70_000))
    async with gateway() as at, opened(at) as raw:
        raw.writer.write(data)
        assert sorted(await raw.ids(5)) == [0, 1, 2, 3, 4]
        for place in range(300):
            raw.writer.write(data[place : place + 1])
            await asyncio.sleep(0)
        raw.writer.write(data[300:])
        assert sorted(await raw.ids(5)) == [0, 1, 2, 3, 4]


@pytest.mark.usefixtures("only_direct")
async def test_a_message_of_many_frames_with_a_ping_in_between() -> None:
    text = asking(1, params={"x": "ü"}).replace(b', "params": {"x": "\xc3\xbc"}', b"")
    async with gateway() as at, opened(at) as raw:
        for _ in range(2):
            raw.writer.write(frame(text[:10], 0x01))
            raw.writer.write(frame(text[10:20], 0x00) + frame(b"hello", 0x89))
            assert await raw.next() == (0x8A, b"hello")
            raw.writer.write(frame(text[20:], 0x80) + frame(asking(2)))
            assert sorted(await raw.ids(2)) == [1, 2]


@pytest.mark.usefixtures("only_direct")
async def test_text_beyond_ascii() -> None:
    async with gateway() as at, opened(at) as raw:
        message = {"jsonrpc": "2.0", "id": "ü€", "method": "host.health"}
        text = json.dumps(message, ensure_ascii=False).encode()
        for _ in range(2):
            raw.writer.write(frame(text))
            assert await raw.ids(1) == ["ü€"]


WRONG: dict[str, tuple[bytes, int]] = {
    "not masked": (b"\x81\x02{}", 1002),
    "reserved bit": (frame(b"{}", 0xC1), 1002),
    "unknown opcode": (frame(b"{}", 0x83), 1002),
    "continues nothing": (frame(b"{}", 0x80), 1002),
    "text within a message": (frame(b"{", 0x01) + frame(b"{}"), 1002),
    "bad utf-8": (frame(b'"\xff\xfe"'), 1007),
    "bad utf-8 in pieces": (frame(b'"\xff', 0x01) + frame(b'"', 0x80), 1007),
    "binary": (frame(b"{}", 0x82), 1003),
    "binary in pieces": (frame(b"{", 0x02) + frame(b"}", 0x80), 1003),
    "too big": (b"\x81\xff" + (1 << 40).to_bytes(8, "big") + MASK, 1009),
    "too big in pieces": (frame(b"x" * 60_000, 0x01) + frame(b"x" * 60_000, 0x80), 1009),
    "goodbye": (frame((1000).to_bytes(2, "big"), 0x88), 1000),
}


@pytest.mark.usefixtures("only_direct")
@pytest.mark.parametrize(("data", "code"), list(WRONG.values()), ids=list(WRONG))
async def test_what_is_wrong_ends_it_with_its_code(data: bytes, code: int) -> None:
    async with gateway(max_body=100_000) as at:
        async with opened(at) as raw:
            # What follows is not looked at any more.
            raw.writer.write(data + frame(asking(1)))
            assert await raw.code() == code
        async with opened(at) as raw:
            raw.writer.write(frame(asking(2)))
            assert await raw.ids(1) == [2]
            assert len(at.host.callers.sessions) == 1


@pytest.mark.usefixtures("only_direct")
@pytest.mark.parametrize(
    "length", [0, 30, 90, 110, 800, 1000, 1023, 1024, 1025, 65_300, 65_400, 65_600]
)
async def test_answers_of_every_length(length: int) -> None:
    async with gateway() as at, opened(at) as raw:
        value = "x" * length
        params = {"name": "echo", "arguments": {"value": value}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools.call", "params": params}
        for _ in range(2):
            raw.writer.write(frame(json.dumps(message).encode()))
            first, data = await raw.next()
            assert (first, json.loads(data)["result"]["output"]) == (0x81, value)
        # Several in one go are headed in another place.
        raw.writer.write(frame(json.dumps(message).encode()) * 3)
        for _ in range(3):
            assert json.loads((await raw.next())[1])["result"]["output"] == value


@pytest.mark.usefixtures("only_direct")
@pytest.mark.parametrize(
    ("first", "then", "code"),
    [
        (frame(b"{", 0x01), frame(b'{"a":1}'), 1002),
        (frame(b"{", 0x02), frame(b'{"a":1}'), 1002),
        (frame(b"", 0x01), frame(b'{"a":1}'), 1002),
    ],
    ids=["in a text", "in bytes", "in an empty beginning"],
)
async def test_a_text_that_comes_alone_within_a_message(
    first: bytes, then: bytes, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    came = asyncio.Event()
    fed = sockets.DirectSocket.data_received

    def feed(self: sockets.DirectSocket, data: bytes) -> None:
        fed(self, data)
        if data == first:
            came.set()

    monkeypatch.setattr(sockets.DirectSocket, "data_received", feed)
    async with gateway() as at, opened(at) as raw:
        raw.writer.write(first)
        await asyncio.wait_for(came.wait(), 20)
        raw.writer.write(then)
        assert await raw.code() == code


@pytest.mark.usefixtures("only_direct")
async def test_the_rest_of_a_text_that_looks_like_a_text_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    came = asyncio.Event()
    fed = sockets.DirectSocket.data_received

    def feed(self: sockets.DirectSocket, data: bytes) -> None:
        fed(self, data)
        came.set()

    text = asking(7)
    left = len(text) - 8
    # Masked so that what is sent last begins as a whole frame of its very length does.
    mask = bytes([text[8] ^ 0x81, text[9] ^ (0x80 | (left - 6)), 3, 4])
    data = frame(text, mask=mask)
    assert data[-left:][:2] == bytes([0x81, 0x80 | (left - 6)])
    async with gateway() as at, opened(at) as raw:
        raw.writer.write(frame(asking(1)))
        assert await raw.ids(1) == [1]
        monkeypatch.setattr(sockets.DirectSocket, "data_received", feed)
        raw.writer.write(data[:-left])
        await asyncio.wait_for(came.wait(), 20)
        raw.writer.write(data[-left:])
        assert await raw.ids(1) == [7]


@pytest.mark.usefixtures("only_direct")
async def test_nothing_is_said_after_a_goodbye(monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[bytes] = []
    closing = sockets.DirectSocket.handle_close

    def close(self: sockets.DirectSocket, event: Any) -> None:
        closing(self, event)
        monkeypatch.setattr(self, "transport", Late(self.transport))

    class Late:
        def __init__(self, transport: Any) -> None:
            self._transport = transport

        def write(self, data: bytes) -> None:
            late.append(data)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._transport, name)

    monkeypatch.setattr(sockets.DirectSocket, "handle_close", close)
    async with gateway() as at, opened(at) as raw:
        add = {"name": "add", "arguments": {"a": 1, "b": 2}}
        message = {"jsonrpc": "2.0", "id": 2, "method": "tools.call", "params": add}
        # The goodbye is read before the answer to what came with it is written.
        bye = frame((1000).to_bytes(2, "big"), 0x88)
        raw.writer.write(frame(json.dumps(message).encode()) + bye)
        assert await raw.code() == 1000
        await until(lambda: not at.host.callers.sessions)
        assert late == []


async def test_a_client_that_does_not_wait_for_the_handshake_is_served_the_long_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    came, go = asyncio.Event(), asyncio.Event()
    serve = websocket.serve_websocket
    fed = sockets.DirectSocket.data_received

    def feed(self: sockets.DirectSocket, data: bytes) -> None:
        fed(self, data)
        if data.startswith(b"\x81"):
            came.set()

    entered = asyncio.Event()

    async def late(*given: Any) -> None:
        entered.set()
        await go.wait()
        await serve(*given)

    monkeypatch.setattr(websocket, "serve_websocket", late)
    monkeypatch.setattr(sockets.DirectSocket, "data_received", feed)
    async with gateway() as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(at.request("GET", "/v1/ws", headers=UPGRADE))
        await asyncio.wait_for(entered.wait(), 20)
        text = frame(asking(2))
        writer.write(frame(asking(1)) + text[:5])
        await asyncio.wait_for(came.wait(), 20)
        go.set()
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        raw = Raw(reader, writer)
        writer.write(text[5:])
        assert sorted(await raw.ids(2)) == [1, 2]
        writer.close()
        await writer.wait_closed()


def test_the_quick_way_is_in_use() -> None:
    """Else the tests above would say nothing about the server that is used."""
    from toolcrib.transports.http import server

    assert server.DirectSocket is sockets.DirectSocket
