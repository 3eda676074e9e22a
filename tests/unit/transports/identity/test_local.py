"""Callers without credentials: by the door, and by what the system says of them."""

from __future__ import annotations

import os
import pwd
from typing import Any

import pytest

from toolcrib import ToolHost
from toolcrib.core.serving import Listen, ServeSettings, StdioSettings, TokenSettings
from toolcrib.host.config.doorkinds import hash_of
from toolcrib.transports.faults import Fault
from toolcrib.transports.identity import Identity, Peer
from toolcrib.transports.service import Service
from toolcrib.transports.stdio import stdio_caller

TOKENS = (TokenSettings(name="t", hash=hash_of(b"0123456789abcdef"), principal="ci"),)
SENT = b"Bearer 0123456789abcdef"
ALL = ["approve", "audit", "admin"]


async def who(identity: Identity, door: str = "http", **more: Any) -> Any:
    return await identity.identify(None, **{"door": door, "loopback": True, **more})


async def refused(identity: Identity, door: str = "http", **more: Any) -> str:
    with pytest.raises(Fault) as caught:
        await who(identity, door, **more)
    assert caught.value.reason == "unauthenticated"
    return caught.value.message


@pytest.mark.parametrize("door", ["http", "websocket", "stdio"])
async def test_where_nothing_is_configured_this_machine_is_the_operator(
    make: Any, door: str
) -> None:
    identity = make()
    caller = await who(identity, door)
    assert (caller.principal.name, caller.rights, caller.local) == ("local", ALL, True)
    assert (caller.profile, caller.profiles) == ("base", None)
    assert caller.may_use("wide")
    assert getattr(identity.known(None, door, True), "caller", None) is caller


async def test_nobody_comes_from_elsewhere_without_credentials(make: Any) -> None:
    identity = make()
    assert "Authorization" in await refused(identity, loopback=False)
    await who(identity)
    await refused(identity, loopback=False)
    assert identity.known(None, "http", False) is None


async def test_the_operator_is_what_the_configuration_says_of_local(make: Any) -> None:
    people = {"local": {"roles": ["owner"], "permissions": ["p"], "profiles": ["b"]}}
    host = ToolHost(config={"profiles": {"a": {}, "b": {}}, "principals": people})
    caller = await who(make(of=host, http={"profile": "a"}))
    assert caller.principal.roles == {"owner"}
    assert caller.principal.permissions >= {"p", "toolcrib.admin"}
    assert (caller.profile, caller.profiles) == ("b", {"b"})


async def test_with_tokens_this_machine_is_nobody_unless_it_is_said(make: Any) -> None:
    await refused(make(tokens=TOKENS))
    caller = await who(make(tokens=TOKENS, http={"local": "ci"}))
    assert (caller.principal.name, caller.rights, caller.profile) == ("ci", [], "base")
    await refused(make(tokens=TOKENS, http={"local": "ci"}), loopback=False)
    named = await who(make(http={"local": "ci"}))
    assert named.rights == []


async def test_answers_of_callers_count_only_where_no_proxy_can_be(make: Any) -> None:
    here = make(tokens=TOKENS)
    assert (await here.identify(SENT, door="http", loopback=True)).local
    assert not (await here.identify(SENT, door="http", loopback=False)).local
    for http in (
        {"hosts": ("crib.example.com",)},
        {"listen": (Listen(host="0.0.0.0", port=0),)},
        {"listen": (Listen(host="127.example.com", port=0),)},
    ):
        open_one = make(tokens=TOKENS, http=http)
        assert not (await open_one.identify(SENT, door="http", loopback=True)).local
    named = make(tokens=TOKENS, http={"hosts": ("localhost:8700", "[::1]:8700", "127.0.0.1")})
    assert (await named.identify(SENT, door="http", loopback=True)).local


async def test_credentials_that_are_wrong_are_refused_even_where_none_are_needed(make: Any) -> None:
    with pytest.raises(Fault):
        await make().identify(SENT, door="http", loopback=True)


async def test_a_socket_whose_other_end_is_not_known_lets_nobody_in(make: Any) -> None:
    await refused(make(), "unix")
    await refused(make(http={"local": "ci"}), "unix")


def peer(uid: int) -> Peer:
    return Peer(uid=uid, gid=uid, pid=1)


async def test_the_unix_socket_knows_its_users(make: Any) -> None:
    user = pwd.getpwuid(1)
    identity = make(tokens=TOKENS, http={"users": ((user.pw_name, "ci"), ("54321", "boss"))})
    for uid in {0, os.geteuid()}:
        caller = await who(identity, "unix", peer=peer(uid))
        assert (caller.principal.name, caller.rights, caller.local) == ("local", ALL, True)
    known = await who(identity, "unix", peer=peer(1))
    assert (known.principal.name, known.rights, known.local) == ("ci", [], True)
    assert (await who(identity, "unix", peer=peer(54321))).profile == "wide"
    assert "54322" in await refused(identity, "unix", peer=peer(54322))
    assert await refused(identity, "unix")
    assert identity.known(None, "unix", True) is None, "who it is depends on the connection"
    assert (await who(identity, "websocket", peer=peer(1))).principal.name == "ci"
    assert identity.known(None, "websocket", True) is None
    with_token = await identity.identify(SENT, door="unix", loopback=True, peer=peer(54322))
    assert with_token.principal.name == "ci"


async def test_a_user_that_is_mapped_is_that_principal_even_if_it_runs_the_host(make: Any) -> None:
    identity = make(http={"users": ((str(os.geteuid()), "ci"),)})
    assert (await who(identity, "unix", peer=peer(os.geteuid()))).principal.name == "ci"


async def test_the_client_on_stdio(make: Any) -> None:
    identity = make(tokens=TOKENS, stdio=StdioSettings(profile="narrow"))
    caller = await who(identity, "stdio")
    assert (caller.principal.name, caller.profile, caller.rights) == ("local", "narrow", ALL)
    named = make(stdio=StdioSettings(principal="boss"))
    caller = await who(named, "stdio")
    assert (caller.principal.name, caller.profile, caller.rights) == ("boss", "wide", ["admin"])


async def test_a_host_without_profiles_serves_its_embedder(make: Any) -> None:
    caller = await who(make(of=ToolHost()))
    assert (caller.profile, caller.rights) == (None, ALL)


async def test_renewed_settings_turn_callers_out(make: Any) -> None:
    from toolcrib.core.serving import ServeSettings

    identity = make(tokens=TOKENS)
    caller = await identity.identify(SENT, door="http", loopback=False)
    identity.renew(ServeSettings(tokens=TOKENS))
    assert (await identity.identify(SENT, door="http", loopback=False)).badge is caller.badge
    identity.renew(ServeSettings())
    assert caller.badge.over
    with pytest.raises(Fault):
        await identity.identify(SENT, door="http", loopback=False)


@pytest.mark.parametrize(
    ("stdio", "profile", "others"),
    [
        pytest.param(StdioSettings(), "base", {"narrow", "wide"}, id="the operator"),
        pytest.param(StdioSettings(profile="narrow"), "narrow", set[str](), id="a profile"),
        pytest.param(StdioSettings(principal="ci"), "base", set[str](), id="a principal"),
        pytest.param(StdioSettings(principal="boss"), "wide", {"narrow"}, id="one with profiles"),
    ],
)
async def test_who_the_client_on_stdio_is_does_not_depend_on_who_asks(
    make: Any, host: ToolHost, stdio: StdioSettings, profile: str, others: set[str]
) -> None:
    identity = make(stdio=stdio, http={"profile": "narrow"})
    service = Service(host, ServeSettings(stdio=stdio))
    for caller in (await who(identity, "stdio"), stdio_caller(service)):
        assert (caller.profile, caller.local, caller.door) == (profile, True, "stdio")
        usable = {name for name in ("base", "narrow", "wide") if caller.may_use(name)}
        assert usable == {profile, *others}
