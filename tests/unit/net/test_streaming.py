"""Answers that are read while they come, over the quick connections and over the library's."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from loopback import HERE, Seen, reply, serve
from needs import needs
from toolcrib.errors import Denial, ToolFailure
from toolcrib.net import wire
from toolcrib.net.addresses import private_from
from toolcrib.net.client import Client
from toolcrib.net.exchange import Limits, Request, Sending
from toolcrib.net.guard import Guard
from toolcrib.net.streaming import Answer
from toolcrib.net.url import parse_url

LIMITS = Limits(total=None)
CHUNKED = {"Transfer-Encoding": "chunked"}


@pytest.fixture(params=["quick", "library"])
async def client(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Client]:
    if request.param == "library":
        monkeypatch.setattr(wire, "QuickConnections", None)
    async with Client() as made:
        yield made


@pytest.fixture
async def quick() -> AsyncIterator[Client]:
    async with Client() as made:
        yield made


def post(url: str, body: bytes | None = b"{}", **headers: str) -> Request:
    return Request(method="POST", url=parse_url(url), headers=headers, body=body)


async def opened(client: Client, url: str, **headers: str) -> Answer:
    return await client.open(post(url, **headers), HERE, LIMITS)


async def body_of(client: Client, url: str, limit: int = 1000) -> bytes:
    answer = await opened(client, url)
    try:
        return await answer.body(limit)
    finally:
        answer.close()


async def test_answers_are_read_and_connections_kept(client: Client) -> None:
    def answer(seen: Seen) -> bytes:
        return reply(seen.body + b"!", headers={"Content-Type": "Text/Plain; a=b", "X-A": "1"})

    async with serve(answer) as server:
        for _ in range(3):
            found = await opened(client, server.url + "/a?b=c", Accept="text/x")
            assert (found.status, found.content_type) == (200, "text/plain")
            assert found.headers["x-a"] == "1"
            assert await found.body(100) == b"{}!"
            found.close()
        assert server.connections == 1
        seen = server.seen[0]
        assert (seen.method, seen.target) == ("POST", "/a?b=c")
        assert seen.headers["accept"] == "text/x"
        assert seen.headers["host"] == f"127.0.0.1:{server.port}"
        assert seen.headers["user-agent"] == "toolcrib"


async def test_pieces_come_as_they_are_sent(client: Client) -> None:
    go = asyncio.Event()

    async def slowly(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(headers=CHUNKED, length=False) + b"3\r\none\r\n")
        await go.wait()
        writer.write(b"3\r\ntwo\r\n0\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(3600)

    async with serve(lambda _: slowly) as server:
        found = await opened(client, server.url)
        assert await found.read() == b"one"
        go.set()
        assert await found.read() == b"two"
        assert await found.read() == b""
        found.close()


async def test_an_answer_that_ends_after_what_mattered_keeps_its_connection(
    client: Client,
) -> None:
    ended = reply(headers=CHUNKED, length=False) + b"3\r\none\r\n0\r\n\r\n"
    async with serve(lambda _: ended) as server:
        for _ in range(3):
            found = await opened(client, server.url)
            assert await found.read() == b"one"
            found.finish()
            await asyncio.sleep(0.01)
        assert server.connections == 1


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", "before its answer was whole"),
        (reply(headers=CHUNKED, length=False) + b"5\r\nsho", "before its answer was whole"),
        (b"", "before its answer was whole"),
        (b"SMTP ready\r\n\r\n", "does not answer in HTTP"),
        (reply(headers=CHUNKED, length=False) + b"nonsense\r\n", "answer"),
    ],
    ids=["length", "chunk", "nothing", "no http", "bad chunk"],
)
async def test_broken_answers_are_failures(client: Client, data: bytes, words: str) -> None:
    async def broken(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    async with serve(lambda _: broken) as server:
        with pytest.raises(ToolFailure, match=words) as caught:
            await body_of(client, server.url)
        assert caught.value.reason == "upstream_error"


async def test_a_body_without_a_length_ends_with_the_connection(client: Client) -> None:
    async def bare(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        await writer.drain()

    async with serve(lambda _: bare) as server:
        assert await body_of(client, server.url) == b"all of it"


async def test_more_than_the_limit_is_refused_while_it_comes(client: Client) -> None:
    async def endless(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(headers=CHUNKED, length=False))
        while True:
            writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
            await writer.drain()

    async with serve(lambda _: endless) as server:
        with pytest.raises(ToolFailure) as caught:
            await body_of(client, server.url, limit=1_000_000)
        assert caught.value.reason == "output_too_large"


async def test_a_server_waits_for_a_slow_reader(client: Client) -> None:
    sent = 0

    async def endless(seen: Seen, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(reply(headers=CHUNKED, length=False))
        while True:
            writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
            await writer.drain()
            sent += 0x10000

    async with serve(lambda _: endless) as server:
        found = await opened(client, server.url)
        await asyncio.sleep(0.2)
        before = sent
        await asyncio.sleep(0.1)
        assert sent == before, "it is read though nobody reads"
        assert sent < 32_000_000
        got = 0
        while got < before + 1_000_000:
            got += len(await found.read())
        found.close()


@pytest.mark.parametrize("head", [b"X-A: " + b"x" * 100_000, b"X-A: x\r\n" * 20_000])
async def test_a_head_without_end_is_refused(quick: Client, head: bytes) -> None:
    async with serve(lambda _: b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n") as server:
        with pytest.raises(ToolFailure):
            await opened(quick, server.url)


async def test_an_answer_nobody_asked_for_is_nobodys(quick: Client) -> None:
    answers = iter([reply("first") + reply("smuggled"), reply("second")])
    async with serve(lambda _: next(answers)) as server:
        assert await body_of(quick, server.url) == b"first"
        await asyncio.sleep(0.01)
        assert await body_of(quick, server.url) == b"second"
        assert server.connections == 2


async def test_what_comes_before_the_answer_proper_is_passed_over(client: Client) -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    async with serve(lambda _: hints + reply("it")) as server:
        assert await body_of(client, server.url) == b"it"


async def test_a_connection_that_the_server_closed_is_not_used_again(client: Client) -> None:
    async def once(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(reply("x"))
        await writer.drain()

    async with serve(lambda _: once) as server:
        for _ in range(3):
            assert await body_of(client, server.url) == b"x"
            await asyncio.sleep(0.01)
        assert server.connections == 3


async def test_whoever_leaves_closes_the_connection(client: Client) -> None:
    gone = asyncio.Event()

    came = asyncio.Event()

    async def hears(seen: Seen, writer: asyncio.StreamWriter) -> None:
        came.set()
        try:
            while not writer.is_closing():
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                await writer.drain()
                await asyncio.sleep(0.005)
        finally:
            gone.set()

    async with serve(lambda _: hears) as server:
        sending = Sending()
        task = asyncio.ensure_future(client.open(post(server.url), HERE, LIMITS, sending))
        await came.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sending.open
        await asyncio.wait_for(gone.wait(), 5)


async def test_what_was_never_sent_says_so(client: Client) -> None:
    async with serve(lambda _: reply()) as server:
        pass
    sending = Sending()
    with pytest.raises(ToolFailure, match="refused"):
        await client.open(post(server.url), HERE, LIMITS, sending)
    assert not sending.open


async def test_redirects_are_checked_anew(client: Client) -> None:
    def answer(seen: Seen) -> bytes:
        if seen.path == "/away":
            return reply(status=307, headers={"Location": "http://127.0.0.2:9/"})
        return reply(status=307, headers={"Location": "/there"}) if seen.path == "/" else reply("x")

    async with serve(answer) as server:
        assert await body_of(client, server.url + "/") == b"x"
        with pytest.raises(Denial):
            await opened(client, server.url + "/away")


async def test_names_that_lead_inside_are_refused() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async with serve(lambda _: reply("x")) as server, Client(resolve=resolve) as client:
        url = f"http://name.example:{server.port}/"
        with pytest.raises(Denial) as caught:
            await client.open(post(url), Guard(), LIMITS)
        assert caught.value.reason == "address_not_public"
        permitted = Guard(private=private_from(True))
        found = await client.open(post(url), permitted, LIMITS)
        assert await found.body(10) == b"x"
        found.close()
        # A connection that one rule permitted does not serve another.
        with pytest.raises(Denial):
            await client.open(post(url), Guard(), LIMITS)
        assert server.seen[0].headers["host"] == f"name.example:{server.port}"


@pytest.mark.parametrize("value", ["a\r\nX-B: c", "a\nb", "a\0b", "日"])
async def test_headers_cannot_be_broken_out_of(quick: Client, value: str) -> None:
    async with serve(lambda _: reply()) as server:
        with pytest.raises(Denial):
            await quick.open(
                Request(method="POST", url=parse_url(server.url), headers={"X-A": value}),
                HERE,
                LIMITS,
            )
        assert server.seen == []


async def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    openssl = needs("openssl", "openssl")
    key, made = tmp_path / "key.pem", tmp_path / "server.pem"
    subprocess.run(  # noqa: ASYNC221 - nothing else runs yet
        f"{openssl} req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
        f"-subj /CN=secure.test -addext subjectAltName=DNS:secure.test "
        f"-keyout {key} -out {made}".split(),
        check=True,
        capture_output=True,
    )
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(made, key)

    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async with serve(lambda _: reply("x"), tls=tls) as server:
        url = f"https://secure.test:{server.port}/"
        async with Client(resolve=resolve) as client:
            with pytest.raises(ToolFailure, match="not secure"):
                await opened(client, url)
        known = ssl.create_default_context(cafile=made)
        async with Client(resolve=resolve, tls=known) as client:
            assert await body_of(client, url) == b"x"
            with pytest.raises(ToolFailure, match="not secure"):
                await opened(client, f"https://other.test:{server.port}/")
    assert len(server.seen) == 1
