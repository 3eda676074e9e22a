"""What is kept of a login."""

from __future__ import annotations

import msgspec


class Registration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who we are to one authorization server."""

    client_id: str
    client_secret: str | None = None
    method: str = "none"
    """How the token endpoint is shown who we are."""
    redirect_uri: str | None = None
    """What was registered; None for a client that was not registered here."""
    secret_until: float | None = None
    """When the secret ends, in seconds since 1970."""


class Tokens(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an authorization server granted."""

    flow: str
    """How they were come by: `code` or `client_credentials`."""
    issuer: str
    token_endpoint: str
    resource: str
    client: Registration
    """Who they were granted to; a configured secret is not kept here."""
    access_token: str
    refresh_token: str | None = None
    scopes: tuple[str, ...] = ()
    """What was granted, as far as it is known."""
    requested: tuple[str, ...] = ()
    """What was asked for."""
    obtained: float
    expires: float | None = None
    """Seconds since 1970; None where the server did not say."""


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything about one provider."""

    url: str
    """The upstream that this is for; a provider with another URL has no part in it."""
    tokens: Tokens | None = None
    registrations: dict[str, Registration] = {}
    """By issuer: who we are to one of them is nobody else's business."""
    bound: str | None = None
    """The issuer that the configured credentials were first used with."""
    wanted: tuple[str, ...] = ()
    """Scopes that calls were refused for; the next login asks for them, too."""
