"""Who we are to a server: credentials from the configuration, put on requests."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from urllib.parse import unquote

from msgspec.structs import replace

from toolcrib.errors import Denial
from toolcrib.net.addresses import Private
from toolcrib.net.client import Client
from toolcrib.net.encoding import HEADER_NAME, MANAGED, header_value, query_text
from toolcrib.net.exchange import Limits, Request, Response, Sending
from toolcrib.net.guard import Guard, guard_for
from toolcrib.net.oauth import TokenSource
from toolcrib.net.settings import Settings
from toolcrib.net.url import parse_url

_EMPTY: Mapping[str, str] = MappingProxyType({})
KeepSecret = Callable[[str], None]
_KINDS = ("bearer", "basic", "header", "query", "oauth")


@dataclass(frozen=True, kw_only=True, slots=True)
class Auth:
    """Credentials. Nothing of them appears in a representation."""

    headers: Mapping[str, str] = field(default_factory=lambda: _EMPTY, repr=False)
    query: str = field(default="", repr=False)
    """A piece of a query, encoded."""
    tokens: TokenSource | None = field(default=None, repr=False)

    async def signed(self, request: Request, client: Client) -> Request:
        """The request with the credentials on it."""
        if self.tokens is not None:
            token = await self.tokens.token(client)
            return _with(request, {"Authorization": f"Bearer {token}"})
        if self.headers:
            return _with(request, self.headers)
        if self.query:
            url = request.url
            joint = "&" if "?" in url.target else "?"
            return replace(request, url=url._replace(target=url.target + joint + self.query))
        return request

    @property
    def header_names(self) -> frozenset[str]:
        """The headers that are ours alone, in lower case."""
        names = {"authorization"} if self.tokens is not None else set(self.headers)
        return frozenset(name.lower() for name in names)

    @property
    def query_names(self) -> frozenset[str]:
        """The parameters of a query that are ours alone."""
        return frozenset({unquote(self.query.partition("=")[0])} if self.query else ())

    async def send(
        self,
        client: Client,
        request: Request,
        guard: Guard,
        limits: Limits,
        sending: Sending | None = None,
    ) -> Response:
        """Send a request with the credentials on it; once more with a new token if the server
        does not take the old one."""
        signed = await self.signed(request, client)
        response = await client.send(signed, guard, limits, sending)
        if response.status != 401 or self.tokens is None:
            return response
        self.tokens.forget(signed.headers["Authorization"].removeprefix("Bearer "))
        return await client.send(await self.signed(request, client), guard, limits, sending)


NOBODY = Auth()


def _with(request: Request, ours: Mapping[str, str]) -> Request:
    """The request with these headers; names that differ in case only are the same."""
    names = {name.lower() for name in ours}
    kept = {k: v for k, v in request.headers.items() if k.lower() not in names}
    return replace(request, headers={**kept, **ours})


def auth_from(
    settings: Settings | None, private: Private, keep_secret: KeepSecret | None = None
) -> Auth:
    """What a setting `auth` says. `keep_secret` is told of tokens that come up later."""
    if settings is None:
        return NOBODY
    settings.only(*_KINDS)
    given = [name for name in _KINDS if settings.has(name)]
    if len(given) != 1:
        settings.wrong("", "needs exactly one way", f"Use one of: {', '.join(_KINDS)}")
    if settings.has("bearer"):
        return Auth(headers={"Authorization": _said(settings, "bearer", "Bearer ")})
    if basic := settings.part("basic"):
        basic.only("user", "password")
        words = f"{basic.need('user')}:{basic.text('password', '')}".encode()
        return Auth(headers={"Authorization": f"Basic {base64.b64encode(words).decode()}"})
    if header := settings.part("header"):
        header.only("name", "value")
        name = header.need("name")
        check_header(header, "name", name)
        return Auth(headers={name: _said(header, "value")})
    if query := settings.part("query"):
        query.only("name", "value")
        return Auth(query=query_text([(query.need("name"), query.need("value"))]))
    oauth = settings.part("oauth")
    return NOBODY if oauth is None else Auth(tokens=_tokens(oauth, private, keep_secret))


def check_header(settings: Settings, key: str, name: str) -> None:
    """Refuse the name of a header that cannot be set."""
    if not HEADER_NAME(name):
        settings.wrong(key, f"names the header {name!r}, which is no name of a header")
    if name.lower() in MANAGED:
        settings.wrong(key, f"names the header {name}, which the client sets itself", "Remove it")


def _tokens(settings: Settings, private: Private, keep_secret: KeepSecret | None) -> TokenSource:
    settings.only("token_url", "client_id", "client_secret", "scopes", "audience", "send")
    try:
        url = parse_url(settings.need("token_url"))
    except Denial as error:
        settings.wrong("token_url", f"cannot be used: {error}")
    return TokenSource(
        url=url,
        guard=guard_for(url, private),
        client_id=settings.need("client_id"),
        client_secret=settings.need("client_secret"),
        scopes=settings.texts("scopes") or (),
        audience=settings.text("audience"),
        in_body=settings.choice("send", ("basic", "body"), "basic") == "body",
        keep_secret=keep_secret,
    )


def _said(settings: Settings, key: str, before: str = "") -> str:
    try:
        return header_value(key, before + settings.need(key))
    except Denial:
        settings.wrong(key, "holds characters that a header cannot carry")
