"""Becoming a client of an authorization server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from toolcrib.core.jsontext import shown
from toolcrib.providers.mcp.oauth.asking import Asker, object_in
from toolcrib.providers.mcp.oauth.clientauth import METHODS, choose_method
from toolcrib.providers.mcp.oauth.discovery import AuthorizationServer
from toolcrib.providers.mcp.oauth.faults import OAuthFailed
from toolcrib.providers.mcp.oauth.record import Registration
from toolcrib.providers.mcp.oauth.settings import OAuthSettings

_NAME = "Toolcrib"
_LONGEST = 4096


def configured_client(settings: OAuthSettings, server: AuthorizationServer) -> Registration | None:
    """Who the configuration says we are; None when it leaves that to registration."""
    if settings.client_id is None:
        return None
    method = settings.method or choose_method(
        server.methods, secret=settings.client_secret is not None, key=settings.key is not None
    )
    return Registration(
        client_id=settings.client_id, client_secret=settings.client_secret, method=method
    )


def documented_client(settings: OAuthSettings, server: AuthorizationServer) -> Registration | None:
    """A client that is named by the URL of a document about it, where the server takes that."""
    if settings.client_metadata_url is None or not server.takes_documents:
        return None
    method = "none" if settings.key is None else "private_key_jwt"
    return Registration(client_id=settings.client_metadata_url, method=method)


async def register(
    asker: Asker, server: AuthorizationServer, redirect_uri: str, scopes: tuple[str, ...]
) -> Registration:
    """Register as a new client (RFC 7591)."""
    if server.registration_endpoint is None:
        raise OAuthFailed(
            f"{server.issuer} does not register clients by itself; register one there with the "
            "redirect URI http://127.0.0.1/callback, and write its auth.client_id"
        )
    method = _preferred(server.methods)
    body: dict[str, Any] = {
        "client_name": _NAME,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        # Servers of OpenID refuse loopback addresses for web applications.
        "application_type": "native",
    }
    if scopes:
        body["scope"] = " ".join(scopes)
    headers = {"Content-Type": "application/json"}
    response = await asker.post(server.registration_endpoint, headers, msgspec.json.encode(body))
    said = object_in(response)
    if response.status not in (200, 201) or said is None:
        error = (said or {}).get("error")
        words = shown(error) if isinstance(error, str) else f"status {response.status}"
        raise OAuthFailed(f"{server.issuer} did not register Toolcrib as a client: {words}")
    return _registered(said, server.issuer, method, redirect_uri)


def _preferred(offered: tuple[str, ...] | None) -> str:
    """A client that runs on somebody's machine keeps no secret, if it need not."""
    if offered is None or "none" in offered:
        return "none"
    return choose_method(offered, secret=True, key=False)


def _registered(
    said: Mapping[str, Any], issuer: str, asked: str, redirect_uri: str
) -> Registration:
    client_id, secret = said.get("client_id"), said.get("client_secret")
    method = said.get("token_endpoint_auth_method", asked)
    if not isinstance(client_id, str) or not 0 < len(client_id) <= _LONGEST:
        raise OAuthFailed(f"{issuer} registered Toolcrib without a client_id")
    if method not in METHODS or method == "private_key_jwt":
        raise OAuthFailed(f"{issuer} wants clients to authenticate by {shown(method)}")
    if not isinstance(secret, str) or not 0 < len(secret) <= _LONGEST:
        secret = None
    until = said.get("client_secret_expires_at")
    lasts = isinstance(until, int | float) and not isinstance(until, bool) and until > 0
    return Registration(
        client_id=client_id,
        client_secret=secret,
        method=method,
        redirect_uri=redirect_uri,
        secret_until=float(until) if lasts and until is not None else None,
    )
