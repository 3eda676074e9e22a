"""`fetch`: pages from the web, under a policy."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from broad import broad_host
from loopback import Seen, Server, reply, reply_json, serve
from toolcrib import ConfigError, ToolHost, ToolResult
from toolcrib.testing import assert_denied
from toolcrib.tools.fetch import TEMPLATE, FetchPolicy

PAGE = """<!doctype html><html><head><title>The page</title></head><body>
<h1>Hello</h1><p>Read <a href="/more">more</a>.</p><script>alert(1)</script></body></html>"""
HTML = {"Content-Type": "text/html; charset=utf-8"}
TEXT = {"Content-Type": "text/plain"}

PATHS: dict[str, bytes] = {
    "/": reply(PAGE, headers=HTML),
    "/long": reply("0123456789" * 10, headers=TEXT),
    "/json": reply_json({"a": 1}),
    "/latin": reply(
        "caf\xe9".encode("latin-1"), headers={"Content-Type": "text/plain;charset=latin1"}
    ),
    "/meta": reply(
        '<html><meta charset="latin-1"><body>caf\xe9'.encode("latin-1"),
        headers={"Content-Type": "text/html"},
    ),
    "/bom": reply(b"\xff\xfec\x00a\x00f\x00\xe9\x00", headers=TEXT),
    "/untyped": reply("<html><body>hello"),
    "/binary": reply(b"\x89PNG\x00\x01", headers={"Content-Type": "image/png"}),
    "/liar": reply(b"MZ\x00\x01\x02", headers=TEXT),
    "/missing": reply("nothing here", 404, TEXT),
    "/empty": reply("", headers=TEXT),
    "/away": reply(status=302, headers={"Location": "http://169.254.169.254/latest"}),
    "/moved": reply(status=301, headers={"Location": "/"}),
}


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serve(lambda seen: PATHS[seen.path]) as made:
        yield made


Make = Callable[..., ToolHost]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    hosts: list[ToolHost] = []

    def build(profile: Any = None, **knobs: Any) -> ToolHost:
        hosts.append(broad_host(TEMPLATE, knobs, tmp_path, profile=profile))
        return hosts[-1]

    yield build
    for host in hosts:
        await host.stop()


async def get(host: ToolHost, url: str, **more: Any) -> ToolResult:
    return await host.call("fetch", {"url": url, **more})


async def test_a_page_becomes_text(make: Make, server: Server) -> None:
    output = (await get(make(allow_private=True), server.url + "/")).unwrap()
    assert output == {
        "url": server.url + "/",
        "content_type": "text/html",
        "title": "The page",
        "text": f"Hello\n\nRead more ({server.url}/more).",
    }


async def test_a_page_as_markdown_and_raw(make: Make, server: Server) -> None:
    host = make(allow_private=True)
    output = (await get(host, server.url + "/", format="markdown")).unwrap()
    assert output["text"] == f"# Hello\n\nRead [more]({server.url}/more)."
    assert (await get(host, server.url + "/", format="raw")).unwrap()["text"] == PAGE


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/json", '{"a": 1}'),
        ("/latin", "café"),
        ("/meta", "café"),
        ("/bom", "café"),
        ("/untyped", "hello"),
        ("/empty", ""),
        ("/moved", None),
    ],
)
async def test_documents_of_other_kinds(
    make: Make, server: Server, path: str, text: str | None
) -> None:
    output = (await get(make(allow_private=True), server.url + path)).unwrap()
    assert output["text"] == text or text is None
    assert output["url"] == server.url + ("/" if path == "/moved" else path)


async def test_a_long_document_is_read_in_parts(make: Make, server: Server) -> None:
    host = make(allow_private=True, max_chars=40)
    first = (await get(host, server.url + "/long")).unwrap()
    assert (
        first["text"]
        == "0123456789" * 4 + "… [cut: characters 0 to 40 of 100; go on with start=40]"
    )
    assert first["next_start"] == 40
    last = (await get(host, server.url + "/long", start=80)).unwrap()
    assert last["text"] == "0123456789" * 2
    assert "next_start" not in last
    beyond = await get(host, server.url + "/long", start=101)
    assert beyond.reason == "tool_error"
    assert (await get(host, server.url + "/long", start=-1)).reason == "invalid_arguments"


async def test_a_document_over_the_limit_is_cut_and_says_so(make: Make, server: Server) -> None:
    output = (await get(make(allow_private=True, max_bytes=30), server.url + "/long")).unwrap()
    assert output["text"].startswith("0123456789" * 3 + "… [cut: the document goes on")


@pytest.mark.parametrize("path", ["/binary", "/liar"])
async def test_what_is_not_text_is_refused(make: Make, server: Server, path: str) -> None:
    result = await get(make(allow_private=True), server.url + path)
    assert_denied(result, "content_type_not_allowed")


async def test_content_types_are_a_knob(make: Make, server: Server) -> None:
    host = make(allow_private=True, allowed_content_types=["application/json"])
    assert (await get(host, server.url + "/json")).status == "ok"
    assert_denied(await get(host, server.url + "/"), "content_type_not_allowed")


async def test_a_page_that_does_not_exist(make: Make, server: Server) -> None:
    result = await get(make(allow_private=True), server.url + "/missing")
    assert result.reason == "tool_error"
    assert result.error is not None
    assert (result.error.details["status"], result.error.details["body"]) == (404, "nothing here")


async def test_this_machine_is_out_of_reach_unless_said(make: Make, server: Server) -> None:
    host = make()
    assert_denied(await get(host, server.url + "/"), "address_not_public")
    localhost = f"http://localhost:{server.port}/"
    assert_denied(await get(host, localhost), "address_not_public")
    assert server.connections == 0


async def test_a_redirect_to_a_private_address_is_refused(make: Make, server: Server) -> None:
    result = await get(make(allow_private=["127.0.0.1/32"]), server.url + "/away")
    assert_denied(result, "address_not_public")


async def test_hosts_are_allowed_and_denied(make: Make, server: Server) -> None:
    host = make(allow_private=True, allowed_hosts=["*.example.com"])
    assert_denied(await get(host, server.url), "host_not_allowed")
    host = make(allow_private=True, denied_hosts=["127.0.0.1"])
    assert_denied(await get(host, server.url), "host_not_allowed")
    assert_denied(await get(make(allowed_hosts=[]), "https://example.com/"), "host_not_allowed")
    https = make(allow_private=True, allowed_schemes=["https"])
    assert_denied(await get(https, server.url), "url_not_allowed")
    assert server.connections == 0


async def test_the_policy_of_the_profile_is_the_one_in_force(make: Make, server: Server) -> None:
    profile = {
        "rules": [{"allow": "fetch"}],
        "policies": {"fetch": {"allowed_hosts": ["127.0.0.1"], "max_chars": 5}},
    }
    host = make(profile, allow_private=True)
    assert (await get(host, server.url + "/long")).unwrap()["next_start"] == 5
    assert_denied(await get(host, f"http://localhost:{server.port}/"), "host_not_allowed")


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "http://127.1/", "http://u:p@example.com/", "example.com", ""]
)
async def test_explain_says_what_the_call_would_say(make: Make, url: str) -> None:
    host = make()
    explained = host.explain("fetch", {"url": url})
    assert (explained.verdict, explained.reason) == ("deny", "url_not_allowed")
    assert_denied(await get(host, url), "url_not_allowed")


def test_a_policy_says_what_it_allows() -> None:
    assert FetchPolicy().allowed_effects() == {"read", "egress"}


@pytest.mark.parametrize(
    ("knobs", "key"),
    [
        ({"allowed_hosts": ["https://example.com"]}, "allowed_hosts"),
        ({"denied_hosts": ["a b"]}, "denied_hosts"),
        ({"allow_private": ["10.0.0.0/99"]}, "allow_private"),
        ({"allowed_schemes": ["ftp"]}, "allowed_schemes"),
        ({"max_bytes": "many"}, "max_bytes"),
        ({"timeout": "soon"}, "timeout"),
        ({"timeout": 0}, "timeout"),
        ({"max_chars": 0}, "max_chars"),
        ({"allowed_host": []}, "allowed_host"),
    ],
)
def test_a_wrong_policy_is_refused_when_it_is_built(knobs: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as raised:
        FetchPolicy(**knobs)
    assert raised.value.key == key


async def test_no_credentials_are_sent(make: Make) -> None:
    seen: list[Seen] = []

    def answer(request: Seen) -> bytes:
        seen.append(request)
        return reply("x", headers={**TEXT, "Set-Cookie": "a=b"})

    async with serve(answer) as server:
        host = make(allow_private=True)
        await get(host, server.url)
        await get(host, server.url)
    assert all(not {"cookie", "authorization"} & s.headers.keys() for s in seen)


def test_without_the_library_there_is_no_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(ConfigError, match=r"pip install 'toolcrib\[http\]'"):
        ToolHost([TEMPLATE])
