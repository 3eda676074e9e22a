"""Signed tokens (JWT): believed when an issuer of the configuration signed them for this host."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from toolcrib.core.clock import Clock
from toolcrib.core.jsontext import parse
from toolcrib.core.serving import JwtSettings
from toolcrib.errors import ConfigError, JsonError
from toolcrib.net.client import Client
from toolcrib.transports.faults import Fault
from toolcrib.transports.identity.keys import Keys

_LARGEST = 16 * 1024
_MOST_TRIED = 8
"""Keys that are tried for a token which names none."""
_TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})
_STRANGE = "the token is not one that this host accepts"


class Verified(NamedTuple):
    """A token whose signature is good."""

    issuer: JwtSettings
    claims: dict[str, Any]
    expires: float
    """Seconds since 1970, as the token says; clocks may differ by the leeway."""


class SignedTokens:
    """Checks tokens against the issuers of the configuration."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._keys: dict[JwtSettings, Keys] = {}
        self._gone: list[Keys] = []

    def renew(self, issuers: Sequence[JwtSettings]) -> None:
        """Believe these issuers and no others; keys of those that stay are kept."""
        if issuers:
            need_library()
        before = self._keys
        self._keys = {
            each: before.get(each) or Keys(each, self._client, self._clock) for each in issuers
        }
        self._gone += [keys for each, keys in before.items() if each not in self._keys]

    @property
    def issuers(self) -> tuple[JwtSettings, ...]:
        """Those that are believed."""
        return tuple(self._keys)

    async def close(self) -> None:
        """Stop looking for keys."""
        for keys in (*self._keys.values(), *self._gone):
            await keys.close()

    async def verify(self, token: bytes) -> Verified:
        """What a token says. Raises `Fault`; its message never quotes the token."""
        header, payload, claims = _parts(token)
        issuer = self._issuer(claims)
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in issuer.algorithms or not (kid is None or isinstance(kid, str)):
            raise Fault("unauthenticated", _STRANGE)
        # First of all what costs nothing, so that junk makes nobody look for keys.
        expires = self._check_times(claims, issuer.leeway)
        keys = await self._keys[issuer].find(algorithm, kid)
        if not any(_signed(token, payload, key, algorithm) for key in keys[:_MOST_TRIED]):
            raise Fault("unauthenticated", _STRANGE)
        return Verified(issuer, claims, expires)

    def _issuer(self, claims: dict[str, Any]) -> JwtSettings:
        said: Any = claims.get("aud")
        audience: list[Any] = cast("list[Any]", said) if isinstance(said, list) else [said]
        for issuer in self._keys:
            if claims.get("iss") == issuer.issuer and any(a in issuer.audience for a in audience):
                return issuer
        raise Fault("unauthenticated", _STRANGE)

    def _check_times(self, claims: dict[str, Any], leeway: float) -> float:
        now = self._clock.time()
        expires = _moment(claims, "exp")
        if expires is None or expires + leeway <= now:
            raise Fault("unauthenticated", "the token has expired")
        for name in ("nbf", "iat"):
            begins = _moment(claims, name)
            if begins is not None and begins - leeway > now:
                raise Fault("unauthenticated", "the token does not count yet")
        return expires


def need_library() -> None:
    """Raise a `ConfigError` when the library for signed tokens is not installed."""
    from importlib.util import find_spec

    if find_spec("jwt") is None or find_spec("cryptography") is None:
        raise ConfigError(
            "serve.jwt needs a library that is not installed",
            key="serve.jwt",
            cure="Install it with: pip install 'toolcrib[serve]'",
        )


def _parts(token: bytes) -> tuple[dict[str, Any], bytes, dict[str, Any]]:
    """Header, payload and claims, strictly read: what two readers could read differently is no
    token."""
    pieces = token.split(b".")
    if len(token) > _LARGEST or len(pieces) != 3 or not all(pieces):
        raise Fault("unauthenticated", _STRANGE)
    header, payload = _decoded(pieces[0]), _decoded(pieces[1])
    head, claims = _object(header), _object(payload)
    kind: Any = head.get("typ", "JWT")
    # A token of another type (a logout, a receipt) may have the same issuer and audience.
    if "crit" in head or "b64" in head or not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise Fault("unauthenticated", _STRANGE)
    return head, payload, claims


def _decoded(piece: bytes) -> bytes:
    try:
        return base64.b64decode(piece + b"=" * (-len(piece) % 4), b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise Fault("unauthenticated", _STRANGE) from None


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = parse(text, max_bytes=_LARGEST, max_depth=16)
    except JsonError:
        found = None
    if not isinstance(found, dict):
        raise Fault("unauthenticated", _STRANGE)
    return cast("dict[str, Any]", found)


def _moment(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e15:
        raise Fault("unauthenticated", _STRANGE)
    return float(value)


def _signed(token: bytes, payload: bytes, key: Any, algorithm: str) -> bool:
    from jwt.api_jws import PyJWS
    from jwt.exceptions import PyJWTError

    checking = PyJWS(algorithms=[algorithm], options={"enforce_minimum_key_length": True})
    try:
        done = checking.decode_complete(token, key, algorithms=[algorithm])
    except (PyJWTError, ValueError, TypeError):
        return False
    return done["payload"] == payload
