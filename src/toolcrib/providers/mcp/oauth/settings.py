"""The setting `auth` of an MCP server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, cast

from toolcrib.core.protocols import Workshop
from toolcrib.errors import Denial
from toolcrib.net.settings import Settings
from toolcrib.net.url import parse_url
from toolcrib.providers.mcp.oauth.challenge import scopes_from
from toolcrib.providers.mcp.oauth.clientauth import METHODS, SigningKey

Flow = Literal["code", "client_credentials"]
"""code: a person logs in · client_credentials: we come in our own name."""
_FLOWS = ("code", "client_credentials")
_KEYS = (
    "type",
    "flow",
    "issuer",
    "scopes",
    "client_id",
    "client_secret",
    "client_metadata_url",
    "registration",
    "redirect_port",
    "token_auth",
    "private_key",
    "private_key_file",
    "key_id",
    "signing",
)
_SIGNING = (
    "ES256",
    "ES384",
    "ES512",
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "EdDSA",
)
_METHODS = tuple(method.removeprefix("client_secret_") for method in METHODS)


@dataclass(frozen=True, kw_only=True, slots=True)
class OAuthSettings:
    """How a provider gets its tokens."""

    flow: Flow = "code"
    issuer: str | None = None
    """The only authorization server that is used; None takes the one that the upstream names."""
    scopes: tuple[str, ...] | None = None
    """The most that is ever asked for; None goes by what the upstream says."""
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    client_metadata_url: str | None = None
    register: bool = True
    """Whether we may register ourselves as a client."""
    redirect_port: int | None = None
    method: str | None = None
    key: SigningKey | None = None


def read_settings(settings: Settings, workshop: Workshop) -> OAuthSettings:
    """What the mapping `auth` says. Raises `ConfigError`."""
    kind = settings.text("type")
    if kind != "oauth":
        settings.wrong("type", "must be oauth", "Fixed credentials belong under headers")
    settings.only(*_KEYS)
    flow = cast("Flow", settings.choice("flow", _FLOWS, "code"))
    key = _key(settings, workshop)
    secret = settings.text("client_secret")
    if secret is not None:
        workshop.keep_secret(secret)
    scopes = settings.texts("scopes")
    if scopes is not None and scopes_from(" ".join(scopes)) != tuple(dict.fromkeys(scopes)):
        settings.wrong("scopes", "must be a list of scopes, none of them with a space or a quote")
    method = settings.text("token_auth")
    made = OAuthSettings(
        flow=flow,
        issuer=_https(settings, "issuer"),
        scopes=None if scopes is None else tuple(dict.fromkeys(scopes)),
        client_id=settings.text("client_id"),
        client_secret=secret,
        client_metadata_url=_document(settings),
        register=settings.choice("registration", ("auto", "never"), "auto") == "auto",
        redirect_port=settings.count("redirect_port", 1, 65535)
        if settings.has("redirect_port")
        else None,
        method=None if method is None else _method(settings),
        key=key,
    )
    _check(settings, made)
    return made


def _check(settings: Settings, made: OAuthSettings) -> None:
    if made.flow == "client_credentials":
        if made.client_id is None:
            settings.wrong("client_id", "is missing: client_credentials needs a registered client")
        if made.client_secret is None and made.key is None:
            settings.wrong("client_secret", "is missing", "Write it, or private_key_file")
    if made.client_id is None and made.client_secret is not None:
        settings.wrong("client_id", "is missing: a client_secret belongs to one")
    if made.method in ("client_secret_basic", "client_secret_post") and made.client_secret is None:
        settings.wrong("token_auth", "needs a client_secret")
    if made.method == "private_key_jwt" and made.key is None:
        settings.wrong("token_auth", "needs private_key_file")


def _method(settings: Settings) -> str:
    word = settings.choice("token_auth", _METHODS, "basic")
    return f"client_secret_{word}" if word in ("basic", "post") else word


def _key(settings: Settings, workshop: Workshop) -> SigningKey | None:
    pem, file = settings.text("private_key"), settings.text("private_key_file")
    if pem is not None and file is not None:
        settings.wrong("private_key_file", "and private_key are both given", "Remove one")
    if file is not None:
        try:
            pem = workshop.file(file).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            settings.wrong("private_key_file", f"cannot be read: {type(error).__name__}")
    if pem is None:
        for name in ("key_id", "signing"):
            if settings.has(name):
                settings.wrong(name, "needs private_key_file")
        return None
    workshop.keep_secret(pem)
    return SigningKey(
        pem=pem,
        algorithm=settings.choice("signing", _SIGNING, "ES256"),
        id=settings.text("key_id"),
    )


def _https(settings: Settings, name: str) -> str | None:
    text = settings.text(name)
    if text is not None:
        try:
            parse_url(text)
        except Denial as error:
            settings.wrong(name, f"cannot be used: {error}")
    return text


def _document(settings: Settings) -> str | None:
    text = _https(settings, "client_metadata_url")
    if text is not None:
        url = parse_url(text)
        if url.scheme != "https" or url.target == "/":
            settings.wrong(
                "client_metadata_url",
                "must be an https URL with a path",
                "It is where the document about this client is published",
            )
    return text
