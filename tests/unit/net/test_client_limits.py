"""The client reads no more and waits no longer than its limits allow."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from loopback import HERE, Seen, failed, get, reply, serve
from toolcrib.net.client import Client
from toolcrib.net.exchange import Limits


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with Client() as made:
        yield made


async def test_a_body_over_the_limit_is_not_read(client: Client) -> None:
    async with serve(lambda _: reply(b"x" * 5000)) as server:
        assert (await failed(client, get(server.url), max_bytes=4999)).reason == "output_too_large"
        assert len((await client.send(get(server.url), HERE, Limits(max_bytes=5000))).body) == 5000
        cut = await client.send(get(server.url), HERE, Limits(max_bytes=10, cut=True))
    assert (cut.body, cut.cut) == (b"x" * 10, True)


async def endless(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(reply(length=False))
    while True:
        writer.write(b"y" * 65536)
        await writer.drain()


async def test_an_endless_body_ends_at_the_limit(client: Client) -> None:
    async with serve(lambda _: endless) as server:
        failure = await failed(client, get(server.url), max_bytes=1_000_000)
    assert failure.reason == "output_too_large"


def bomb(size: int, wbits: int) -> bytes:
    engine = zlib.compressobj(9, wbits=wbits)
    zeros = bytes(1 << 20)
    return b"".join(engine.compress(zeros) for _ in range(size >> 20)) + engine.flush()


@pytest.mark.parametrize(("coding", "wbits"), [("gzip", 31), ("deflate", 15), ("deflate", -15)])
async def test_a_bomb_is_counted_while_it_is_inflated(
    client: Client, coding: str, wbits: int
) -> None:
    import tracemalloc

    data = bomb(64 << 20, wbits)
    assert len(data) < 100_000
    async with serve(lambda _: reply(data, headers={"Content-Encoding": coding})) as server:
        tracemalloc.start()
        failure = await failed(client, get(server.url), max_bytes=1_000_000)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert failure.reason == "output_too_large"
    assert peak < 8_000_000


async def test_members_that_inflate_to_nothing_are_counted_too(client: Client) -> None:
    empty = gzip.compress(b"") * 2000

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(headers={"Content-Encoding": "gzip"}, length=False))
        while True:
            writer.write(empty)
            await writer.drain()

    async with serve(lambda _: answer) as server:
        failure = await failed(client, get(server.url), max_bytes=100_000)
    assert failure.reason == "output_too_large"


PACKED = {
    "gzip": ("gzip", gzip.compress(b"hello")),
    "two-members": ("gzip", gzip.compress(b"hel") + gzip.compress(b"lo")),
    "x-gzip": ("X-GZIP", gzip.compress(b"hello")),
    "zlib": ("deflate", zlib.compress(b"hello")),
    "bare": ("deflate", zlib.compress(b"hello")[2:-4]),
    "identity": ("identity", b"hello"),
}


@pytest.mark.parametrize("name", PACKED)
async def test_a_compressed_body_is_unpacked(client: Client, name: str) -> None:
    coding, data = PACKED[name]
    async with serve(lambda _: reply(data, headers={"Content-Encoding": coding})) as server:
        assert (await client.send(get(server.url), HERE)).body == b"hello"
    assert server.seen[0].headers["accept-encoding"] == "gzip, deflate"


async def silence(seen: Seen, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def drip(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(reply(length=False))
    while True:
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(0.01)


async def drip_headers(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("answer", [silence, drip, drip_headers])
async def test_the_whole_takes_no_longer_than_allowed(client: Client, answer: Any) -> None:
    async with serve(lambda _: answer) as server:
        failure = await failed(client, get(server.url), total=0.15)
    assert (failure.reason, failure.retryable) == ("timeout", True)


async def test_a_pause_takes_no_longer_than_allowed(client: Client) -> None:
    async with serve(lambda _: silence) as server:
        failure = await failed(client, get(server.url), total=None, pause=0.1)
    assert failure.reason == "timeout"


async def test_a_slow_look_up_takes_no_longer_than_allowed() -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        await asyncio.sleep(60)
        return []

    async with Client(resolve=resolve) as client:
        failure = await failed(client, get("http://slow.test/"), total=None, connect=0.1)
    assert failure.reason == "timeout"
