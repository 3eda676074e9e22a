"""Requests to places that an upstream named: nothing there is trusted."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_network
from typing import Any, cast

from toolcrib.core.jsontext import parse
from toolcrib.errors import Denial, JsonError, ToolFailure
from toolcrib.net.addresses import Private, address_from
from toolcrib.net.client import Client
from toolcrib.net.exchange import Limits, Request, Response
from toolcrib.net.guard import Guard
from toolcrib.net.url import Url, parse_url
from toolcrib.providers.mcp.oauth.faults import OAuthFailed

_READING = Limits(max_bytes=256 * 1024, error_bytes=16 * 1024, total=20.0, redirects=3)
# What is posted holds secrets: it goes to the place it was meant for, or nowhere.
_POSTING = Limits(max_bytes=256 * 1024, error_bytes=16 * 1024, total=20.0, redirects=0)
_LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by what is written."""
    address = address_from(host)
    if address is None:
        return host == "localhost"
    return any(address in network for network in _LOOPBACK)


def is_safe(url: Url) -> bool:
    """Whether credentials may travel there: nobody can listen on the way."""
    return url.scheme == "https" or is_loopback(url.host)


class OAuthGuard(Guard):
    """Lets https through, and http within this machine; every redirect is asked about, too."""

    def check(self, url: Url) -> None:
        """Refuse a place by what is written; where its name leads is checked on connecting."""
        if not is_safe(url):
            raise Denial("url_not_allowed", f"{url.origin} is refused: only https is allowed")
        super().check(url)


class Asker:
    """Sends the requests of one upstream's authorization.

    Places lead to private addresses only if the operator said so for the upstream, and to this
    machine only if the upstream is here itself.
    """

    def __init__(self, client: Client, upstream: Url, private: Private) -> None:
        self._client = client
        local = is_loopback(upstream.host)
        networks = (*private.networks, *(_LOOPBACK if local else ()))
        self._guard = OAuthGuard(private=Private(ordinary=private.ordinary, networks=networks))

    def url(self, text: object, what: str) -> Url:
        """A URL that an upstream gave, if it may be asked, or shown to a person."""
        if not isinstance(text, str):
            raise OAuthFailed(f"{what} is not a URL")
        try:
            url = parse_url(text)
            self._guard.check(url)
        except Denial as error:
            raise OAuthFailed(f"{what} cannot be used: {error}") from None
        return url

    async def get(self, url: Url) -> Response:
        """A document."""
        headers = {"Accept": "application/json"}
        request = Request(method="GET", url=url, headers=headers, repeatable=True)
        return await self._send(request, _READING)

    async def post(self, url: Url, headers: Mapping[str, str], body: bytes) -> Response:
        """What a server says to a form or a document."""
        said = {"Accept": "application/json", **headers}
        return await self._send(Request(method="POST", url=url, headers=said, body=body), _POSTING)

    async def _send(self, request: Request, limits: Limits) -> Response:
        try:
            return await self._client.send(request, self._guard, limits)
        except Denial as error:
            raise OAuthFailed(str(error)) from None
        except ToolFailure as error:
            raise OAuthFailed(error.message, retryable=error.retryable) from None


def object_in(response: Response) -> dict[str, Any] | None:
    """The JSON object that an answer holds; None where it holds none."""
    try:
        value: Any = parse(response.body)
    except JsonError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
