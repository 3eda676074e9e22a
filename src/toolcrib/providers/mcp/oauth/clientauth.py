"""How a token endpoint is shown who we are."""

from __future__ import annotations

import base64
import secrets
import time
from dataclasses import dataclass, field
from urllib.parse import quote

from toolcrib.providers.mcp.oauth.faults import OAuthFailed
from toolcrib.providers.mcp.oauth.record import Registration

METHODS = ("client_secret_basic", "client_secret_post", "private_key_jwt", "none")
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_LASTS = 120
_INSTALL = "pip install 'toolcrib[oauth]'"


@dataclass(frozen=True, kw_only=True, slots=True)
class SigningKey:
    """What signs for us where a secret would be told."""

    pem: str = field(repr=False)
    algorithm: str
    id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """What a token request carries about the client."""

    headers: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    form: tuple[tuple[str, str], ...] = field(default=(), repr=False)


def proof_of(client: Registration, issuer: str, key: SigningKey | None) -> Proof:
    """Show who we are, the way that was agreed on."""
    if client.method == "private_key_jwt":
        if key is None:
            raise OAuthFailed("the client signs its requests, but private_key is not configured")
        return Proof(
            form=(
                ("client_id", client.client_id),
                ("client_assertion_type", _ASSERTION),
                ("client_assertion", _assertion(client.client_id, issuer, key)),
            )
        )
    secret = client.client_secret
    if client.method == "none" or secret is None:
        return Proof(form=(("client_id", client.client_id),))
    if client.method == "client_secret_post":
        return Proof(form=(("client_id", client.client_id), ("client_secret", secret)))
    words = f"{quote(client.client_id, safe='')}:{quote(secret, safe='')}".encode()
    return Proof(headers={"Authorization": f"Basic {base64.b64encode(words).decode()}"})


def choose_method(offered: tuple[str, ...] | None, *, secret: bool, key: bool) -> str:
    """The way to use, of those that a server offers. One that says nothing takes basic."""
    if key:
        return "private_key_jwt"
    if not secret:
        return "none"
    for method in ("client_secret_basic", "client_secret_post"):
        if offered is None or method in offered:
            return method
    return "client_secret_basic"


def _assertion(client_id: str, issuer: str, key: SigningKey) -> str:
    try:
        import jwt
    except ImportError:
        raise OAuthFailed(f"signing requests needs: {_INSTALL}") from None
    now = int(time.time())
    claims = {
        "iss": client_id,
        "sub": client_id,
        # The issuer, not the endpoint: it is of no use to any other server.
        "aud": issuer,
        "iat": now,
        "exp": now + _LASTS,
        "jti": secrets.token_urlsafe(16),
    }
    headers = None if key.id is None else {"kid": key.id}
    try:
        return jwt.encode(claims, key.pem, algorithm=key.algorithm, headers=headers)
    except (jwt.PyJWTError, ValueError, TypeError):
        raise OAuthFailed(
            f"private_key cannot sign by {key.algorithm}: it has to be a PEM key of that kind"
        ) from None
