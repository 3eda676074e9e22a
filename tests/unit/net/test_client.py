"""The client against servers on this machine."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from loopback import HERE, Seen, failed, get, refused, reply, serve
from needs import needs
from toolcrib.errors import ToolFailure
from toolcrib.net.client import Client
from toolcrib.net.exchange import Request
from toolcrib.net.guard import Guard
from toolcrib.net.url import parse_url


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with Client() as made:
        yield made


async def test_an_answer_is_read_to_its_end(client: Client) -> None:
    async with serve(lambda _: reply("hello", headers={"X-A": "1", "x-a": "2"})) as server:
        response = await client.send(get(f"{server.url}/a?b=c"), HERE)
    assert (response.status, response.body, response.cut) == (200, b"hello", False)
    assert response.headers["x-a"] == "1, 2"
    assert server.seen[0].target == "/a?b=c"
    assert server.seen[0].headers["host"] == f"127.0.0.1:{server.port}"
    assert "cookie" not in server.seen[0].headers


async def test_connections_are_kept_and_closed_in_the_end() -> None:
    before = descriptors()
    async with serve(lambda _: reply("x")) as server:
        async with Client() as client:
            for _ in range(5):
                await client.send(get(server.url), HERE)
        await until(lambda: descriptors() <= before + 1)
    assert server.connections == 1
    await until(lambda: descriptors() <= before)


@pytest.mark.parametrize(
    ("coding", "data"),
    [
        ("br", b"\x0b\x02\x80hello\x03"),
        ("gzip, gzip", gzip.compress(gzip.compress(b"x"))),
        ("gzip", b"this is not gzip"),
        ("gzip", gzip.compress(b"hello" * 100)[:-10]),
        ("gzip", gzip.compress(b"")[:5]),
    ],
    ids=["brotli", "twice", "not-gzip", "cut", "cut-early"],
)
async def test_a_body_that_cannot_be_unpacked(client: Client, coding: str, data: bytes) -> None:
    async with serve(lambda _: reply(data, headers={"Content-Encoding": coding})) as server:
        assert (await failed(client, get(server.url))).reason == "upstream_error"


async def test_cancelling_closes_the_connection(client: Client) -> None:
    gone = asyncio.Event()
    arrived = asyncio.Event()

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        writer.write(b"HTTP/1.1 200 OK\r\nX: ")
        while not writer.is_closing():
            await asyncio.sleep(0.005)
            writer.write(b".")
        gone.set()

    async with serve(lambda _: answer) as server:
        task = asyncio.create_task(client.send(get(server.url), HERE))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(5):
            await gone.wait()


async def test_a_write_is_sent_once_even_when_the_connection_drops(client: Client) -> None:
    async def hang_up(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with serve(lambda _: hang_up) as server:
        for method in ("PUT", "DELETE", "POST"):
            request = Request(method=method, url=parse_url(server.url), body=b"1")
            failure = await failed(client, request)
            assert (failure.reason, failure.retryable) == ("upstream_error", False)
        assert [seen.method for seen in server.seen] == ["PUT", "DELETE", "POST"]


async def test_a_kept_connection_that_dropped_is_replaced_for_a_read(client: Client) -> None:
    async def hang_up(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.close()

    answers = iter([reply("one"), hang_up, reply("two")])
    async with serve(lambda _: next(answers)) as server:
        assert (await client.send(get(server.url), HERE)).body == b"one"
        assert (await client.send(get(server.url), HERE)).body == b"two"
    assert server.connections == 2


async def test_nobody_listens(client: Client) -> None:
    async with serve(lambda _: reply()) as server:
        pass
    failure = await failed(client, get(f"{server.url}/?token=s3cret"))
    assert (failure.reason, failure.retryable) == ("upstream_error", True)
    assert "refused" in failure.message
    assert "s3cret" not in failure.message


async def test_a_name_without_an_address() -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    async with Client(resolve=resolve) as client:
        failure = await failed(client, get("http://nowhere.test/"))
    assert failure.message == "no address is known for nowhere.test"


@pytest.mark.parametrize(
    "data",
    [b"SSH-2.0-server\r\n", b"HTTP/1.1 two OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"a" * 99_999],
    ids=["ssh", "status", "long-header"],
)
async def test_an_answer_that_is_not_http(client: Client, data: bytes) -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    async with serve(lambda _: answer) as server:
        assert (await failed(client, get(server.url))).reason == "upstream_error"


async def test_an_answer_that_breaks_off(client: Client) -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
        await writer.drain()

    async with serve(lambda _: answer) as server:
        failure = await failed(client, get(server.url))
    assert "before its answer was whole" in failure.message


async def test_no_cookie_is_kept(client: Client) -> None:
    async with serve(lambda _: reply("x", headers={"Set-Cookie": "a=b"})) as server:
        await client.send(get(server.url), HERE)
        await client.send(get(server.url), HERE)
    assert "cookie" not in server.seen[1].headers


async def test_no_proxy_is_taken_from_the_environment(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(lambda _: reply("proxy")) as proxy, serve(lambda _: reply("x")) as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert (await client.send(get(server.url), HERE)).body == b"x"
    assert proxy.connections == 0


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    openssl = needs("openssl", "openssl")
    made = tmp_path / "server.pem"
    subprocess.run(
        f"{openssl} req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
        f"-subj /CN=secure.test -addext subjectAltName=DNS:secure.test "
        f"-keyout {made} -out {made}.crt".split(),
        check=True,
        capture_output=True,
    )
    made.write_text(made.read_text() + Path(f"{made}.crt").read_text())
    return made


async def test_a_certificate_that_nobody_vouches_for_is_refused(certificate: Path) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    known = ssl.create_default_context(cafile=certificate)

    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    async with serve(lambda _: reply("x"), tls=tls) as server:
        request = get(f"https://secure.test:{server.port}/")
        async with Client(resolve=resolve) as client:
            failure = await failed(client, request)
            assert failure.reason == "upstream_error"
            assert "certificate" in failure.message
        async with Client(resolve=resolve, tls=known) as client:
            assert (await client.send(request, HERE)).body == b"x"
            wrong = get(f"https://other.test:{server.port}/")
            assert "certificate" in (await failed(client, wrong)).message
    assert len(server.seen) == 1


async def test_https_is_never_left_for_http(certificate: Path) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)

    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    async with serve(lambda _: reply("plain")) as plain:
        place = {"Location": f"http://secure.test:{plain.port}/"}
        secure = serve(lambda _: reply(status=302, headers=place), tls=tls)
        trusted = ssl.create_default_context(cafile=certificate)
        async with secure as server, Client(resolve=resolve, tls=trusted) as client:
            request = get(f"https://secure.test:{server.port}/")
            assert await refused(client, request) == "url_not_allowed"
    assert plain.seen == []


def test_a_client_serves_more_than_one_loop() -> None:
    client = Client()

    async def once() -> bytes:
        async with serve(lambda _: reply("x")) as server:
            response = await client.send(get(server.url), HERE)
            await client.aclose()
            return response.body

    assert [asyncio.run(once()) for _ in range(2)] == [b"x", b"x"]


def test_the_library_is_loaded_with_the_first_request_only() -> None:
    code = (
        "import sys, toolcrib.net.client, toolcrib.net.guard; "
        "assert not {'aiohttp', 'yarl', 'idna'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_the_library_the_failure_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(ToolFailure, match=r"pip install 'toolcrib\[http\]'") as raised:
        asyncio.run(Client().send(get("http://example.com/"), Guard()))
    assert raised.value.reason == "tool_unavailable"


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def until(condition: Any) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.005)
