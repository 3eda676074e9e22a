"""Places that an upstream names: which of them are asked, and how much is read there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from authority import Guarded, ask
from loopback import names, reply, reply_json, serve
from toolcrib.errors import ConfigError
from toolcrib.net.addresses import PUBLIC_ONLY, private_from
from toolcrib.net.client import Client
from toolcrib.net.url import parse_url
from toolcrib.providers.mcp.oauth.asking import Asker, is_loopback
from toolcrib.providers.mcp.oauth.faults import OAuthFailed
from toolcrib.providers.mcp.oauth.source import OAuth

Sign = Callable[..., OAuth]
FAR = parse_url("https://up.test/mcp")


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/x",
        "https://[::1]/x",
        "https://10.0.0.1/x",
        "https://169.254.169.254/latest/meta-data",
        "https://[fd00:ec2::254]/x",
        "http://as.test/x",
        "http://93.184.215.14/x",
        "ftp://as.test/x",
        "https://user:word@as.test/x",
        "//as.test/x",
    ],
)
def test_what_a_far_upstream_may_not_name(url: str) -> None:
    with pytest.raises(OAuthFailed, match="the token_endpoint cannot be used"):
        Asker(Client(), FAR, PUBLIC_ONLY).url(url, "the token_endpoint")


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fe80::1"])
async def test_a_name_that_leads_inside_is_not_asked(address: str) -> None:
    async with names(**{"as": [address]}) as client:
        asker = Asker(client, FAR, PUBLIC_ONLY)
        with pytest.raises(OAuthFailed, match="not public"):
            await asker.get(parse_url("https://as.test/.well-known/openid-configuration"))
        with pytest.raises(OAuthFailed, match="not public"):
            await asker.post(parse_url("https://as.test/token"), {}, b"secret")


async def test_an_upstream_on_this_machine_may_name_places_here_but_none_beyond() -> None:
    here = parse_url("http://127.0.0.1:5/mcp")
    async with Client() as client, serve(lambda seen: reply_json({})) as server:
        asker = Asker(client, here, PUBLIC_ONLY)
        assert (await asker.get(asker.url(f"{server.url}/x", "it"))).status == 200
        for url in ("https://10.0.0.1/x", "http://as.test/x", "https://169.254.169.254/x"):
            with pytest.raises(OAuthFailed):
                asker.url(url, "it")


def test_a_private_upstream_may_name_private_places_over_https() -> None:
    asker = Asker(Client(), parse_url("https://10.1.1.1/mcp"), private_from(["10.0.0.0/8"]))
    assert asker.url("https://10.2.2.2/token", "it").host == "10.2.2.2"
    for url in ("http://10.2.2.2/token", "https://192.168.0.1/token", "https://127.0.0.1/token"):
        with pytest.raises(OAuthFailed):
            asker.url(url, "it")


@pytest.mark.parametrize(
    "location",
    ["http://10.0.0.1/x", "http://as.test/x", "https://169.254.169.254/x", "file:///etc/passwd"],
)
async def test_a_redirect_is_looked_at_like_the_first_place(
    up: Guarded, sign: Sign, location: str
) -> None:
    place = "/.well-known/oauth-authorization-server"
    up.authority.documents[place] = reply(status=302, headers={"Location": location})
    with pytest.raises(OAuthFailed, match=r"refused|not public"):
        await ask(sign(), up.url)


async def test_documents_may_move_within_reason(up: Guarded, sign: Sign) -> None:
    place = "/.well-known/oauth-authorization-server"
    up.authority.documents["/moved"] = reply_json(up.authority.described())
    up.authority.documents[place] = reply(status=302, headers={"Location": "/moved"})
    assert await ask(sign(), up.url) == 200
    up.authority.documents["/moved"] = reply(status=302, headers={"Location": "/moved"})
    with pytest.raises(OAuthFailed, match="redirected more than 3 times"):
        await sign().login()


@pytest.mark.parametrize("status", [302, 307, 308])
async def test_secrets_are_not_sent_on(up: Guarded, sign: Sign, status: int) -> None:
    async with serve(lambda seen: reply_json({"access_token": "a", "token_type": "b"})) as evil:
        moved = reply(status=status, headers={"Location": f"{evil.url}/token"})
        up.authority.documents["/token"] = moved
        with pytest.raises(OAuthFailed, match="redirect"):
            await ask(sign(), up.url)
        assert evil.seen == []


@pytest.mark.parametrize(
    ("where", "path"),
    [
        ("up", "/.well-known/oauth-protected-resource/mcp"),
        ("as", "/.well-known/oauth-authorization-server"),
        ("as", "/register"),
        ("as", "/token"),
    ],
    ids=["resource", "server", "register", "token"],
)
async def test_what_is_too_large_is_not_read_to_its_end(
    up: Guarded, sign: Sign, where: str, path: str
) -> None:
    large = reply(b'{"a": "' + b"x" * 400_000 + b'"}', 200, {"Content-Type": "application/json"})
    (up.documents if where == "up" else up.authority.documents)[path] = large
    with pytest.raises(OAuthFailed, match="more than 262144 bytes"):
        await ask(sign(), up.url)


@pytest.mark.parametrize(
    "said",
    [b"", b"[]", b"null", b"{", b'{"a": NaN}', b"\xff", b'"text"', b'{"issuer": 1, "issuer": 2}'],
)
async def test_garbage_is_no_metadata(up: Guarded, sign: Sign, said: bytes) -> None:
    up.authority.documents["/.well-known/oauth-authorization-server"] = reply(said)
    with pytest.raises(OAuthFailed, match="publishes no metadata"):
        await ask(sign(), up.url)


@pytest.mark.parametrize("member", ["token_endpoint", "registration_endpoint"])
@pytest.mark.parametrize("value", [5, "", "nonsense", "http://as.test/x"])
async def test_endpoints_are_looked_at_before_they_are_used(
    up: Guarded, sign: Sign, member: str, value: Any
) -> None:
    up.authority.metadata[member] = value
    with pytest.raises(OAuthFailed, match=member):
        await ask(sign(), up.url)
    assert up.authority.asked == []


async def test_a_hint_that_leads_inside_is_not_followed(up: Guarded, sign: Sign) -> None:
    up.challenge["resource_metadata"] = "https://169.254.169.254/latest"
    with pytest.raises(OAuthFailed, match="resource_metadata cannot be used"):
        await ask(sign(), up.url)


async def test_tokens_never_travel_in_the_clear(sign: Sign) -> None:
    with pytest.raises(ConfigError, match="is not secure"):
        sign(url="http://up.example/mcp")


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost.example", False),
        ("127.0.0.1.example", False),
        ("10.0.0.1", False),
    ],
)
def test_what_this_machine_is_called(host: str, here: bool) -> None:
    assert is_loopback(host) is here
