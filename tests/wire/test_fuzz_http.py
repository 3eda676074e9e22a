"""HTTP and event streams under fire: whatever is malformed runs nothing, tells nothing, and does
no harm."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio

from hostile import (
    HANDSHAKE,
    LONG,
    OTHER_VALUES,
    Running,
    broken_texts,
    judge,
    members,
    no_traces,
    odd_params,
    request,
    running,
    statuses,
    throw,
    throw_all,
    write_project,
)
from toolcrib.transports.http.routes import STREAMS
from toolcrib.transports.wire import METHODS

pytestmark = pytest.mark.asyncio(loop_scope="module")
CALL = "/v1/tools/canary/call"
BODY = b'{"arguments":{"text":"boom"}}'
VERBS = (
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND",
    "BREW", "get", "PRI", "G ET", "",
)  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    folder = tmp_path_factory.mktemp("project")
    write_project(folder)
    async with running(folder) as found:
        yield found
        assert await found.stop() == 0
        no_traces(found.log)


async def works(gateway: Running) -> None:
    """It lives, has run nothing, and does what it is asked to."""
    body = json.dumps({"arguments": {"n": 1}}).encode()
    good = request(gateway.port, "POST /v1/tools/good/call", body)
    answer = await throw(gateway.port, good, patience=LONG)
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["output"] == 2, answer
    assert gateway.process.returncode is None
    assert gateway.ran == []


async def survives(
    gateway: Running, frames: Iterator[tuple[str, bytes]], *, patience: float = 0.3
) -> dict[str, bytes]:
    """What came back for each of the frames: refusals, all of them."""
    gateway.forget()
    came = await throw_all(gateway.port, frames, patience=patience)
    no_traces(*came.values())
    assert gateway.ran == [], [label for label, answer in came.items() if b'"ran"' in answer]
    for label, answer in came.items():
        assert all(status < 500 for status in statuses(answer)), (label, answer)
    await works(gateway)
    return came


async def test_bodies_that_are_no_json(gateway: Running) -> None:
    def frames() -> Iterator[tuple[str, bytes]]:
        for label, text in broken_texts(BODY, b'"boom"', seed=1):
            if text:  # a call without a body is a good one
                yield label, request(gateway.port, f"POST {CALL}", text)

    came = await survives(gateway, frames(), patience=LONG)
    assert {statuses(answer)[0] for answer in came.values()} == {400, 413}


async def test_members_of_another_kind(gateway: Running) -> None:
    def frames() -> Iterator[tuple[str, bytes]]:
        for label, method, params in odd_params():
            row = METHODS[method].http
            if row is None or row[0] != "POST" or label.endswith("wait 3"):
                continue
            path = row[1]
            given = params
            if isinstance(params, dict):
                given = dict(params)
                for name, _ in members(method):
                    if f"{{{name}}}" in path:
                        path = path.replace(f"{{{name}}}", quote(str(given.pop(name, "")) or "-"))
            yield label, request(gateway.port, f"POST {path}", json.dumps(given).encode())
        for number, value in enumerate(OTHER_VALUES):
            for name in ("arguments", "session", "profile", "timeout", "wait", "key", "name"):
                text = json.dumps({name: value}).encode()
                good = value is None or (name, type(value)) == ("arguments", dict)
                if name == "timeout":
                    good |= type(value) in (int, float) and value > 0
                if not good or name in ("wait", "key", "name"):
                    yield f"body {name} {number}", request(gateway.port, f"POST {CALL}", text)
            text = json.dumps({"arguments": {"text": "boom"}, "unheard_of": value}).encode()
            yield f"body unknown {number}", request(gateway.port, f"POST {CALL}", text)

    await survives(gateway, frames())


async def test_queries_of_every_kind(gateway: Running) -> None:
    values = ("", "x", "-1", "1e999", "NaN", "true", "%00", "%ff", "%", "%zz", "a" * 3000, "[]",
              "9" * 400, "\u00ff", "1&limit=2", "é", "*" * 200, "(" * 99, "..%2f..")  # fmt: skip

    def frames() -> Iterator[tuple[str, bytes]]:
        for method, row in METHODS.items():
            if row.http is None or row.http[0] == "POST":
                continue
            verb, path = row.http
            names = [name for name, _ in members(method)]
            for number, value in enumerate(values):
                at = path
                for name in names:
                    at = at.replace(f"{{{name}}}", quote(value, safe="%") or "-")
                for name in [*(n for n in names if f"{{{n}}}" not in path), "unheard_of"]:
                    line = f"{verb} {at}?{name}={value}"
                    yield f"{method} {name} {number}", request(gateway.port, line)
        for number, value in enumerate(values):
            for name in ("types", "after", "call_id", "unheard_of"):
                line = f"GET /v1/events?{name}={value}"
                yield f"events {name} {number}", request(gateway.port, line)
            line = "GET /v1/events"
            frame = request(gateway.port, line, b"", f"Last-Event-ID: {value}")
            yield f"events last {number}", frame
            line = f"GET /v1/calls/{quote(value, safe='%') or '-'}/events"
            yield f"events of one {number}", request(gateway.port, line)

    await survives(gateway, frames())


async def test_requests_that_two_readers_could_read_differently(gateway: Running) -> None:
    """A proxy in front may see one request where there are two: such a pair is refused whole."""
    port, size = gateway.port, len(BODY)
    hidden = request(port, f"POST {CALL}", BODY)
    chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (size, BODY)
    good = b'{"arguments":{"n":1}}'

    def outer(*headers: str | bytes, body: bytes = b"") -> bytes:
        line = "POST /v1/tools/good/call"
        given = ("Content-Type: application/json", *headers)
        return request(port, line, b"", *given, close=False) + body

    def frames() -> Iterator[tuple[str, bytes]]:
        smuggled = good + hidden
        both = ("Content-Length: 5", "Transfer-Encoding: chunked")
        yield "length and chunks", outer(*both, body=b"0\r\n\r\n" + hidden)
        yield "chunks and length", outer(*reversed(both), body=b"0\r\n\r\n" + hidden)
        for number, (one, two) in enumerate(
            (
                (f"{len(good)}", f"{len(smuggled)}"),
                (f"{len(smuggled)}", f"{len(good)}"),
                ("0", f"{len(good)}"),
            )
        ):
            frame = outer(f"Content-Length: {one}", f"Content-Length: {two}", body=smuggled)
            yield f"two lengths {number}", frame
        for value in (
            "+5",
            "-1",
            "0x5",
            "5,5",
            "5, 6",
            "5 5",
            "",
            "٥",
            "1e1",
            "9" * 30,
            "5;",
            "5.0",
        ):
            frame = outer(f"Content-Length: {value}".encode(), body=smuggled)
            yield f"length {value}", frame
        for number, value in enumerate(
            (
                "xchunked",
                "chunked, identity",
                "identity, chunked",
                "chunked;q=1",
                "gzip, chunked",
                "chunked\x0b",
                "\x0bchunked",
                '"chunked"',
                "chunked chunked",
                "gzip",
                "chunked,",
            )
        ):
            frame = outer(f"Transfer-Encoding: {value}", "Content-Length: 4", body=chunk + hidden)
            yield f"encoding {number}", frame
        for number, name in enumerate(
            (
                "Transfer-Encoding ",
                " Transfer-Encoding",
                "Transfer\x00-Encoding",
            )
        ):
            frame = outer(f"{name}: chunked", "Content-Length: 4", body=b"0\r\n\r\n" + hidden)
            yield f"name {number}", frame
        for number, value in enumerate(
            (
                b"Content-Length:\r\n 4",
                b"X: 1\r\n Content-Length: 4",
                b"X: 1\r\n\tTransfer-Encoding: x",
                b"X: 1\nContent-Length: 4",
                b"X: 1\rContent-Length: 4",
                b"X: \x00",
                b": nameless",
                b"no colon",
                b"Content-Length: 4\x0b",
            )
        ):
            yield f"fold {number}", outer(value, body=b"junk" + hidden)
        for number, bad in enumerate(
            (
                b"zz",
                b"-1",
                b"0x5",
                b"5;" + b"a" * 20_000,
                b"f" * 17,
                b"",
                b"5 ",
                b" 5",
                b"5\n",
                b"+5",
            )
        ):
            body = bad + b"\r\n" + BODY + b"\r\n0\r\n\r\n" + hidden
            yield f"chunk {number}", outer("Transfer-Encoding: chunked", body=body)
        body = b"2\r\n{}XX0\r\n\r\n"
        yield "chunk overrun", outer("Transfer-Encoding: chunked", body=body + hidden)
        yield "trailer", outer("Transfer-Encoding: chunked", body=b"0\r\nX: " + b"a" * 20_000)
        for number, start in enumerate(
            (
                b"\x00" + hidden,
                b"GET\r\n" + hidden,
                b"GET /\r\n" + hidden,
                b" " + hidden,
                b"HTTP/1.1 200 OK\r\n\r\n" + hidden,
                b"\x16\x03\x01\x02\x00" + hidden,
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + hidden,
            )
        ):
            yield f"start {number}", start

    await survives(gateway, frames())


async def test_heads_that_are_too_much_or_wrong(gateway: Running) -> None:
    port = gateway.port

    def frames() -> Iterator[tuple[str, bytes]]:
        for number, head in enumerate(
            (
                "X: " + "a" * 40_000,
                "X" * 40_000 + ": a",
                *("Cookie: " + "c" * n for n in (17_000,)),
            )
        ):
            yield f"huge {number}", request(port, f"POST {CALL}", BODY, head)
        many = [f"X-{n}: {n}" for n in range(300)]
        yield "many", request(port, f"POST {CALL}", BODY, *many)
        yield "long path", request(port, f"POST /v1/tools/{'a' * 40_000}/call", BODY)
        yield "long query", request(port, f"POST {CALL}?wait={'1' * 40_000}", BODY)
        for version in (
            "HTTP/0.9",
            "HTTP/1.2",
            "HTTP/2.0",
            "HTTP/3",
            "HTTP/1.1.1",
            "HTTP/11",
            "XTTP/1.1",
        ):
            yield version, request(port, f"POST {CALL} {version}", BODY)
        for number, kind in enumerate(
            (
                "text/plain",
                "application/x-www-form-urlencoded",
                "multipart/form-data; boundary=x",
                "application/jsonp",
                "application/json5",
                "*/*",
                "",
            )
        ):
            head = request(port, f"POST {CALL}", b"", f"Content-Type: {kind}")[:-2]
            yield f"type {number}", head + b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
        for coding in ("gzip", "br", "deflate", "zstd", "identity, gzip"):
            yield coding, request(port, f"POST {CALL}", BODY, f"Content-Encoding: {coding}")
        for name in ("Host", "Authorization", "Content-Type", "Origin", "Idempotency-Key"):
            twice = (f"{name}: 127.0.0.1:{port}", f"{name}: other")
            yield f"twice {name}", request(port, f"POST {CALL}", BODY, *twice)
        for number, value in enumerate(("", "a" * 300, "ä", "\x01")):
            yield f"key {number}", request(port, f"POST {CALL}", BODY, f"Idempotency-Key: {value}")
        for number, value in enumerate(("wait=x", "wait=-1", "wait=999999", "wait=NaN")):
            query = request(port, f"POST {CALL}?{value}", BODY)
            yield f"wait {number}", query
        for number, protocol in enumerate(("h2c", "TLS/1.0", "websocket")):
            given = (f"Upgrade: {protocol}", "Connection: Upgrade, HTTP2-Settings")
            yield f"upgrade {number}", request(port, f"POST {CALL}", BODY, *given, close=False)
        yield "handshake with a body", request(port, f"POST {CALL}", BODY, *HANDSHAKE, close=False)

    await survives(gateway, frames())


async def test_requests_that_never_end(gateway: Running) -> None:
    """Each is hung up on; none runs, however close to its end it was."""
    gateway.forget()
    whole = request(gateway.port, f"POST {CALL}", BODY)
    parts = [whole[:size] for size in range(1, len(whole), 7)] + [whole[:-1]]
    came = await asyncio.gather(*(throw(gateway.port, part, patience=LONG) for part in parts))
    no_traces(*came)
    assert [statuses(answer) for answer in came] == [[408]] * len(parts)
    await works(gateway)


PATHS = (
    "/v1/tools/canary%2fcall", "/v1/tools/canary%2Fcall", "/v1%2ftools/canary/call",
    "/v1%2Ftools%2Fcanary%2Fcall", "/v1/tools%2fcanary/call", "//v1/tools/canary/call",
    "/v1//tools/canary/call", "/v1/tools//canary/call", "/v1/tools/canary//call",
    "/v1/tools/canary/call/", "/v1/tools/canary/call//", "/v1/tools/./canary/call",
    "/v1/tools/x/../canary/call", "/v1/tools/x/%2e%2e/canary/call", "/v1/../v1/tools/canary/call",
    "/./v1/tools/canary/call", "/v1/tools/canary/call;x", "/v1/tools/canary/call;x=1",
    "/v1/tools/canary;x/call", "/v1/tools/canary%00/call", "/v1/tools/canary/call%00",
    "/v1/tools/%00canary/call", "/v1/tools/canary%0a/call", "/v1/tools/canary%0d%0aX:%201/call",
    "/v1/tools/canary%20/call", "/v1/tools/%20canary/call", "/v1/tools/CANARY/call",
    "/V1/tools/canary/call", "/v1/tools/canary/CALL", "/v1/tools/canary%/call",
    "/v1/tools/canary%zz/call", "/v1/tools/canary%c0%af/call", "/v1/tools/canary%ff/call",
    "/v1/tools/canary%252fcall", "/v1/tools/%2563anary/call", "\\v1\\tools\\canary\\call",
    "/v1/tools/canary\\call", "/v1/tools/canary?/call", "/v1/tools/canary/call#x", "#/v1/tools",
    "/v1/tools/canary#/call", "/v1/tools/canary\x01/call", "/v1/tools/canary\xff/call",
    "v1/tools/canary/call", "*", "", "/v1/tools/canary@9/call", "/v1/tools/../../etc/passwd",
    "/docs/../v1/tools/canary/call", "http:/v1/tools/canary/call", "://v1/tools/canary/call",
    "http://", "http://127.0.0.1", "?", "/?", "%2fv1%2ftools%2fcanary%2fcall",
)  # fmt: skip


async def test_addresses_that_mean_something_else(gateway: Running) -> None:
    def frames() -> Iterator[tuple[str, bytes]]:
        for path in PATHS:
            yield path, request(gateway.port, f"POST {path}", BODY)

    await survives(gateway, frames())


async def test_other_verbs_at_every_address(gateway: Running) -> None:
    paths = {row.http[1] for row in METHODS.values() if row.http is not None} | set(STREAMS)
    paths |= {"/", "/docs", "/v1/openapi.json", "/healthz", "/readyz", "/metrics", "/nowhere"}
    right = {row.http for row in METHODS.values() if row.http is not None}

    def frames() -> Iterator[tuple[str, bytes]]:
        for path in sorted(paths):
            at = path.replace("{name}", "canary").replace("{id}", "c0")
            for verb in VERBS:
                if (verb, path) not in right:
                    yield f"{verb} {path}", request(gateway.port, f"{verb} {at}", BODY)

    came = await survives(gateway, frames(), patience=1.0)
    wrong = {label for label, answer in came.items() if 405 in statuses(answer)}
    assert len(wrong) > len(paths) * 3


async def test_what_it_says_is_always_json_of_one_shape(gateway: Running) -> None:
    """Also where the words come from the server library."""
    frames = {
        "no request": b"nonsense\r\n\r\n",
        "no host": b"GET /v1/tools HTTP/1.1\r\nConnection: close\r\n\r\n",
        "no route": request(gateway.port, "GET /nowhere"),
        "no verb": request(gateway.port, "PUT /v1/tools"),
        "no json": request(gateway.port, f"POST {CALL}", b"{"),
    }
    for answer in (await survives(gateway, iter(frames.items()), patience=LONG)).values():
        head, _, body = answer.partition(b"\r\n\r\n")
        said: Any = judge(body)
        assert b"content-type: application/json" in head.lower()
        assert said["status"] in ("error", "denied")
        assert said["error"]["reason"]
