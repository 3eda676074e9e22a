"""Names and pages that are not the gateway's own: none of them reaches anything behind the door."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hostile import HANDSHAKE, LONG, request, statuses, throw, throw_all
from http_gateway import gateway
from toolcrib import ToolHost, tool
from toolcrib.core.serving import HttpSettings, Listen, ServeSettings
from toolcrib.transports.http.app import create_app
from toolcrib.transports.http.routes import STREAMS
from toolcrib.transports.identity.identity import Identity
from toolcrib.transports.service import Service
from toolcrib.transports.wire import METHODS

PORT = 8700
HOSTS: tuple[tuple[str, ...], ...] = (
    (), ("",), ("evil.example",), ("evil.example:{port}",), ("127.0.0.1.evil.example:{port}",),
    ("localhost.evil.example:{port}",), ("127.0.0.1.nip.io:{port}",), ("localtest.me:{port}",),
    ("127.0.0.1:1",), ("127.0.0.1:{port}0",), ("127.0.0.1:0{port}",), ("127.0.0.1:+{port}",),
    ("127.0.0.1:{port}:80",), ("127.0.0.1:{port}.evil.example",), ("127.0.0.1:{port}@evil",),
    ("evil.example@127.0.0.1:{port}",), ("user:pass@127.0.0.1:{port}",), ("127.0.0.2:{port}",),
    ("0.0.0.0:{port}",), ("[::]:{port}",), ("127.1:{port}",), ("2130706433:{port}",),
    ("0x7f000001:{port}",), ("0177.0.0.1:{port}",), ("127.0.0.1.:{port}",), ("localhost.",),
    ("localhost.:{port}",), ("::1",), ("::1:{port}",), ("[0:0:0:0:0:0:0:1]:{port}",),
    ("[::ffff:127.0.0.1]:{port}",), ("[::1%25lo]:{port}",), ("[::1]:1",), ("LOCALHOST:1",),
    (" 127.0.0.1:{port}x",), ("127.0.0.1 :{port}",), ("127.0.0.1:{port},evil.example",),
    ("127.0.0.1:{port}/",), ("http://127.0.0.1:{port}",), ("127.0.0.1:{port}\\evil",),
    ("127.0.0.1:{port}#",), ("localhost%00:{port}",), ("xn--localhost-:{port}",), ("*",),
    ("127.0.0.1:{port}", "evil.example"), ("evil.example", "127.0.0.1:{port}"),
    ("127.0.0.1:{port}", "127.0.0.1:{port}"),
)  # fmt: skip
"""The `Host` headers of a request: one, none or several."""
ORIGINS: tuple[tuple[str, ...], ...] = (
    ("",), ("null",), ("NULL",), ("undefined",), ("http://evil.example",), ("https://evil.example",),
    ("http://evil.example:{port}",), ("http://127.0.0.1",), ("http://localhost",), ("http://[::1]",),
    ("https://127.0.0.1:{port}",), ("https://localhost:{port}",), ("ws://127.0.0.1:{port}",),
    ("ftp://127.0.0.1:{port}",), ("http://127.0.0.1:1",), ("http://127.0.0.1:{port}0",),
    ("http://127.0.0.1:{port}.evil.example",), ("http://127.0.0.1.evil.example:{port}",),
    ("http://localhost.evil.example:{port}",), ("http://127.0.0.1:{port}/",),
    ("http://127.0.0.1:{port}/page",), ("http://127.0.0.1:{port}?",), ("http://127.0.0.1:{port}#",),
    ("http://user@127.0.0.1:{port}",), ("http://127.0.0.1:{port}@evil.example",),
    ("http://evil.example@127.0.0.1:{port}",), ("http://127.0.0.2:{port}",),
    ("http://0.0.0.0:{port}",), ("http://127.1:{port}",), ("http://2130706433:{port}",),
    ("http://localhost.:{port}",), ("http://127.0.0.1.:{port}",), ("http://::1:{port}",),
    ("http://[::ffff:127.0.0.1]:{port}",), ("http://[0:0:0:0:0:0:0:1]:{port}",),
    ("127.0.0.1:{port}",), ("//127.0.0.1:{port}",), ("file://",), ("about:blank",),
    ("chrome-extension://abcdef",), ("vscode-webview://x",), ("*",), ("http://*:{port}",),
    ("http://127.0.0.1:{port} http://evil.example",), ("http://127.0.0.1:{port},null",),
    ("http://127.0.0.1:{port}", "http://evil.example"),
    ("http://127.0.0.1:{port}", "http://127.0.0.1:{port}"),
)  # fmt: skip
"""The `Origin` headers of a request; those of its `Host` are good."""
GOOD_HOSTS = (
    "127.0.0.1:{port}",
    "127.0.0.1",
    "localhost:{port}",
    "LocalHost:{port}",
    "[::1]:{port}",
)
GOOD_ORIGINS = ("http://127.0.0.1:{port}", "http://localhost:{port}", "HTTP://LOCALHOST:{port}")
MCP = (
    ("POST", "/mcp", 415),
    ("GET", "/mcp", 405),
    ("POST", "/mcp/all", 415),
    ("GET", "/mcp/s/x", 404),
    ("PUT", "/mcp", 405),
    ("GET", "/.well-known/oauth-protected-resource/mcp", 404),
)
"""Addresses of MCP, and what a request without a body comes to there."""
PUBLIC = ("/", "/docs", "/v1/openapi.json", "/healthz", "/readyz", "/metrics")


class Counting(Service):
    """Counts what gets past the door."""

    reached = 0

    async def handle(self, *given: Any, **named: Any) -> Any:
        self.reached += 1
        return await super().handle(*given, **named)

    def place(self, *given: Any, **named: Any) -> Any:
        self.reached += 1
        return super().place(*given, **named)

    async def open_session(self, *given: Any, **named: Any) -> Any:
        self.reached += 1
        return await super().open_session(*given, **named)


@tool(effects=["read"])
def look() -> str:
    """Look."""
    return "seen"


class Behind:
    """The ASGI application of a gateway on loopback whose callers hold every right."""

    def __init__(self, service: Counting) -> None:
        self.service = service
        self.app = create_app(service, Identity(service.host, service.settings))
        view = service.hub.view

        def counted(*given: Any, **named: Any) -> Any:
            service.reached += 1
            return view(*given, **named)

        service.hub.view = counted  # type: ignore[method-assign]

    async def ask(
        self, verb: str, path: str, headers: list[tuple[bytes, bytes]], *, websocket: bool = False
    ) -> int:
        """The status of the answer; 101 where a WebSocket was accepted."""
        scope: dict[str, Any] = {
            "type": "websocket" if websocket else "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": verb,
            "scheme": "ws" if websocket else "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"query=x" if path == "/v1/search" else b"",
            "headers": headers,
            "client": ("127.0.0.1", 50_000),
            "server": ("127.0.0.1", PORT),
            "subprotocols": [],
        }
        if websocket:
            coming = [{"type": "websocket.connect"}, {"type": "websocket.disconnect", "code": 1000}]
        else:
            coming = [{"type": "http.request", "body": b"", "more_body": False}]
        sent: list[Any] = []

        async def receive() -> Any:
            return coming.pop(0) if coming else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        first = sent[0]
        return 101 if first["type"] == "websocket.accept" else first["status"]


@asynccontextmanager
async def behind() -> AsyncIterator[Behind]:
    host = ToolHost([look], config={"profiles": {"all": {"default": "allow"}}})
    http = HttpSettings(listen=(Listen(host="127.0.0.1", port=PORT),), profile="all")
    service = Counting(host, ServeSettings(http=http))
    await service.start()
    try:
        yield Behind(service)
    finally:
        await service.stop()


def places() -> Iterator[tuple[str, str, bool]]:
    """Every address with its verb, and whether it is a WebSocket's."""
    for row in METHODS.values():
        if row.http is not None:
            verb, path = row.http
            yield verb, path.replace("{name}", "look").replace("{id}", "x"), False
    for path, kind in STREAMS.items():
        yield "GET", path.replace("{id}", "x"), kind == "websocket"


def given(host: tuple[str, ...], origin: tuple[str, ...], port: int) -> list[tuple[bytes, bytes]]:
    pairs = [("host", value) for value in host] + [("origin", value) for value in origin]
    return [(name.encode(), value.format(port=port).encode("latin-1")) for name, value in pairs]


async def test_no_other_name_and_no_other_page_reaches_a_handler() -> None:
    """40 values and more, at every method, event stream and WebSocket."""
    assert len(HOSTS) > 40
    assert len(ORIGINS) > 40
    own = ("127.0.0.1:{port}",)
    wrong = [(host, ()) for host in HOSTS] + [(own, origin) for origin in ORIGINS]
    async with behind() as gate:
        for verb, path, websocket in places():
            for host, origin in wrong:
                status = await gate.ask(verb, path, given(host, origin, PORT), websocket=websocket)
                assert status in (400, 403, 421), (verb, path, host, origin)
                assert gate.service.reached == 0, (verb, path, host, origin)
        for verb, path, _ in MCP:
            for host, origin in wrong:
                status = await gate.ask(verb, path, given(host, origin, PORT))
                assert status in (400, 403, 421), (verb, path, host, origin)
        for path in PUBLIC:
            for host, origin in wrong:
                status = await gate.ask("GET", path, given(host, origin, PORT))
                assert status in (400, 403, 421), (path, host, origin)


async def test_its_own_names_and_pages_reach_every_handler() -> None:
    """Else the test above would prove nothing."""
    right = [(host, ()) for host in GOOD_HOSTS]
    right += [(GOOD_HOSTS[0], (origin,)) for origin in GOOD_ORIGINS]
    async with behind() as gate:
        for host, origin in right:
            for verb, path, websocket in places():
                if path == "/v1/ws" and not websocket:
                    continue
                gate.service.reached = 0
                await gate.ask(verb, path, given((host,), origin, PORT), websocket=websocket)
                assert gate.service.reached > 0, (verb, path, host, origin)
            for verb, path, expected in MCP:
                assert await gate.ask(verb, path, given((host,), origin, PORT)) == expected


async def test_pages_of_other_sites_say_so_without_an_origin() -> None:
    """Where a browser sends no Origin it says that the request comes from elsewhere."""
    async with behind() as gate:
        for verb, path, websocket in places():
            if not websocket:
                head = [*given(GOOD_HOSTS[:1], (), PORT), (b"sec-fetch-site", b"cross-site")]
                assert await gate.ask(verb, path, head) == 403
        for verb, path, _ in MCP[:5]:
            head = [*given(GOOD_HOSTS[:1], (), PORT), (b"sec-fetch-site", b"cross-site")]
            assert await gate.ask(verb, path, head) == 403
        assert gate.service.reached == 0


SAMPLE = (
    "POST /v1/tools/add/call",
    "GET /v1/tools",
    "GET /v1/events",
    "POST /v1/reload",
    "GET /v1/ws",
    "POST /mcp",
    "GET /mcp",
)


async def test_the_same_over_real_sockets(caplog: pytest.LogCaptureFixture) -> None:
    async with gateway(guarded=False) as served:
        counts = _counted(served.serving.service)
        port = served.port

        def frames() -> Iterator[tuple[str, bytes]]:
            for line in SAMPLE:
                more = HANDSHAKE if line.endswith("ws") else ()
                body = b'{"arguments":{"a":1,"b":2}}' if "/call" in line else b""
                for number, host in enumerate(HOSTS):
                    yield f"{line} host {number}", _bare(line, host, (), more, body, port)
                for number, origin in enumerate(ORIGINS):
                    frame = _bare(line, ("127.0.0.1:{port}",), origin, more, body, port)
                    yield f"{line} origin {number}", frame

        for label, answer in (await throw_all(port, frames(), patience=LONG)).items():
            assert statuses(answer)[0] in (400, 403, 421), (label, answer)
            if b"Failed to open a WebSocket" in answer:
                continue  # two origins: said by the library, before we are asked
            reason = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["reason"]
            assert reason in ("host_refused", "origin_refused", "not_a_request"), label
        assert counts == []
        assert served.recorder.events == []
        assert [record.message for record in caplog.records] == []


ABSOLUTE = (
    "http://evil.example", "http://evil.example:{port}", "https://evil.example", "ftp://127.0.0.1:1",
    "http://127.0.0.1:1", "http://user@127.0.0.1:{port}", "http://127.0.0.1:{port}@evil.example",
    "http://localhost.:{port}", "http://127.1:{port}", "HTTP://EVIL.EXAMPLE", "//evil.example",
)  # fmt: skip


@pytest.mark.parametrize("line", SAMPLE[:4])
async def test_an_address_that_is_written_out_counts_more_than_the_header(line: str) -> None:
    verb, path = line.split()
    async with gateway(guarded=False) as served:
        counts = _counted(served.serving.service)
        for base in ABSOLUTE:
            whole = f"{verb} {base.format(port=served.port)}{path}"
            answer = await throw(served.port, request(served.port, whole), patience=LONG)
            assert statuses(answer)[0] in (400, 404, 421), (whole, answer)
        assert counts == []
        own = f"{verb} http://localhost:{served.port}{path}"
        answer = await throw(served.port, request(served.port, own, host="evil.example"))
        assert statuses(answer)[0] not in (403, 404, 421)
        assert len(counts) == 1


def _bare(
    line: str,
    host: tuple[str, ...],
    origin: tuple[str, ...],
    more: tuple[str, ...],
    body: bytes,
    port: int,
) -> bytes:
    lines = [f"{line} HTTP/1.1".encode()]
    lines += [b"%b: %b" % pair for pair in given(host, origin, port)]
    lines += [each.encode() for each in more] or [b"Connection: close"]
    if body:
        lines += [b"Content-Type: application/json", b"Content-Length: %d" % len(body)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def _counted(service: Service) -> list[str]:
    """What got past the door of a running gateway."""
    found: list[str] = []

    def count(owner: Any, name: str) -> None:
        before = getattr(owner, name)

        def counted(*given: Any, **named: Any) -> Any:
            found.append(name)
            return before(*given, **named)

        setattr(owner, name, counted)

    for name in ("handle", "place", "open_session"):
        count(service, name)
    count(service.hub, "view")
    return found
