"""Tokens by OAuth 2.0 client credentials: fetched when needed, kept while they last."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import quote
from weakref import WeakKeyDictionary

from toolcrib.core.jsontext import parse
from toolcrib.errors import JsonError, ToolFailure
from toolcrib.net.client import Client
from toolcrib.net.encoding import query_text
from toolcrib.net.exchange import Limits, Request, Response
from toolcrib.net.guard import Guard
from toolcrib.net.url import Url

_LIMITS = Limits(max_bytes=64 * 1024, total=30.0, redirects=0)
# A token that ends during a request is of no use.
_MARGIN = 30.0
_LASTS = 300.0


class TokenSource:
    """One client's tokens. Calls that need one at the same time wait for the same fetch."""

    def __init__(
        self,
        *,
        url: Url,
        guard: Guard,
        client_id: str,
        client_secret: str,
        scopes: tuple[str, ...] = (),
        audience: str | None = None,
        in_body: bool = False,
        keep_secret: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._guard = guard
        self._clock = clock
        self._keep_secret = keep_secret
        """Told of every token before it is used, so that it is hidden wherever it comes back."""
        self._token = ""
        self._until = 0.0
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )
        form = [("grant_type", "client_credentials")]
        if scopes:
            form.append(("scope", " ".join(scopes)))
        if audience:
            form.append(("audience", audience))
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        if in_body:
            form += [("client_id", client_id), ("client_secret", client_secret)]
        else:
            words = f"{quote(client_id, safe='')}:{quote(client_secret, safe='')}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(words).decode()}"
        self._request = Request(
            method="POST", url=url, headers=headers, body=query_text(form).encode(), repeatable=True
        )

    async def token(self, client: Client) -> str:
        """A token that lasts a while."""
        if self._clock() < self._until:
            return self._token
        loop = asyncio.get_running_loop()
        lock = self._locks.setdefault(loop, asyncio.Lock())
        async with lock:
            if self._clock() >= self._until:
                began = self._clock()
                self._token, lasts = _granted(
                    await client.send(self._request, self._guard, _LIMITS)
                )
                self._until = began + max(lasts - _MARGIN, lasts / 2)
                if self._keep_secret is not None:
                    self._keep_secret(self._token)
            return self._token

    def forget(self, token: str) -> None:
        """Let go of a token that was refused, unless a newer one is here already."""
        if token == self._token:
            self._until = 0.0


def _granted(response: Response) -> tuple[str, float]:
    place = response.url.without_query
    if response.status != 200:
        # The body is not quoted: some servers send back what they were given.
        raise ToolFailure(
            f"no token was granted: {place} answered with status {response.status}",
            reason="upstream_error",
        )
    try:
        value: Any = parse(response.body)
    except JsonError:
        value = None
    grant = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    token, kind = grant.get("access_token"), str(grant.get("token_type", "bearer"))
    lasts: Any = grant.get("expires_in", _LASTS)
    good = isinstance(token, str) and token.isascii() and token.isprintable() and " " not in token
    if not good or not token or kind.lower() != "bearer":
        raise ToolFailure(
            f"no token was granted: the answer of {place} holds no bearer token",
            reason="upstream_error",
        )
    number = isinstance(lasts, int | float) and not isinstance(lasts, bool)
    return cast("str", token), float(lasts) if number and lasts > 0 else _LASTS
