"""The keys of issuers: found, kept, rotated; and issuers that fail in every way."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import OKPAlgorithm

from issuer import Issuer, certificate, public, rsa_key
from loopback import reply, reply_json, serve
from toolcrib.net.client import Client
from toolcrib.net.exchange import Limits
from toolcrib.testing import FakeClock
from toolcrib.transports.faults import Fault
from toolcrib.transports.identity import Identity, keys


async def who(identity: Identity, sent: bytes) -> Any:
    return await identity.identify(sent, door="http", loopback=False)


async def refused(identity: Identity, sent: bytes) -> None:
    with pytest.raises(Fault) as caught:
        await who(identity, sent)
    assert caught.value.reason == "unauthenticated"


async def settled(identity: Identity) -> None:
    """Let a look that goes on in the background end."""
    for each in identity._signed._keys.values():
        if each._looking is not None:
            await asyncio.wait([each._looking])


@pytest.mark.parametrize("place", ["discovered", "url", "file"])
async def test_where_keys_are_found(make: Any, login: Issuer, tmp_path: Path, place: str) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps(login.jwks()))
    jwks = {"discovered": None, "url": f"{login.url}/keys", "file": str(file)}[place]
    identity = make(jwt=(login.settings(jwks=jwks),))
    assert (await who(identity, login.bearer())).principal.name == "alice"
    assert len(login.server.seen) == {"discovered": 2, "url": 1, "file": 0}[place]


async def test_keys_are_fetched_once_for_many(make: Any, login: Issuer) -> None:
    identity = make(jwt=(login.settings(),))
    callers = await asyncio.gather(*(who(identity, login.bearer(sub=f"u{n}")) for n in range(20)))
    assert len({each.principal.name for each in callers}) == 20
    assert login.fetched == 1


async def test_a_key_without_id_is_found_by_trying(make: Any, login: Issuer) -> None:
    login.keys["two"] = Ed25519PrivateKey.generate()
    identity = make(jwt=(login.settings(),))
    key = {"one": login.keys["two"]}
    login.keys, published = key, login.keys
    sent = login.bearer(kid=None)
    login.keys = published
    await who(identity, sent)


async def test_a_new_key_is_looked_for_but_junk_makes_no_storm(
    make: Any, login: Issuer, clock: FakeClock
) -> None:
    identity = make(jwt=(login.settings(),))
    await who(identity, login.bearer())
    login.keys["two"] = Ed25519PrivateKey.generate()
    await refused(identity, login.bearer(kid="two"))
    assert login.fetched == 1, "it looked a moment ago"
    clock.advance(keys.PAUSE)
    await who(identity, login.bearer(kid="two"))
    assert login.fetched == 2
    strange = login.settings()
    for number in range(50):
        login.keys[f"junk{number}"] = login.keys["one"]
    junk = [login.bearer(kid=f"junk{number}") for number in range(50)]
    login.keys = {"one": login.keys["one"]}
    clock.advance(keys.PAUSE)
    await asyncio.gather(*(refused(identity, sent) for sent in junk))
    assert login.fetched == 3
    assert strange == login.settings()


async def test_tokens_that_are_wrong_anyway_make_nobody_look(make: Any, login: Issuer) -> None:
    identity = make(jwt=(login.settings(),))
    for claims in ({"iss": "x"}, {"aud": "x"}, {"exp": 1}, {"nbf": 9e9}):
        await refused(identity, login.bearer(**claims))
    assert not login.server.seen


async def test_old_keys_are_used_while_new_ones_are_fetched(
    make: Any, login: Issuer, clock: FakeClock
) -> None:
    identity = make(jwt=(login.settings(cache=60.0),))
    await who(identity, login.bearer())
    release = asyncio.Event()

    async def late(seen: Any, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        writer.write(login.handle(seen))

    login.answer = lambda _: late
    clock.advance(61)
    await who(identity, login.bearer(sub="bob"))
    login.answer = None
    login.keys = {"two": Ed25519PrivateKey.generate()}
    release.set()
    await settled(identity)
    await who(identity, login.bearer(kid="two"))


FAULTS: dict[str, Any] = {
    "gone": lambda seen: reply(status=500),
    "forbidden": lambda seen: reply(status=403),
    "garbage": lambda seen: reply(b"\xff\xfe{"),
    "not an object": lambda seen: reply_json([1, 2]),
    "no keys": lambda seen: reply_json({"keys": []}),
    "odd keys": lambda seen: reply_json({"keys": [1, None, {}, {"kty": []}, {"kty": "EC"}]}),
    "secret keys": lambda seen: reply_json({"keys": [{"kty": "oct", "k": "AAAA", "kid": "one"}]}),
    "giant": lambda seen: reply(b'{"keys": [' + b" " * 600_000 + b"]}"),
    "deep": lambda seen: reply(b"[" * 100_000),
    "redirecting": lambda seen: reply(status=302, headers={"Location": seen.target}),
    "elsewhere": lambda seen: reply(status=302, headers={"Location": "http://127.0.0.2:1/"}),
    "broken off": lambda seen: reply(b"{", headers={"Content-Length": "50"}, length=False),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_an_issuer_that_fails_takes_no_keys_away(
    make: Any, login: Issuer, clock: FakeClock, fault: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings = login.settings(jwks=f"{login.url}/keys", cache=60.0)
    login.answer, good = fault, login.bearer()
    fresh = make(jwt=(settings,))
    await refused(fresh, good)
    assert "cannot be had" in caplog.text
    login.answer = None
    clock.advance(keys.PAUSE)
    await who(fresh, good)
    login.answer = fault
    clock.advance(61)
    await who(fresh, good)
    await settled(fresh)
    await who(fresh, login.bearer(sub="bob"))
    assert "those known before are kept" in caplog.text
    assert good[7:].decode() not in caplog.text


async def test_an_issuer_that_is_not_there(
    make: Any, login: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(lambda _: reply()) as other:
        port = other.port
    await refused(make(jwt=(login.settings(jwks=f"http://127.0.0.1:{port}/"),)), login.bearer())
    assert "cannot be had" in caplog.text


async def test_a_slow_issuer_is_left_alone(
    make: Any, login: Issuer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(keys, "LIMITS", Limits(max_bytes=1000, total=0.05))
    held = asyncio.Event()

    async def never(seen: Any, writer: asyncio.StreamWriter) -> None:
        await held.wait()

    login.answer = lambda _: never
    await refused(make(jwt=(login.settings(),)), login.bearer())
    assert "did not answer in time" in caplog.text
    held.set()


async def test_closing_stops_a_look(make: Any, login: Issuer) -> None:
    held = asyncio.Event()
    asked = asyncio.Event()

    async def never(seen: Any, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await held.wait()

    login.answer = lambda _: never
    identity = make(jwt=(login.settings(),))
    waiting = asyncio.ensure_future(who(identity, login.bearer()))
    await asked.wait()
    await identity.close()
    await asyncio.wait([waiting])
    assert waiting.cancelled() or waiting.exception() is not None
    held.set()


async def test_a_caller_that_leaves_does_not_stop_the_look(make: Any, login: Issuer) -> None:
    release, asked = asyncio.Event(), asyncio.Event()

    async def late(seen: Any, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await release.wait()
        login.answer = None
        answer = login.handle(seen)
        assert isinstance(answer, bytes)
        writer.write(answer)

    login.answer = lambda _: late
    identity = make(jwt=(login.settings(jwks=f"{login.url}/keys"),))
    first = asyncio.ensure_future(who(identity, login.bearer()))
    await asked.wait()
    second = asyncio.ensure_future(who(identity, login.bearer()))
    await asyncio.sleep(0)
    first.cancel()
    release.set()
    assert (await second).principal.name == "alice"


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "https://evil.example", "jwks_uri": "KEYS"},
        {"jwks_uri": "KEYS"},
        {"issuer": "ISSUER"},
        {"issuer": "ISSUER", "jwks_uri": 5},
        {"issuer": "ISSUER", "jwks_uri": "file:///etc/passwd"},
        {"issuer": "ISSUER", "jwks_uri": "http://169.254.169.254/keys"},
        [],
    ],
    ids=["another issuer", "no issuer", "no keys", "a number", "a file", "metadata", "a list"],
)
async def test_a_discovery_document_that_is_wrong(
    make: Any, login: Issuer, document: Any, caplog: pytest.LogCaptureFixture
) -> None:
    text = json.dumps(document).replace("KEYS", f"{login.url}/keys").replace("ISSUER", login.url)
    login.answer = lambda seen: (
        reply_json(login.jwks()) if seen.path == "/keys" else reply_json(json.loads(text))
    )
    await refused(make(jwt=(login.settings(),)), login.bearer())
    assert "cannot be had" in caplog.text
    assert login.fetched == 0


async def test_a_private_address_has_to_be_permitted(
    make: Any, login: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    await refused(make(jwt=(login.settings(private=False),)), login.bearer())
    assert "not public" in caplog.text
    assert not login.server.seen


async def test_keys_that_are_not_for_signatures_count_nothing(make: Any, login: Issuer) -> None:
    made = public("one", login.keys["one"])
    private = OKPAlgorithm.to_jwk(login.keys["one"], as_dict=True)
    for wrong in (
        {"use": "enc"},
        {"alg": "ES256"},
        {"key_ops": ["encrypt"]},
        {"key_ops": 5},
        private,
    ):
        login.answer = lambda _, wrong=wrong: reply_json({"keys": [{**made, **wrong}]})
        await refused(make(jwt=(login.settings(jwks=f"{login.url}/keys"),)), login.bearer())
    endless = base64.urlsafe_b64encode(b"\xff" * 2400).decode()
    with pytest.raises(keys.NoKeys):
        keys.usable({"keys": [{**public("x", rsa_key()), "n": endless}]}, ("RS256",))


async def test_keys_in_an_answer_that_says_it_failed_count_nothing(
    make: Any, login: Issuer
) -> None:
    login.answer = lambda _: reply_json(login.jwks(), 404)
    await refused(make(jwt=(login.settings(jwks=f"{login.url}/keys"),)), login.bearer())


async def test_discovery_never_leads_from_https_to_http(
    login: Issuer, clock: FakeClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = certificate(tmp_path, "tls", 0)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(files.certificate, files.key)

    def discovery(seen: Any) -> bytes:
        url = f"https://localhost:{secure.port}"
        return reply_json({"issuer": url, "jwks_uri": f"{login.url}/keys"})

    trusted = ssl.create_default_context(cafile=files.certificate)
    async with serve(discovery, tls=tls) as secure, Client(tls=trusted) as client:
        settings = login.settings(issuer=f"https://localhost:{secure.port}")
        found = keys.Keys(settings, client, clock)
        assert await found.find("EdDSA", "one") == []
        assert secure.seen
    assert "from https to http" in caplog.text
    assert not login.server.seen


async def test_keys_do_not_count_for_ever(
    make: Any, login: Issuer, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    identity = make(jwt=(login.settings(),))
    await who(identity, login.bearer())
    login.answer = lambda _: reply(status=503)
    clock.advance(keys.LONGEST_KEPT + 1)
    now = clock.time()
    await refused(identity, login.bearer(iat=now, exp=now + 100))
    assert "count no more" in caplog.text
