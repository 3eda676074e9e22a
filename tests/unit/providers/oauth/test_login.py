"""Logging in: who is asked, what is sent, and which answers are believed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import aiohttp
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from authority import Authority, Guarded, ask, browse, guarded, nobody, oauth_of
from loopback import reply, reply_json, serve
from toolcrib.errors import ConfigError, ToolFailure
from toolcrib.providers.mcp.oauth.faults import LoginNeeded, OAuthFailed
from toolcrib.providers.mcp.oauth.source import OAuth

Sign = Callable[..., OAuth]


async def test_a_person_logs_in_and_the_request_goes_through(up: Guarded, sign: Sign) -> None:
    oauth = sign()
    assert await ask(oauth, up.url) == 200
    [form] = up.authority.requests
    [asked] = up.authority.asked
    assert form["grant_type"] == "authorization_code"
    assert form["resource"] == asked["resource"] == up.url
    assert asked["redirect_uri"].startswith("http://127.0.0.1:")
    assert len(asked["state"]) > 40
    assert up.bearers[0] == ""
    assert oauth.identity == f"{up.authority.issuer} {form['client_id']}"


async def test_without_a_person_the_words_say_what_to_run(up: Guarded, sign: Sign) -> None:
    with pytest.raises(LoginNeeded, match="run: toolcrib auth login up") as caught:
        await ask(sign(show=None), up.url)
    assert caught.value.reason == "tool_unavailable"
    assert up.authority.clients == {}


async def test_a_login_is_found_by_whoever_comes_later(up: Guarded, sign: Sign) -> None:
    await sign().login()
    gateway = sign(show=None)
    assert await ask(gateway, up.url) == 200
    assert up.authority.count("authorization_code") == 1


async def test_a_running_one_notices_a_login_that_was_made_elsewhere(
    up: Guarded, sign: Sign
) -> None:
    gateway = sign(show=None)
    with pytest.raises(LoginNeeded):
        await ask(gateway, up.url)
    await sign().login()
    # The challenge looks at the file at once; requests do so twice a second.
    assert await ask(gateway, up.url) == 200


async def test_a_second_login_is_the_same_client(up: Guarded, sign: Sign) -> None:
    await sign().login()
    await sign().login()
    assert len(up.authority.clients) == 1
    first, second = up.authority.asked
    assert first["redirect_uri"] == second["redirect_uri"]
    assert first["state"] != second["state"]
    assert first["code_challenge"] != second["code_challenge"]


async def test_another_port_is_another_registration(up: Guarded, sign: Sign) -> None:
    await sign().login()
    async with serve(lambda seen: reply()) as taken:
        free = taken.port
    await sign(redirect_port=free).login()
    assert len(up.authority.clients) == 2
    assert urlsplit(up.authority.asked[1]["redirect_uri"]).port == free


async def test_a_taken_port_is_said(up: Guarded, sign: Sign) -> None:
    with pytest.raises(ConfigError, match=f"port {up.server.port} cannot be listened on"):
        await sign(redirect_port=up.server.port).login()


# Who we are.


async def test_a_document_about_the_client_takes_the_place_of_registration(
    up: Guarded, sign: Sign
) -> None:
    up.authority.metadata["client_id_metadata_document_supported"] = True
    where = "https://client.example/toolcrib.json"
    assert await ask(sign(client_metadata_url=where), up.url) == 200
    assert up.authority.clients == {}
    assert up.authority.asked[0]["client_id"] == where


async def test_a_server_that_takes_no_documents_gets_a_registration(
    up: Guarded, sign: Sign
) -> None:
    assert await ask(sign(client_metadata_url="https://client.example/a.json"), up.url) == 200
    assert len(up.authority.clients) == 1


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_a_configured_client_shows_its_secret_as_the_server_wants(
    up: Guarded, sign: Sign, method: str, tmp_path: Path
) -> None:
    up.authority.metadata["token_endpoint_auth_methods_supported"] = [method]
    up.authority.metadata["registration_endpoint"] = None
    secret = "s:e&c r%41t"
    up.authority.clients["m y:id"] = {
        "token_endpoint_auth_method": method,
        "client_secret": secret,
        "redirect_uris": ["http://127.0.0.1:0/callback"],
    }
    oauth = sign(client_id="m y:id", client_secret=secret, show=None)
    flow = sign(client_id="m y:id", client_secret=secret, flow="client_credentials")
    with pytest.raises(LoginNeeded):
        await ask(oauth, up.url)
    assert await ask(flow, up.url) == 200
    assert up.authority.requests[0]["grant_type"] == "client_credentials"


async def test_token_auth_overrules_what_the_server_says(up: Guarded, sign: Sign) -> None:
    up.authority.clients["me"] = {
        "token_endpoint_auth_method": "client_secret_post",
        "client_secret": "word",
    }
    given = {"client_id": "me", "client_secret": "word", "flow": "client_credentials"}
    with pytest.raises(OAuthFailed, match="invalid_client"):
        await ask(sign(**given), up.url)
    assert await ask(sign(**given, token_auth="post"), up.url) == 200


async def test_a_client_that_signs_needs_no_secret(up: Guarded, sign: Sign, tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (tmp_path / "key.pem").write_bytes(pem)
    up.authority.keys["me"] = key.public_key()
    oauth = sign(flow="client_credentials", client_id="me", private_key_file="key.pem")
    assert await ask(oauth, up.url) == 200
    assert "client_secret" not in up.authority.requests[0]


async def test_a_key_of_another_kind_is_said(up: Guarded, sign: Sign) -> None:
    oauth = sign(flow="client_credentials", client_id="me", private_key="no key")
    with pytest.raises(OAuthFailed, match="private_key cannot sign by ES256"):
        await ask(oauth, up.url)


async def test_a_client_that_may_not_register_says_what_is_missing(up: Guarded, sign: Sign) -> None:
    with pytest.raises(OAuthFailed, match=r"auth\.client_id"):
        await ask(sign(registration="never"), up.url)
    assert up.authority.clients == {}


async def test_a_registration_that_is_refused_is_said(up: Guarded, sign: Sign) -> None:
    up.authority.documents["/register"] = reply_json({"error": "invalid_redirect_uri"}, 400)
    with pytest.raises(OAuthFailed, match=r"did not register Toolcrib.*invalid_redirect_uri"):
        await ask(sign(), up.url)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"client_id": ""},
        {"client_id": 5},
        {"client_id": "a", "token_endpoint_auth_method": "x"},
    ],
    ids=["nothing", "empty", "number", "method"],
)
async def test_a_registration_that_says_nothing_usable_is_refused(
    up: Guarded, sign: Sign, answer: Any
) -> None:
    up.authority.documents["/register"] = reply_json(answer, 201)
    with pytest.raises(OAuthFailed):
        await ask(sign(), up.url)
    assert up.authority.asked == []


# Which answers are believed.


async def test_an_answer_with_another_state_is_turned_away_and_the_wait_goes_on(
    up: Guarded, sign: Sign
) -> None:
    statuses: list[int] = []

    async def attacked(url: str) -> None:
        place = parse_qs(urlsplit(url).query)["redirect_uri"][0]
        async with aiohttp.ClientSession() as session:
            for query in ({"code": "evil"}, {"code": "evil", "state": "guessed"}):
                async with session.get(f"{place}?{urlencode(query)}") as answer:
                    statuses.append(answer.status)
        await browse(url)

    assert await ask(sign(show=attacked), up.url) == 200
    assert statuses == [400, 400]
    assert [form["code"] == "evil" for form in up.authority.requests] == [False]


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/callback", {"Host": "evil.example"}, 400),
        ("/elsewhere", {}, 404),
        ("/callback/../callback2", {}, 404),
    ],
    ids=["host", "path", "dots"],
)
async def test_only_the_address_that_was_registered_is_answered(
    up: Guarded, sign: Sign, path: str, headers: dict[str, str], status: int
) -> None:
    statuses: list[int] = []

    async def attacked(url: str) -> None:
        query = parse_qs(urlsplit(url).query)
        place = query["redirect_uri"][0].removesuffix("/callback")
        said = urlencode({"code": "evil", "state": query["state"][0], "iss": up.authority.issuer})
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{place}{path}?{said}", headers=headers) as answer,
        ):
            statuses.append(answer.status)
        await browse(url)

    assert await ask(sign(show=attacked), up.url) == 200
    assert statuses == [status]


async def test_parameters_that_stand_twice_are_turned_away(up: Guarded, sign: Sign) -> None:
    async def doubled(url: str) -> None:
        query = parse_qs(urlsplit(url).query)
        said = f"code=a&code=b&state={query['state'][0]}&iss={up.authority.issuer}"
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{query['redirect_uri'][0]}?{said}") as answer,
        ):
            assert answer.status == 400

    with pytest.raises(OAuthFailed, match="nobody logged in within 0 s"):
        await ask(sign(show=doubled, patience=0.05), up.url)
    assert up.authority.requests == []


async def test_the_listener_is_gone_after_the_login(up: Guarded, sign: Sign) -> None:
    assert await ask(sign(), up.url) == 200
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(up.authority.asked[0]["redirect_uri"])


async def test_a_person_who_never_answers_ends_the_wait(up: Guarded, sign: Sign) -> None:
    with pytest.raises(OAuthFailed, match="nobody logged in"):
        await ask(sign(show=nobody, patience=0.05), up.url)


@pytest.mark.parametrize(
    ("advertised", "said", "good"),
    [
        (True, "right", True),
        (True, None, False),
        (True, "wrong", False),
        (None, None, True),
        (None, "right", True),
        (None, "wrong", False),
        (True, "slash", False),
        (None, "slash", False),
    ],
    ids=lambda value: str(value),
)
async def test_an_answer_comes_from_the_server_that_was_asked(
    up: Guarded, sign: Sign, advertised: bool | None, said: str | None, good: bool
) -> None:
    issuer = up.authority.issuer
    spelled = {"right": issuer, "wrong": "https://evil.example", "slash": f"{issuer}/"}
    up.authority.metadata["authorization_response_iss_parameter_supported"] = advertised
    up.authority.answer["iss"] = spelled[said] if said else None
    if good:
        assert await ask(sign(), up.url) == 200
        return
    with pytest.raises(OAuthFailed, match="the answer does not"):
        await ask(sign(), up.url)
    assert up.authority.requests == []


async def test_an_error_is_said_but_not_one_of_another_server(up: Guarded, sign: Sign) -> None:
    up.authority.answer.update({"error": "access_denied", "code": None})
    with pytest.raises(OAuthFailed, match="access_denied"):
        await ask(sign(), up.url)
    up.authority.answer["iss"] = "https://evil.example"
    with pytest.raises(OAuthFailed) as caught:
        await ask(sign(), up.url)
    assert "access_denied" not in str(caught.value)


# Who is asked.


@pytest.mark.parametrize("methods", [None, [], ["plain"]], ids=["unsaid", "none", "plain"])
async def test_a_server_without_proof_of_codes_is_refused(
    up: Guarded, sign: Sign, methods: Any
) -> None:
    up.authority.metadata["code_challenge_methods_supported"] = methods
    with pytest.raises(OAuthFailed, match="PKCE"):
        await ask(sign(), up.url)
    assert up.authority.asked == []


@pytest.mark.parametrize(
    "resource",
    ["https://evil.example/mcp", "{origin}/other", "{origin}/mc", "{url}#a", "{url}?a", None, 5],
    ids=["host", "path", "part", "fragment", "query", "none", "number"],
)
async def test_metadata_about_another_resource_is_not_used(
    up: Guarded, sign: Sign, resource: Any
) -> None:
    if isinstance(resource, str):
        resource = resource.format(origin=up.server.url, url=up.url)
    up.metadata["resource"] = resource
    with pytest.raises(OAuthFailed, match="it is not used"):
        await ask(sign(), up.url)
    assert up.authority.server.seen == []


async def test_a_token_is_asked_for_the_resource_that_the_upstream_names(
    up: Guarded, sign: Sign
) -> None:
    up.metadata["resource"] = up.server.url
    await sign().login()
    assert up.authority.requests[0]["resource"] == up.server.url


async def test_metadata_of_another_issuer_is_not_used(up: Guarded, sign: Sign) -> None:
    up.authority.metadata["issuer"] = "https://honest.example"
    with pytest.raises(OAuthFailed, match="is about another issuer"):
        await ask(sign(), up.url)
    assert {seen.path for seen in up.authority.server.seen} == {
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
    }


async def test_the_codes_of_one_server_never_reach_another(up: Guarded, sign: Sign) -> None:
    """The mix-up: the honest server's pages, but the token endpoint of somebody else."""
    evil = Authority()
    async with serve(evil.handle) as evil.server:
        evil.metadata["authorization_endpoint"] = f"{up.authority.issuer}/authorize"
        evil.metadata["registration_endpoint"] = f"{up.authority.issuer}/register"
        up.metadata["authorization_servers"] = [evil.issuer]
        with pytest.raises(OAuthFailed, match="does not come from"):
            await ask(sign(), up.url)
        assert evil.requests == []


@pytest.mark.parametrize(
    "endpoint",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "http://as.example/authorize",
        "https://10.0.0.1/authorize",
        "{issuer}/authorize?redirect_uri=http://evil.example",
        "{issuer}/authorize?state=x",
        5,
    ],
    ids=["script", "file", "http", "private", "redirect", "state", "number"],
)
async def test_an_address_for_the_browser_is_looked_at_first(
    up: Guarded, sign: Sign, endpoint: Any
) -> None:
    if isinstance(endpoint, str):
        endpoint = endpoint.format(issuer=up.authority.issuer)
    up.authority.metadata["authorization_endpoint"] = endpoint
    shown: list[str] = []

    async def show(url: str) -> None:
        shown.append(url)

    with pytest.raises(OAuthFailed, match="authorization_endpoint"):
        await ask(sign(show=show, patience=0.05), up.url)
    assert shown == []


async def test_a_query_of_the_endpoint_stays(up: Guarded, sign: Sign) -> None:
    endpoint = f"{up.authority.issuer}/authorize?tenant=7"
    up.authority.metadata["authorization_endpoint"] = endpoint
    assert await ask(sign(), up.url) == 200
    assert up.authority.asked[0]["tenant"] == "7"


async def test_only_the_configured_issuer_is_used(up: Guarded, sign: Sign) -> None:
    with pytest.raises(OAuthFailed, match=r"auth\.issuer is https://mine\.example"):
        await ask(sign(issuer="https://mine.example"), up.url)
    assert up.authority.server.seen == []
    assert await ask(sign(issuer=up.authority.issuer), up.url) == 200


# Where things are found.


async def test_metadata_is_found_without_a_hint_first_by_path_then_at_the_root(
    up: Guarded, sign: Sign
) -> None:
    up.challenge["resource_metadata"] = None
    assert await ask(sign(), up.url) == 200
    place = "/.well-known/oauth-protected-resource"
    up.documents[f"{place}/mcp"] = reply(status=404)
    up.documents[place] = reply_json(up.described())
    await sign().login()
    seen = [each.path for each in up.server.seen if each.path.startswith(place)]
    assert seen == [f"{place}/mcp", f"{place}/mcp", place]


async def test_an_issuer_with_a_path_is_looked_for_in_three_places(up: Guarded, sign: Sign) -> None:
    issuer = f"{up.authority.issuer}/tenant"
    up.metadata["authorization_servers"] = [issuer]
    up.authority.metadata["issuer"] = issuer
    up.authority.answer["iss"] = issuer
    last = "/tenant/.well-known/openid-configuration"
    up.authority.documents[last] = reply_json(up.authority.described())
    assert await ask(sign(), up.url) == 200
    assert [seen.path for seen in up.authority.server.seen][:3] == [
        "/.well-known/oauth-authorization-server/tenant",
        "/.well-known/openid-configuration/tenant",
        last,
    ]


async def test_a_server_of_the_first_revision_is_its_own_authority(tmp_path: Path) -> None:
    """2025-03-26: no metadata at all, and the usual paths."""
    async with guarded() as up:
        lone = up.authority
        lone.server = up.server
        lone.answer["iss"] = None
        own = up.handle

        def both(seen: Any) -> Any:
            if seen.path.startswith("/.well-known"):
                return reply(status=404)
            return own(seen) if seen.path == "/mcp" else lone.handle(seen)

        up.challenge["resource_metadata"] = None
        async with serve(both) as up.server:
            lone.server = up.server
            oauth = oauth_of(tmp_path, up.url)
            assert await ask(oauth, up.url) == 200
            await oauth.aclose()


async def test_metadata_at_the_root_of_the_first_revision_is_about_the_upstream(
    up: Guarded, sign: Sign
) -> None:
    up.challenge["resource_metadata"] = None
    up.documents["/.well-known/oauth-protected-resource/mcp"] = reply(status=404)
    said = {**up.authority.described(), "issuer": "https://honest.example"}
    up.documents["/.well-known/oauth-authorization-server"] = reply_json(said)
    with pytest.raises(OAuthFailed, match="is about another issuer"):
        await ask(sign(), up.url)


# What is asked for.


async def test_the_scopes_of_the_challenge_come_first(up: Guarded, sign: Sign) -> None:
    up.metadata["scopes_supported"] = ["a", "b"]
    await sign().login()
    assert up.authority.asked[0]["scope"] == "a b"
    up.challenge["scope"] = "c"
    await sign().login()
    # What was granted before is kept.
    assert up.authority.asked[1]["scope"] == "a b c"


async def test_no_scope_is_asked_for_where_none_is_known(up: Guarded, sign: Sign) -> None:
    up.authority.metadata["scopes_supported"] = ["offline_access"]
    await sign().login()
    assert "scope" not in up.authority.asked[0]


async def test_a_refresh_token_is_asked_for_where_the_server_knows_how(
    up: Guarded, sign: Sign
) -> None:
    up.metadata["scopes_supported"] = ["a"]
    up.authority.metadata["scopes_supported"] = ["a", "offline_access"]
    await sign().login()
    assert up.authority.asked[0]["scope"] == "a offline_access"


@pytest.mark.parametrize(
    "grant",
    [
        {"access_token": ""},
        {"access_token": "a b"},
        {"access_token": "a\r\nX: y"},
        {"access_token": 5},
        {"token_type": "DPoP"},
        {"token_type": None},
    ],
    ids=["none", "space", "line", "number", "dpop", "untyped"],
)
async def test_a_token_that_cannot_be_used_is_refused(
    up: Guarded, sign: Sign, grant: dict[str, Any]
) -> None:
    up.authority.grant.update(grant)
    with pytest.raises(OAuthFailed, match="no token was granted"):
        await ask(sign(), up.url)


async def test_what_a_server_says_about_a_refusal_is_not_repeated(up: Guarded, sign: Sign) -> None:
    up.authority.clients["me"] = {
        "token_endpoint_auth_method": "client_secret_basic",
        "client_secret": "other",
    }
    echo = {"error": "invalid_client", "error_description": "the secret word is wrong"}
    up.authority.documents["/token"] = reply_json(echo, 401)
    oauth = sign(flow="client_credentials", client_id="me", client_secret="word")
    with pytest.raises(ToolFailure) as caught:
        await ask(oauth, up.url)
    assert "invalid_client" in caught.value.message
    assert "word" not in caught.value.message
