"""Whatever stands in the header: unauthenticated, never an exception, never told or logged."""

from __future__ import annotations

import base64
import logging
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from issuer import Issuer
from toolcrib.core.serving import TokenSettings
from toolcrib.host.config.doorkinds import hash_of
from toolcrib.transports.faults import Fault

SECRET = b"canary0123456789abcdef"
TOKENS = (TokenSettings(name="t", hash=hash_of(SECRET), principal="ci"),)


def odd(good_jwt: bytes) -> list[bytes]:
    """A hundred and more headers that are not right."""
    head, body, end = good_jwt.split(b".")
    tokens = [
        b"", b"x", b"canary-short", SECRET[:-1], SECRET + b"0", SECRET.upper(), SECRET[::-1],
        SECRET + b"," + SECRET, SECRET + b" " + SECRET, b" " + SECRET + b"\n", b"\t" + SECRET,
        SECRET + b"\x00", b"\x00" + SECRET, SECRET + b"\xff", "canary-é-0123456789".encode(),
        b'"' + SECRET + b'"', b"'" + SECRET + b"'", b"<" + SECRET + b">", SECRET + b";",
        b"%63anary0123456789abcdef", b"../../etc/passwd-canary", b"${CANARY0123456789}",
        b"' OR 1=1 -- canary", b"canary" * 4000, b"." * 100, b".." * 5000, b"a.b.c", b"a.b", b"a.",
        head, head + b".", head + b"." + body, head + b"." + body + b".", b"." + body + b"." + end,
        head + b".." + end, head + b"." + body + b"." + end[:-2], head + b"." + body + b"." + body,
        body + b"." + head + b"." + end, good_jwt + b".", b"." + good_jwt, good_jwt + good_jwt,
        good_jwt.replace(b".", b".."), good_jwt.swapcase(), good_jwt + b"=", b"=" * 40,
        head + b"." + body + b"." + b"A" * 12000, b"e30.e30.e30", b"bnVsbA.bnVsbA.bnVsbA",
        b"W10.W10.W10", b"eyJhbGciOiJub25lIn0.e30.", b"eyJhbGciOiJub25lIn0.e30.x",
        base64.b64encode(SECRET), hash_of(SECRET).encode(), b"sha256:" + SECRET,
    ]  # fmt: skip
    headers = [b"Bearer " + token for token in tokens]
    for scheme in (b"Basic", b"Digest", b"Negotiate", b"Token", b"JWT", b"Bear", b"Bearers", b""):
        headers += [scheme + b" " + SECRET, scheme + SECRET, scheme + b":" + SECRET]
    headers += [b"Basic " + base64.b64encode(b"ci:" + SECRET), SECRET, good_jwt, b"Bearer", b" "]
    headers += [b"Bearer\t" + SECRET, b" Bearer " + SECRET, b"Bearer: " + SECRET, b"\xff" * 50]
    headers += [b"Bearer  ", b"Bearer " + SECRET + b", Basic x", b"Bearer\x00" + SECRET]
    source = random.Random(7)
    headers += [b"Bearer " + source.randbytes(40) for _ in range(20)]
    return headers


async def test_a_hundred_odd_headers(
    make: Any, login: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    identity = make(tokens=TOKENS, jwt=(login.settings(),))
    good = login.token().encode()
    await identity.identify(b"Bearer " + good, door="http", loopback=False)
    headers = odd(good)
    assert len(headers) >= 100
    for sent in headers:
        assert identity.known(sent, "http", False) is None
        with pytest.raises(Fault) as caught:
            await identity.identify(sent, door="http", loopback=True)
        told = f"{caught.value.message} {caught.value.details} {caught.value.result()!r}"
        assert caught.value.reason == "unauthenticated"
        assert "canary" not in told.lower()
        assert caught.value.__cause__ is None
    said = caplog.text.lower()
    assert "canary" not in said
    assert good.split(b".")[2].decode().lower() not in said


async def test_the_right_ones_among_them(make: Any) -> None:
    identity = make(tokens=TOKENS)
    for sent in (b"Bearer " + SECRET, b"bearer " + SECRET, b"BEARER   " + SECRET + b"  "):
        caller = await identity.identify(sent, door="http", loopback=False)
        assert caller.principal.name == "ci"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.binary(max_size=80), start=st.sampled_from([b"", b"Bearer ", b"bearer a.b."]))
async def test_any_bytes_at_all(make: Any, text: bytes, start: bytes) -> None:
    identity = make(tokens=TOKENS)
    assert identity.known(start + text, "http", True) is None
    with pytest.raises(Fault):
        await identity.identify(start + text, door="http", loopback=True)


async def test_what_is_known_stays_bounded(
    make: Any, login: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from toolcrib.transports.identity import identity as module

    monkeypatch.setattr(module, "_MOST_KNOWN", 3)
    identity = make(jwt=(login.settings(),))
    sent = [login.bearer(sub=f"u{number}") for number in range(5)]
    for each in sent[:3]:
        await identity.identify(each, door="http", loopback=False)
    assert identity.known(sent[0], "http", False) is not None, "used last"
    for each in sent[3:]:
        await identity.identify(each, door="http", loopback=False)
    kept = [identity.known(each, "http", False) is not None for each in sent]
    assert kept == [True, False, False, True, True]
    assert len(identity._held) == 3
