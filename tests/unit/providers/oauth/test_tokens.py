"""Tokens that end, are refused, or are not enough."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import toolcrib
from authority import Authority, Guarded, Lent, ask, browse
from loopback import reply, serve
from toolcrib.errors import ToolFailure
from toolcrib.providers.mcp.oauth import source
from toolcrib.providers.mcp.oauth.build import oauth_for
from toolcrib.providers.mcp.oauth.faults import LoginNeeded, OAuthFailed
from toolcrib.providers.mcp.oauth.source import OAuth
from toolcrib.providers.mcp.oauth.vault import Vault

Sign = Callable[..., OAuth]
SOON = 1
"""Seconds that a token lasts that is renewed at once: half of them is the margin."""


class Later:
    """The clock of the tokens, moved on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now, self._since = source.time.time, 0.0
        for module in ("source", "granting", "login"):
            monkeypatch.setattr(f"toolcrib.providers.mcp.oauth.{module}.time", self)

    def time(self) -> float:
        return self._now() + self._since

    def monotonic(self) -> float:
        return self._since

    def move(self, seconds: float) -> None:
        self._since += seconds


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Later:
    return Later(monkeypatch)


async def test_a_token_is_renewed_before_it_ends(up: Guarded, sign: Sign, later: Later) -> None:
    oauth = sign(show=browse)
    assert await ask(oauth, up.url) == 200
    later.move(3500)
    assert await ask(oauth, up.url) == 200
    assert up.authority.count("refresh_token") == 0
    later.move(80)
    assert await ask(oauth, up.url) == 200
    assert up.authority.count("refresh_token") == 1
    assert len(set(up.bearers)) == 3  # none, the first, the second
    assert up.authority.count("authorization_code") == 1


async def test_a_refresh_asks_for_the_same_resource(up: Guarded, sign: Sign, later: Later) -> None:
    oauth = sign()
    await oauth.login()
    later.move(4000)
    await oauth.headers()
    assert up.authority.requests[-1]["resource"] == up.url


async def test_a_refresh_token_that_is_not_replaced_counts_on(
    up: Guarded, sign: Sign, later: Later
) -> None:
    oauth = sign()
    await oauth.login()
    first = oauth.kept().tokens
    assert first is not None
    up.authority.grant["refresh_token"] = None
    later.move(4000)
    await oauth.headers()
    second = oauth.kept().tokens
    assert second is not None
    assert second.refresh_token == first.refresh_token
    assert second.access_token != first.access_token


async def test_many_callers_wait_for_one_refresh(up: Guarded, sign: Sign, later: Later) -> None:
    await sign().login()
    gateway = sign(show=None)
    later.move(4000)
    made = await asyncio.gather(*(gateway.headers() for _ in range(20)))
    assert len({headers["Authorization"] for headers in made}) == 1
    assert up.authority.count("refresh_token") == 1


async def test_two_that_share_the_files_use_a_refresh_token_once(
    up: Guarded, sign: Sign, later: Later
) -> None:
    await sign().login()
    one, other = sign(show=None), sign(show=None)
    await asyncio.gather(one.headers(), other.headers())
    later.move(4000)
    first, second = await asyncio.gather(one.headers(), other.headers())
    assert first == second
    assert up.authority.stolen == 0
    assert up.authority.count("refresh_token") == 1


async def test_processes_use_a_refresh_token_once(up: Guarded, sign: Sign, tmp_path: Path) -> None:
    up.authority.grant["expires_in"] = SOON
    await sign().login()
    up.authority.grant["expires_in"] = 3600
    await asyncio.sleep(SOON)
    code = (
        "import asyncio, pathlib, sys\n"
        "from toolcrib.providers.mcp.oauth.build import oauth_for\n"
        "class Lent:\n"
        "    hidden = guarded = ()\n"
        "    folder = pathlib.Path(sys.argv[1])\n"
        "    keep_secret = staticmethod(lambda text: None)\n"
        "async def main():\n"
        "    auth = {'type': 'oauth'}\n"
        "    oauth = oauth_for('up', {'url': sys.argv[2], 'auth': auth}, Lent())\n"
        "    print((await oauth.headers())['Authorization'])\n"
        "    await oauth.aclose()\n"
        "asyncio.run(main())\n"
    )
    path = str(Path(toolcrib.__file__).parents[1])
    started = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, str(tmp_path), up.url,
            stdout=subprocess.PIPE, env={"PYTHONPATH": path},
        )
        for _ in range(3)
    ]  # fmt: skip
    said = [(await each.communicate())[0] for each in started]
    assert [each.returncode for each in started] == [0, 0, 0]
    assert len(set(said)) == 1
    assert up.authority.stolen == 0
    assert up.authority.count("refresh_token") == 1


async def test_a_caller_that_gives_up_loses_no_login(up: Guarded, sign: Sign, later: Later) -> None:
    await sign().login()
    gateway, other = sign(show=None), sign(show=None)
    up.authority.came.clear()
    later.move(4000)
    waiting = asyncio.create_task(gateway.headers())
    await up.authority.came.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await gateway.aclose()
    assert await ask(other, up.url) == 200
    assert up.authority.stolen == 0


async def test_an_ended_token_without_a_refresh_token_is_not_sent(
    up: Guarded, sign: Sign, later: Later
) -> None:
    up.authority.grant["refresh_token"] = None
    await sign().login()
    gateway = sign(show=None)
    assert await ask(gateway, up.url) == 200
    later.move(4000)
    before = len(up.bearers)
    with pytest.raises(LoginNeeded, match="the login has ended; run: toolcrib auth login up"):
        await ask(gateway, up.url)
    assert len(up.bearers) == before


async def test_a_refresh_token_that_is_refused_is_not_tried_again(
    up: Guarded, sign: Sign, later: Later
) -> None:
    await sign().login()
    up.authority.refreshes.clear()
    gateway = sign(show=None)
    later.move(4000)
    for _ in range(3):
        with pytest.raises(LoginNeeded):
            await ask(gateway, up.url)
        later.move(1)
    assert up.authority.count("refresh_token") == 1


async def test_a_token_endpoint_that_is_down_for_a_moment_costs_nothing_while_the_token_lasts(
    up: Guarded, sign: Sign, later: Later
) -> None:
    await sign().login()
    gateway = sign(show=None)
    up.authority.documents["/token"] = reply(status=503)
    later.move(3590)
    assert await ask(gateway, up.url) == 200
    later.move(20)
    with pytest.raises(OAuthFailed, match="status 503"):
        await ask(gateway, up.url)
    del up.authority.documents["/token"]
    assert await ask(gateway, up.url) == 200
    assert up.authority.count("authorization_code") == 1


async def test_a_token_that_is_refused_is_renewed(up: Guarded, sign: Sign, later: Later) -> None:
    await sign().login()
    gateway = sign(show=None)
    assert await ask(gateway, up.url) == 200
    later.move(100)
    up.refused.add(up.bearers[-1])
    assert await ask(gateway, up.url) == 200
    assert up.authority.count("refresh_token") == 1


async def test_a_token_that_was_never_good_is_not_replaced_again_and_again(
    up: Guarded, sign: Sign
) -> None:
    oauth = sign()
    up.metadata["resource"] = up.server.url  # tokens for that are not taken here
    assert await ask(oauth, up.url) == 401
    assert await ask(oauth, up.url) == 401
    assert len(up.authority.requests) == 1


async def test_of_many_refused_at_once_one_renews_and_the_others_use_it(
    up: Guarded, sign: Sign, later: Later
) -> None:
    await sign().login()
    gateway = sign(show=None)
    assert await ask(gateway, up.url) == 200
    later.move(100)
    up.refused.add(up.bearers[-1])
    assert set(await asyncio.gather(*(ask(gateway, up.url) for _ in range(10)))) == {200}
    assert up.authority.count("refresh_token") == 1


@pytest.mark.parametrize("status", [400, 403, 404, 500])
async def test_other_refusals_are_not_about_tokens(up: Guarded, sign: Sign, status: int) -> None:
    oauth = sign()
    said = {"www-authenticate": 'Bearer error="x", scope="b"'}
    assert await oauth.challenged(status, said) is False
    assert up.server.seen == []


# Another authorization server.


async def test_an_upstream_that_moves_needs_a_new_login_there(up: Guarded, sign: Sign) -> None:
    async with serve(lambda seen: reply()) as taken:
        port = taken.port
    await sign(redirect_port=port).login()
    gateway = sign(show=None)
    assert await ask(gateway, up.url) == 200
    old, new = up.authority, Authority()
    async with serve(new.handle) as new.server:
        up.authority = new
        with pytest.raises(LoginNeeded, match=f"is {new.issuer} now, no longer {old.issuer}"):
            await ask(gateway, up.url)
        assert old.count("refresh_token") == 0
        await sign(redirect_port=port).login()
        assert await ask(gateway, up.url) == 200
        assert old.clients.keys().isdisjoint(form["client_id"] for form in new.requests)
        assert len(new.clients) == 1


async def test_configured_credentials_do_not_follow_the_upstream(up: Guarded, sign: Sign) -> None:
    given = {"flow": "client_credentials", "client_id": "me", "client_secret": "word"}
    client = {"token_endpoint_auth_method": "client_secret_basic", "client_secret": "word"}
    up.authority.metadata["token_endpoint_auth_methods_supported"] = None
    up.authority.clients["me"] = client
    assert await ask(sign(**given), up.url) == 200
    old, evil = up.authority, Authority()
    async with serve(evil.handle) as evil.server:
        evil.clients["me"] = client
        up.authority = evil
        with pytest.raises(OAuthFailed, match=f"belongs to {old.issuer}.*auth logout up"):
            await ask(sign(**given), up.url)
        assert evil.requests == []


# More scopes.


async def test_a_call_that_needs_more_is_stepped_up_with_what_was_there(
    up: Guarded, sign: Sign
) -> None:
    up.challenge["scope"] = "a"
    oauth = sign()
    assert await ask(oauth, up.url) == 200
    up.needs, up.challenge["scope"] = "b", "b"
    assert await ask(oauth, up.url) == 200
    assert [asked["scope"] for asked in up.authority.asked] == ["a", "a b"]


async def test_where_nobody_can_be_asked_the_next_login_asks_for_it(
    up: Guarded, sign: Sign
) -> None:
    await sign().login()
    gateway = sign(show=None)
    up.needs = "b"
    with pytest.raises(LoginNeeded, match="the scope b is needed; run: toolcrib auth login up"):
        await ask(gateway, up.url)
    await sign().login()
    assert up.authority.asked[-1]["scope"] == "b"
    assert await ask(gateway, up.url) == 200
    assert gateway.kept().wanted == ()


async def test_every_call_that_needs_more_says_so(up: Guarded, sign: Sign) -> None:
    await sign().login()
    gateway = sign(show=None)
    up.needs = "b"
    for _ in range(5):
        with pytest.raises(LoginNeeded, match="the scope b is needed"):
            await ask(gateway, up.url)
    assert gateway.kept().wanted == ("b",)


async def test_what_was_asked_for_already_is_not_asked_for_again(up: Guarded, sign: Sign) -> None:
    oauth = sign()
    assert await ask(oauth, up.url) == 200
    up.needs = "b"
    up.authority.withheld = "b"
    assert [await ask(oauth, up.url) for _ in range(3)] == [403, 403, 403]
    # Once at the beginning, once for more; the server gave what it gives.
    assert len(up.authority.asked) == 2


async def test_an_upstream_that_always_wants_more_is_not_followed_for_ever(
    up: Guarded, sign: Sign
) -> None:
    given = {"flow": "client_credentials", "client_id": "me", "client_secret": "word"}
    client = {"token_endpoint_auth_method": "client_secret_basic", "client_secret": "word"}
    up.authority.metadata["token_endpoint_auth_methods_supported"] = None
    up.authority.clients["me"] = client
    oauth = sign(**given)
    assert await ask(oauth, up.url) == 200
    statuses: list[int] = []
    for number in range(8):
        up.needs = f"more{number}"
        statuses.append(await ask(oauth, up.url))
    assert statuses == [200, 200, 200, 403, 403, 403, 403, 403]


async def test_the_configured_scopes_are_the_most_that_is_asked_for(
    up: Guarded, sign: Sign
) -> None:
    up.challenge["scope"] = "a b admin"
    oauth = sign(scopes=["a"])
    assert await ask(oauth, up.url) == 200
    assert up.authority.asked[0]["scope"] == "a"
    up.needs = up.challenge["scope"] = "admin"
    with pytest.raises(OAuthFailed, match=r"wants the scope admin, which auth\.scopes"):
        await ask(oauth, up.url)
    assert len(up.authority.asked) == 1


# Whose tokens they are.


async def test_tokens_for_one_place_are_not_sent_to_another(up: Guarded, sign: Sign) -> None:
    await sign().login()
    moved = sign(url=f"{up.server.url}/other", show=None)
    assert await moved.headers() == {}


@pytest.mark.parametrize(
    "given",
    [
        {"issuer": "https://other.example"},
        {"client_id": "other"},
        {"scopes": ["b"]},
    ],
    ids=["issuer", "client", "scopes"],
)
async def test_tokens_that_the_settings_do_not_allow_any_more_are_not_used(
    up: Guarded, sign: Sign, given: dict[str, Any]
) -> None:
    up.challenge["scope"] = "a"
    await sign().login()
    assert await sign(show=None).headers() != {}
    assert await sign(show=None, **given).headers() == {}


async def test_a_persons_tokens_are_not_used_in_our_own_name(up: Guarded, sign: Sign) -> None:
    up.authority.metadata["client_id_metadata_document_supported"] = True
    client = {"client_id": "https://client.example/a.json", "token_auth": "none"}
    await sign(**client).login()
    assert await sign(show=None, **client).headers() != {}
    own = {"flow": "client_credentials", "client_secret": "word", **client}
    assert await sign(**own).headers() == {}


async def test_every_secret_is_hidden_before_it_is_used(up: Guarded, tmp_path: Path) -> None:
    lent = Lent(tmp_path)
    up.authority.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    settings = {"url": up.url, "auth": {"type": "oauth"}}
    oauth = oauth_for("up", settings, lent, show=browse)  # type: ignore[arg-type]
    assert oauth is not None
    assert await ask(oauth, up.url) == 200
    await oauth.aclose()
    [client] = up.authority.clients.values()
    assert {*up.authority.tokens, *up.authority.refreshes, client["client_secret"]} <= {
        *lent.secrets
    }


async def test_a_configured_secret_is_kept_nowhere_else(up: Guarded, sign: Sign) -> None:
    up.authority.clients["me"] = {
        "token_endpoint_auth_method": "client_secret_basic",
        "client_secret": "word",
    }
    up.authority.metadata["token_endpoint_auth_methods_supported"] = None
    oauth = sign(flow="client_credentials", client_id="me", client_secret="word")
    assert await ask(oauth, up.url) == 200
    tokens = oauth.kept().tokens
    assert tokens is not None
    assert tokens.client.client_secret is None


async def test_files_that_cannot_be_read_are_said(up: Guarded, sign: Sign, tmp_path: Path) -> None:
    await sign().login()
    (tmp_path / ".toolcrib" / "logins").write_bytes(b"garbage")
    (tmp_path / ".toolcrib" / "logins").chmod(0o600)
    with pytest.raises(ToolFailure, match="it does not fit its key") as caught:
        await sign(show=None).headers()
    assert caught.value.reason == "tool_unavailable"


async def test_a_login_that_is_forgotten_is_not_used_any_more(
    up: Guarded, sign: Sign, later: Later, tmp_path: Path
) -> None:
    await sign().login()
    gateway = sign(show=None)
    assert await gateway.headers() != {}
    Vault(tmp_path / ".toolcrib").write("up", None)
    later.move(1)
    assert await gateway.headers() == {}


# Several at work on the same files.


async def test_what_is_wanted_does_not_bring_back_older_tokens(
    up: Guarded, sign: Sign, tmp_path: Path
) -> None:
    await sign().login()
    gateway, vault = sign(show=None), Vault(tmp_path / ".toolcrib")
    record = gateway.kept()
    assert record.tokens is not None
    newer = replace(record, tokens=replace(record.tokens, access_token="newer"))
    said = {"www-authenticate": 'Bearer error="insufficient_scope", scope="b"'}
    async with vault.alone("up"):
        waiting = asyncio.create_task(gateway.challenged(403, said, await gateway.headers()))
        await asyncio.sleep(0.1)
        vault.write("up", newer)
    with pytest.raises(LoginNeeded):
        await waiting
    assert vault.read("up") == replace(newer, wanted=("b",))


async def test_a_login_waits_for_a_renewal_and_counts_after_it(
    up: Guarded, sign: Sign, tmp_path: Path
) -> None:
    await sign().login()
    vault = Vault(tmp_path / ".toolcrib")
    old = vault.read("up")
    async with vault.alone("up"):
        waiting = asyncio.create_task(sign().login())
        while len(up.authority.requests) < 2:
            up.authority.came.clear()
            await up.authority.came.wait()
        await asyncio.sleep(0.1)
        vault.write("up", old)
    tokens = await waiting
    kept = vault.read("up")
    assert kept is not None
    assert kept.tokens == tokens


async def test_a_renewal_does_not_bring_back_what_was_forgotten(
    up: Guarded, sign: Sign, later: Later, tmp_path: Path
) -> None:
    await sign().login()
    gateway, vault = sign(show=None), Vault(tmp_path / ".toolcrib")
    later.move(4000)
    async with vault.alone("up"):
        waiting = asyncio.create_task(gateway.headers())
        await asyncio.sleep(0.1)
        vault.write("up", None)
    assert await waiting == {}
    assert up.authority.count("refresh_token") == 0
    assert vault.read("up") is None


async def test_an_upstream_that_is_broken_for_a_moment_has_not_moved(
    up: Guarded, sign: Sign
) -> None:
    await sign().login()
    up.challenge["resource_metadata"] = None
    up.refused.update(up.authority.tokens)
    up.documents["/.well-known/oauth-protected-resource/mcp"] = reply(status=503)
    with pytest.raises(OAuthFailed, match="answered with the status 503"):
        await ask(sign(show=None), up.url)
