"""Signed tokens: who is believed, and what their claims make of their holder."""

from __future__ import annotations

import base64
import json
import warnings
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from issuer import NOW, Issuer, rsa_key, signed
from toolcrib import ToolHost
from toolcrib.testing import FakeClock
from toolcrib.transports.faults import Fault
from toolcrib.transports.identity import Identity


async def who(identity: Identity, sent: bytes | str) -> Any:
    raw = sent if isinstance(sent, bytes) else b"Bearer " + sent.encode()
    return await identity.identify(raw, door="http", loopback=False)


async def refused(identity: Identity, sent: bytes | str) -> str:
    with pytest.raises(Fault) as caught:
        await who(identity, sent)
    assert caught.value.reason == "unauthenticated"
    raw = sent if isinstance(sent, bytes) else sent.encode()
    assert all(
        piece not in caught.value.message.encode() for piece in raw.split(b".") if len(piece) > 5
    )
    return caught.value.message


@pytest.mark.parametrize("kind", ["EdDSA", "RS256", "ES256"])
async def test_a_token_of_the_issuer_is_believed(make: Any, login: Issuer, kind: str) -> None:
    made = {
        "EdDSA": Ed25519PrivateKey.generate,
        "RS256": rsa_key,
        "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    }
    login.keys = {"one": made[kind]()}
    identity = make(jwt=(login.settings(),))
    sent = login.bearer()
    caller = await who(identity, sent)
    assert caller.principal.name == "alice"
    assert caller.principal.attributes["iss"] == login.url
    assert (caller.profile, caller.profiles, caller.rights) == ("base", frozenset(), [])
    assert caller.badge.expires == NOW + 360
    assert getattr(identity.known(sent, "http", False), "caller", None) is caller
    assert login.fetched == 1


WRONG: dict[str, dict[str, Any]] = {
    "issuer": {"iss": "https://elsewhere.example"},
    "no issuer": {"iss": None},
    "audience": {"aud": "another"},
    "audiences": {"aud": ["another", 5, {"toolcrib": 1}]},
    "no audience": {"aud": None},
    "no expiry": {"exp": None},
    "expired": {"exp": NOW - 61},
    "expiry in words": {"exp": str(NOW + 300)},
    "expiry true": {"exp": True},
    "endless": {"exp": 1e300},
    "not yet": {"nbf": NOW + 61},
    "begins true": {"nbf": True},
    "issued later": {"iat": NOW + 61},
    "issued in words": {"iat": "yesterday"},
    "nobody": {"sub": None},
    "an empty name": {"sub": ""},
    "a number": {"sub": 7},
    "a list": {"sub": ["alice"]},
    "spaces": {"sub": " alice"},
    "a new line": {"sub": "alice\nbob"},
    "turned letters": {"sub": "ali\u202ece"},
    "a long name": {"sub": "a" * 129},
}


@pytest.mark.parametrize("claims", WRONG.values(), ids=WRONG)
async def test_claims_that_are_wrong(make: Any, login: Issuer, claims: dict[str, Any]) -> None:
    identity = make(jwt=(login.settings(),))
    await refused(identity, login.token(**claims))
    await who(identity, login.token())


async def test_clocks_may_differ_a_little(make: Any, login: Issuer) -> None:
    identity = make(jwt=(login.settings(),))
    await who(identity, login.token(exp=NOW - 59, nbf=NOW + 59, iat=NOW + 59))
    strict = make(jwt=(login.settings(leeway=0.0),))
    await refused(strict, login.token(exp=NOW))
    await refused(strict, login.token(nbf=NOW + 1))


def unsigned(head: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    parts = (json.dumps(head).encode(), json.dumps(claims).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


async def test_no_signature_and_other_signatures_are_refused(make: Any, login: Issuer) -> None:
    login.keys = {"one": rsa_key()}
    identity = make(jwt=(login.settings(),))
    claims = login.claims()
    pem = (
        rsa_key()
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    shared = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    head = {"alg": "HS256", "kid": "one"}
    start = unsigned(head, claims).rstrip(".")
    forged = base64.urlsafe_b64encode(shared.sign(start.encode(), pem)).rstrip(b"=").decode()
    good = login.token()
    another = signed(claims, rsa_key(1), "one")
    for sent in (
        f"{start}.{forged}",
        unsigned({"alg": "none"}, claims),
        unsigned({"alg": "none", "kid": "one"}, claims, b"x"),
        unsigned({"alg": ["RS256"], "kid": "one"}, claims, b"x"),
        unsigned({"kid": "one"}, claims, b"x"),
        unsigned({"alg": "RS256", "kid": "one"}, claims, b"x" * 256),
        another,
        good[:-4] + ("aaaa" if good[-4:] != "aaaa" else "bbbb"),
        good.replace(good.split(".")[1], unsigned({}, login.claims(sub="boss")).split(".")[1]),
        f"{good}.x",
        f"{good}=",
        "a.b.c.d.e",
        "........",
    ):
        await refused(identity, sent)
    await who(identity, good)


async def test_an_algorithm_has_to_be_on_the_list(make: Any, login: Issuer) -> None:
    identity = make(jwt=(login.settings(algorithms=("RS256",)),))
    await refused(identity, login.token())
    assert login.fetched == 0


HEADS: dict[str, dict[str, Any]] = {
    "critical": {"crit": ["exp"], "exp": 1},
    "critical and harmless": {"crit": ["b64"], "b64": True},
    "detached": {"b64": False},
    "logout": {"typ": "logout+jwt"},
    "no type": {"typ": 5},
    "embedded key": {"jwk": {"kty": "oct", "k": "AAAA"}, "kid": "two"},
    "key elsewhere": {"jku": "https://evil.example/keys", "kid": "two"},
}


@pytest.mark.parametrize("header", HEADS.values(), ids=HEADS)
async def test_headers_that_are_refused(make: Any, login: Issuer, header: dict[str, Any]) -> None:
    identity = make(jwt=(login.settings(),))
    key = login.keys["one"]
    head = {"alg": "EdDSA", "kid": "one", **header}
    start = unsigned(head, login.claims()).rstrip(".")
    end = base64.urlsafe_b64encode(key.sign(start.encode())).rstrip(b"=").decode()
    await refused(identity, f"{start}.{end}")


async def test_claims_that_stand_twice_are_refused(make: Any, login: Issuer) -> None:
    text = json.dumps(login.claims())[:-1] + ', "sub": "bob"}'
    identity = make(jwt=(login.settings(),))
    await refused(identity, signed(text.encode(), login.keys["one"], "one"))
    await refused(identity, signed(b"[1]", login.keys["one"], "one"))
    await refused(identity, signed(b"NaN", login.keys["one"], "one"))
    await refused(identity, signed(b"[" * 5000, login.keys["one"], "one"))


async def test_an_rsa_key_that_is_too_short_counts_nothing(make: Any, login: Issuer) -> None:
    login.keys = {"one": rsa_key(0, 1024)}
    with pytest.warns(jwt.warnings.InsecureKeyLengthWarning):
        sent = login.token()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        await refused(make(jwt=(login.settings(),)), sent)


# What claims say.


async def test_roles_permissions_and_profiles_of_claims(make: Any, login: Issuer) -> None:
    settings = login.settings(
        roles="realm_access.roles",
        permissions="scope",
        profiles="https://example.com/profiles",
        principal="email",
    )
    identity = make(jwt=(settings,))
    claims: dict[str, Any] = {
        "email": "alice@example.com",
        "realm_access": {"roles": ["builder", 5, "", "tester"]},
        "scope": "repo.read toolcrib.audit",
        "https://example.com/profiles": ["unknown", "narrow", "wide"],
    }
    caller = await who(identity, login.token(**claims))
    assert caller.principal.name == "alice@example.com"
    assert caller.principal.roles == {"builder", "tester"}
    assert caller.principal.permissions == {"repo.read", "toolcrib.audit"}
    assert caller.rights == ["audit"]
    assert (caller.profile, caller.profiles) == ("narrow", {"narrow", "wide"})
    claims["https://example.com/profiles"] = ["unknown"]
    assert "no profile that the token names" in await refused(identity, login.token(**claims))
    del claims["https://example.com/profiles"], claims["realm_access"]
    caller = await who(identity, login.token(**claims))
    assert (caller.profile, caller.profiles, caller.principal.roles) == ("base", set(), set())


async def test_claims_count_only_where_they_are_asked_for(make: Any, login: Issuer) -> None:
    identity = make(jwt=(login.settings(profile="narrow"),))
    sent = login.token(roles=["boss"], permissions=["toolcrib.admin"], profiles=["wide"])
    caller = await who(identity, sent)
    assert (caller.principal.roles, caller.rights) == (set(), [])
    assert (caller.profile, caller.profiles) == ("narrow", set())


async def test_roles_can_be_translated(make: Any, login: Issuer) -> None:
    settings = login.settings(roles="groups", role_names=(("g-1", "builder"), ("g-2", "tester")))
    caller = await who(make(jwt=(settings,)), login.token(groups=["g-1", "admin", "builder"]))
    assert caller.principal.roles == {"builder"}


@pytest.mark.parametrize("name", ["ci", "boss", "local"])
async def test_a_claim_does_not_make_a_configured_principal(
    make: Any, login: Issuer, name: str
) -> None:
    message = await refused(make(jwt=(login.settings(),)), login.token(sub=name))
    assert "serve.jwt.principals" in message


async def test_an_issuer_may_be_trusted_with_configured_principals(
    make: Any, login: Issuer
) -> None:
    identity = make(jwt=(login.settings(principals=True, roles="roles"),))
    boss = await who(identity, login.token(sub="boss"))
    assert (boss.profile, boss.profiles) == ("wide", {"wide", "narrow"})
    assert boss.rights == ["admin"]
    ci = await who(identity, login.token(sub="ci", roles=["tester"]))
    assert ci.principal.roles == {"builder", "tester"}
    await refused(identity, login.token(sub="local"))
    assert (await who(identity, login.token(sub="carol"))).principal.permissions == set()


async def test_what_configured_principals_may_use_limits_claims(make: Any, login: Issuer) -> None:
    identity = make(jwt=(login.settings(principals=True, profiles="profiles"),))
    caller = await who(identity, login.token(sub="boss", profiles=["base", "narrow"]))
    assert (caller.profile, caller.profiles) == ("narrow", {"narrow"})
    await refused(identity, login.token(sub="boss", profiles=["base"]))


async def test_two_issuers_never_name_the_same_principal(make: Any, login: Issuer) -> None:
    one = login.settings(name="one", audience=("one",), prefix="")
    two = login.settings(name="two", audience=("two",), prefix="two:")
    identity = make(jwt=(one, two))
    assert (await who(identity, login.token(aud="one"))).principal.name == "alice"
    assert (await who(identity, login.token(aud="two"))).principal.name == "two:alice"
    await refused(identity, login.token(aud="one", sub="two:alice"))


# What changes meanwhile.


async def test_a_verified_token_is_kept_until_it_expires(
    make: Any, login: Issuer, clock: FakeClock
) -> None:
    identity = make(jwt=(login.settings(cache=1000.0),))
    sent = login.bearer()
    caller = await who(identity, sent)
    clock.advance(359)
    assert getattr(identity.known(sent, "http", False), "caller", None) is caller
    clock.advance(1)
    assert identity.known(sent, "http", False) is None
    await refused(identity, sent)


async def test_a_token_is_checked_again_now_and_then(
    make: Any, login: Issuer, clock: FakeClock
) -> None:
    identity = make(jwt=(login.settings(cache=60.0),))
    sent = login.bearer()
    caller = await who(identity, sent)
    clock.advance(50)
    await identity.identify(sent, door="websocket", loopback=False)
    login.keys = {"two": Ed25519PrivateKey.generate()}
    clock.advance(11)
    await who(identity, login.bearer(kid="two"))
    assert identity.known(sent, "websocket", False) is not None
    await refused(identity, sent)
    assert caller.badge.over, "a connection that it opened ends"
    assert identity.known(sent, "websocket", False) is None


async def test_a_reload_follows(login: Issuer, make: Any, tmp_path: Any, clock: FakeClock) -> None:
    path = tmp_path / "toolcrib.yaml"
    text = f"""\
profiles: {{base: {{}}, narrow: {{}}}}
principals: {{ci: {{roles: [builder]}}}}
host: {{profile: base}}
serve:
  jwt: {{issuer: "{login.url}", audience: toolcrib, private: true, principals: true}}
"""
    path.write_text(text)
    host = ToolHost(config=path, clock=clock)
    identity = make(of=host, jwt=host.config.serving.jwt)
    alice, ci = login.bearer(), login.bearer(sub="ci")
    seen = await who(identity, alice), await who(identity, ci)
    path.write_text(text.replace("builder", "tester"))
    await host.reload()
    assert identity.known(alice, "http", False) is None
    assert (await who(identity, ci)).principal.roles == {"tester"}
    assert [each.badge.over for each in seen] == [False, True]
    path.write_text(text.replace("principals: true", "profile: narrow"))
    await host.reload()
    assert (await who(identity, alice)).profile == "narrow"
    await refused(identity, ci)
    path.write_text(text.partition("serve:")[0])
    await host.reload()
    await refused(identity, alice)
    assert seen[0].badge.over


async def test_what_an_embedder_gave_stays_when_the_configuration_changes(
    login: Issuer, make: Any, tmp_path: Any, clock: FakeClock
) -> None:
    path = tmp_path / "toolcrib.yaml"
    path.write_text("profiles: {base: {}}\n")
    host = ToolHost(config=path, clock=clock)
    identity = make(of=host, jwt=(login.settings(),))
    path.write_text("profiles: {base: {}}\nserve: {http: {wait: 1s}}\n")
    await host.reload()
    assert (await who(identity, login.bearer())).principal.name == "alice"
    with pytest.raises(Fault):
        await identity.identify(None, door="http", loopback=True)
