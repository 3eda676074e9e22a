"""A small OpenID issuer on 127.0.0.1: keys that rotate, tokens of any kind, answers that fail."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from loopback import Answer, Handler, Seen, Server, reply, reply_json, serve
from toolcrib.core.serving import JwtSettings, Tls

NOW = 1_800_000_000.0


@cache
def rsa_key(number: int = 0, bits: int = 2048) -> rsa.RSAPrivateKey:
    """A key that all tests share: making one takes a while."""
    return rsa.generate_private_key(65537, bits)


class Issuer:
    """What the issuer publishes now, and what was asked of it."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {"one": Ed25519PrivateKey.generate()}
        self.server: Server
        self.answer: Handler | None = None
        """What answers in its stead."""

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def fetched(self) -> int:
        """How often its keys were asked for."""
        return sum(seen.path == "/keys" for seen in self.server.seen)

    def handle(self, seen: Seen) -> Answer:
        if self.answer is not None:
            return self.answer(seen)
        if seen.path == "/keys":
            return reply_json(self.jwks())
        if seen.path == "/.well-known/openid-configuration":
            return reply_json({"issuer": self.url, "jwks_uri": f"{self.url}/keys"})
        return reply(status=404)

    def jwks(self) -> dict[str, Any]:
        return {"keys": [public(kid, key) for kid, key in self.keys.items()]}

    def settings(self, **more: Any) -> JwtSettings:
        given: dict[str, Any] = {"name": "", "audience": ("toolcrib",), "private": True, **more}
        return JwtSettings(**{"issuer": self.url, **given})

    def claims(self, **more: Any) -> dict[str, Any]:
        usual = {"iss": self.url, "aud": "toolcrib", "sub": "alice", "iat": NOW, "exp": NOW + 300}
        return {name: value for name, value in {**usual, **more}.items() if value is not None}

    def token(self, kid: str | None = "one", header: Any = None, **claims: Any) -> str:
        """A good token, but for what is said."""
        key = self.keys[kid or next(iter(self.keys))]
        return signed(self.claims(**claims), key, kid, header)

    def bearer(self, **more: Any) -> bytes:
        return b"Bearer " + self.token(**more).encode()


def algorithm_of(key: Any) -> str:
    if isinstance(key, rsa.RSAPrivateKey):
        return "RS256"
    return "ES256" if isinstance(key, ec.EllipticCurvePrivateKey) else "EdDSA"


def public(kid: str, key: Any) -> dict[str, Any]:
    """A key as a set of keys shows it."""
    makers = {"RS256": RSAAlgorithm, "ES256": ECAlgorithm, "EdDSA": OKPAlgorithm}
    made = makers[algorithm_of(key)].to_jwk(key.public_key(), as_dict=True)
    return {**made, "kid": kid, "use": "sig"}


def signed(claims: Any, key: Any, kid: str | None = None, header: Any = None) -> str:
    head = {**({} if kid is None else {"kid": kid}), **(header or {})}
    payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    return jwt.PyJWS().encode(payload, key, algorithm=algorithm_of(key), headers=head)


@asynccontextmanager
async def issuer() -> AsyncIterator[Issuer]:
    """A running issuer."""
    made = Issuer()
    async with serve(lambda seen: made.handle(seen)) as made.server:
        yield made


def certificate(folder: Path, name: str, number: int, password: bytes | None = None) -> Tls:
    """Files of a certificate for localhost that signs itself."""
    key = rsa_key(number)
    names = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(names)
        .issuer_name(names)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    how = (
        serialization.NoEncryption()
        if password is None
        else serialization.BestAvailableEncryption(password)
    )
    pem = serialization.Encoding.PEM
    (folder / f"{name}.pem").write_bytes(made.public_bytes(pem))
    (folder / f"{name}.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, how)
    )
    return Tls(certificate=str(folder / f"{name}.pem"), key=str(folder / f"{name}.key"))
