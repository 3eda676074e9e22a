"""Names and origins: what a web page can make a browser send reaches no handler."""

from __future__ import annotations

import asyncio

import pytest

from http_gateway import gateway
from toolcrib.core.serving import HttpSettings, Listen, Tls
from toolcrib.transports.faults import Fault
from toolcrib.transports.http.guard import Guard, read_head

BAD_HOSTS = [
    "", "evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "localhost.evil.example",
    "127.0.0.1:1", "127.0.0.1:{port}.evil.example", "127.0.0.2", "0.0.0.0:{port}", "[::]:{port}",
    "localhost:80", "user@127.0.0.1:{port}", "127.0.0.1:{port}@evil.example", "127.1:{port}",
    "2130706433", "0x7f000001", "127.0.0.1:{port}, evil.example", "127.0.0.1 evil.example",
    "ⓛocalhost", "localhost.", "[::1]:1", "::1",
]  # fmt: skip
BAD_ORIGINS = [
    "null", "http://evil.example", "https://evil.example", "http://127.0.0.1", "http://localhost",
    "https://127.0.0.1:{port}", "http://127.0.0.1:1", "http://127.0.0.1:{port}.evil.example",
    "http://127.0.0.1:{port}/", "http://user@127.0.0.1:{port}", "file://", "", "127.0.0.1:{port}",
    "http://localhost:3000", "http://[::1]:1", "chrome-extension://abc", "http://evil@localhost",
    "*", "http://*",
]  # fmt: skip
PLACES = [
    ("POST", "/v1/tools/add/call"), ("GET", "/v1/tools"), ("GET", "/metrics"), ("GET", "/healthz"),
    ("GET", "/nowhere"), ("OPTIONS", "/v1/tools"), ("GET", "/docs"), ("POST", "/v1/reload"),
    ("DELETE", "/v1/sessions/x"), ("GET", "/v1/events"), ("HEAD", "/v1/tools"),
]  # fmt: skip


async def test_no_other_name_and_no_other_page_reaches_a_handler() -> None:
    async with gateway(guarded=False) as served:
        async with await served.connect() as wire:
            for verb, path in PLACES:
                body = {"arguments": {"a": 1, "b": 2}} if verb == "POST" else None
                for field, values, status in (
                    ("Host", BAD_HOSTS, 421),
                    ("Origin", BAD_ORIGINS, 403),
                ):
                    for value in values:
                        given = {field: value.format(port=served.port).encode().decode("latin-1")}
                        request = served.request(verb, path, body, who=None, headers=given)
                        await wire.send(request)
                        reply = await wire.reply(verb)
                        assert reply.status == status, (verb, path, field, value)
        assert not served.recorder.events


async def test_websockets_are_guarded_the_same_and_refused_in_plain_http() -> None:
    async with gateway(guarded=False) as served:
        for given, status, reason in (
            ({"Host": "evil.example"}, 421, "host_refused"),
            ({"Origin": "http://evil.example"}, 403, "origin_refused"),
            ({"Origin": "null"}, 403, "origin_refused"),
        ):
            reply = await served.ask("GET", "/v1/ws", who=None, headers={**HANDSHAKE, **given})
            assert (reply.status, reply.reason) == (status, reason)
        elsewhere = await served.ask("GET", "/v1/tools", who=None, headers=HANDSHAKE)
        assert (elsewhere.status, elsewhere.reason) == (404, "unknown_method")
        plain = await served.ask("GET", "/v1/ws", who=None)
        assert (plain.status, plain.reason) == (400, "not_a_request")


HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


async def test_a_websocket_needs_credentials_in_a_header_or_a_subprotocol() -> None:
    async with gateway() as served:
        refused = await served.ask("GET", "/v1/ws", who=None, headers=HANDSHAKE)
        assert (refused.status, refused.reason) == (401, "unauthenticated")
        named = {**HANDSHAKE, "Sec-WebSocket-Protocol": "toolcrib.v1, toolcrib.bearer.wrong-token"}
        assert (await served.ask("GET", "/v1/ws", who=None, headers=named)).status == 401
        good = {
            **HANDSHAKE,
            "Sec-WebSocket-Protocol": "toolcrib.v1, toolcrib.bearer.tcr_ci_0123456789abcdef",
        }
        for who, headers in (("ci", HANDSHAKE), (None, good)):
            async with await served.connect() as wire:
                await wire.send(served.request("GET", "/v1/ws", who=who, headers=headers))
                head = await asyncio.wait_for(wire.reader.readuntil(b"\r\n\r\n"), 5)
            assert head.startswith(b"HTTP/1.1 101")
            assert b"tcr_ci" not in head


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://127.0.0.1:{port}", "127.0.0.1:{port}"),
        ("http://localhost:{port}", "localhost:{port}"),
        ("http://[::1]:{port}", "[::1]:{port}"),
        ("HTTP://LOCALHOST:{port}", "LOCALHOST"),
        ("https://tools.example", "tools.example"),
        ("https://tools.example", "Tools.Example:{port}"),
        ("https://page.example", "127.0.0.1"),
    ],
    ids=["address", "name", "six", "capitals", "own-name", "own-name-port", "shared"],
)
async def test_its_own_pages_and_configured_ones_may_call(origin, host) -> None:
    settings = {"hosts": ("tools.example",), "origins": ("https://page.example",)}
    async with gateway(**settings) as served:
        given = {"Origin": origin.format(port=served.port), "Host": host.format(port=served.port)}
        reply = await served.call("add", {"a": 1, "b": 2}, headers=given)
        shared = reply.headers.get("access-control-allow-origin")
    assert reply.json()["output"] == 3
    assert shared == ("https://page.example" if origin == "https://page.example" else None)
    assert shared is None or "Origin" in reply.headers["vary"]


async def test_preflights_are_answered_for_configured_origins_only() -> None:
    async with gateway(origins=("https://page.example",)) as served:
        asks = {"Access-Control-Request-Method": "POST", "Origin": "https://page.example"}
        reply = await served.ask("OPTIONS", "/v1/tools/add/call", who=None, headers=asks)
        assert (reply.status, reply.headers["allow"]) == (204, "OPTIONS, POST")
        assert reply.headers["access-control-allow-origin"] == "https://page.example"
        assert "authorization" in reply.headers["access-control-allow-headers"]
        own = {**asks, "Origin": f"http://127.0.0.1:{served.port}"}
        plain = await served.ask("OPTIONS", "/v1/tools/add/call", who=None, headers=own)
    assert "access-control-allow-origin" not in plain.headers


async def test_a_cross_site_request_without_origin_reaches_no_method() -> None:
    async with gateway(guarded=False) as served:
        given = {"Sec-Fetch-Site": "cross-site"}
        refused = await served.ask("GET", "/v1/tools", who=None, headers=given)
        assert (refused.status, refused.reason) == (403, "origin_refused")
        assert (await served.ask("GET", "/docs", who=None, headers=given)).status == 200


async def test_who_comes_through_a_proxy_is_not_the_local_operator() -> None:
    async with gateway(guarded=False) as served:
        assert (await served.ask("GET", "/v1/info", who=None)).json()["principal"] == "local"
        for name in ("X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"):
            reply = await served.ask("GET", "/v1/info", who=None, headers={name: "192.0.2.7"})
            assert (reply.status, reply.reason) == (401, "unauthenticated"), name
            called = await served.call(
                "add", {"a": 1, "b": 2}, who=None, headers={name: "192.0.2.7"}
            )
            assert called.status == 401, name


class TestNames:
    def check(self, settings: HttpSettings, host: str | None, origin: str | None = None) -> str:
        head = {} if host is None else {b"host": host.encode()}
        if origin is not None:
            head[b"origin"] = origin.encode()
        scope = {"path": "/v1/tools", "server": ("192.0.2.5", 8700)}
        try:
            Guard(settings).check(head, scope)
        except Fault as fault:
            return fault.reason
        return "ok"

    def test_a_host_that_listens_everywhere_answers_to_the_address_that_was_reached(self) -> None:
        settings = HttpSettings(listen=(Listen(host="0.0.0.0", port=8700),))
        assert self.check(settings, "192.0.2.5:8700") == "ok"
        assert self.check(settings, "192.0.2.5") == "ok"
        assert self.check(settings, "localhost:8700") == "ok"
        assert self.check(settings, "192.0.2.6:8700") == "host_refused"
        assert self.check(settings, "evil.example:8700") == "host_refused"
        assert self.check(settings, "192.0.2.5:8700", "http://192.0.2.5:8700") == "ok"
        assert self.check(settings, "192.0.2.5:8700", "http://evil.example") == "origin_refused"

    def test_one_address_is_no_other(self) -> None:
        settings = HttpSettings(listen=(Listen(host="192.0.2.9", port=8700),))
        assert self.check(settings, "192.0.2.9:8700") == "ok"
        assert self.check(settings, "localhost:8700") == "host_refused"
        assert self.check(settings, "192.0.2.5:8700") == "host_refused"
        assert self.check(settings, None) == "host_refused"

    def test_tls_makes_plain_origins_foreign(self) -> None:
        settings = HttpSettings(tls=Tls(certificate="c", key="k"))
        assert self.check(settings, "localhost:8700", "https://localhost:8700") == "ok"
        assert self.check(settings, "localhost:8700", "http://localhost:8700") == "origin_refused"

    def test_a_configured_name_with_a_port_holds_for_that_port(self) -> None:
        settings = HttpSettings(hosts=("tools.example:444",))
        assert self.check(settings, "tools.example:444") == "ok"
        assert self.check(settings, "tools.example") == "host_refused"
        assert self.check(settings, "tools.example:8700") == "host_refused"


def test_a_header_that_decides_something_stands_once() -> None:
    for name in (b"host", b"authorization", b"content-length", b"origin", b"content-type"):
        with pytest.raises(Fault) as caught:
            read_head([(name, b"a"), (b"accept", b"x"), (name, b"a")])
        assert caught.value.reason == "not_a_request"
    assert read_head([(b"accept", b"a"), (b"accept", b"b")]) == {b"accept": b"b"}
