"""Token requests, and what they grant."""

from __future__ import annotations

import time
from typing import Any

from toolcrib.core.jsontext import shown
from toolcrib.net.encoding import query_text
from toolcrib.net.exchange import Response
from toolcrib.net.url import Url
from toolcrib.providers.mcp.oauth.asking import Asker, object_in
from toolcrib.providers.mcp.oauth.challenge import scopes_from
from toolcrib.providers.mcp.oauth.clientauth import SigningKey, proof_of
from toolcrib.providers.mcp.oauth.faults import OAuthFailed, Refused
from toolcrib.providers.mcp.oauth.record import Registration, Tokens

_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
_LONGEST = 64 * 1024
_Pairs = tuple[tuple[str, str], ...]


class Granter:
    """Asks one token endpoint for tokens for one resource."""

    def __init__(
        self,
        asker: Asker,
        *,
        issuer: str,
        endpoint: Url,
        resource: str,
        client: Registration,
        key: SigningKey | None,
    ) -> None:
        self._asker = asker
        self._issuer = issuer
        self._endpoint = endpoint
        self._resource = resource
        self._client = client
        self._key = key

    async def by_code(
        self, code: str, verifier: str, redirect_uri: str, requested: tuple[str, ...]
    ) -> Tokens:
        """What a person allowed."""
        form = (
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect_uri),
            ("code_verifier", verifier),
        )
        return await self._ask("code", form, requested)

    async def by_credentials(self, requested: tuple[str, ...]) -> Tokens:
        """What we are allowed ourselves."""
        form: _Pairs = (("grant_type", "client_credentials"),)
        if requested:
            form = (*form, ("scope", " ".join(requested)))
        return await self._ask("client_credentials", form, requested)

    async def by_refresh(self, old: Tokens) -> Tokens:
        """The same again. A server that sends no new refresh token lets the old one count on."""
        form = (("grant_type", "refresh_token"), ("refresh_token", old.refresh_token or ""))
        return await self._ask(old.flow, form, old.requested, old)

    async def _ask(
        self, flow: str, form: _Pairs, requested: tuple[str, ...], old: Tokens | None = None
    ) -> Tokens:
        proof = proof_of(self._client, self._issuer, self._key)
        pairs = (*form, ("resource", self._resource), *proof.form)
        body = query_text(pairs).encode()
        began = time.time()
        response = await self._asker.post(self._endpoint, {**_FORM, **proof.headers}, body)
        said = _granted(response)
        scopes = scopes_from(said.get("scope")) or (old.scopes if old is not None else requested)
        refresh = said.get("refresh_token")
        if not _is_token(refresh):
            refresh = old.refresh_token if old is not None else None
        return Tokens(
            flow=flow,
            issuer=self._issuer,
            token_endpoint=str(self._endpoint),
            resource=self._resource,
            client=self._client,
            access_token=said["access_token"],
            refresh_token=refresh,
            scopes=scopes,
            requested=requested,
            obtained=began,
            expires=_until(said.get("expires_in"), began),
        )


def _granted(response: Response) -> dict[str, Any]:
    place = response.url.without_query
    said = object_in(response) or {}
    error = said.get("error")
    if response.status != 200:
        # Its description is not quoted: some servers send back what they were given.
        words = shown(error) if isinstance(error, str) else f"status {response.status}"
        text = f"no token was granted: {place} answered {words}"
        if isinstance(error, str) and response.status < 500:
            raise Refused(text, error)
        raise OAuthFailed(text, retryable=response.status >= 500)
    if not _is_token(said.get("access_token")):
        raise OAuthFailed(f"no token was granted: the answer of {place} holds no usable token")
    if str(said.get("token_type", "")).lower() != "bearer":
        raise OAuthFailed(f"no token was granted: {place} gives no tokens of the type Bearer")
    return said


def _is_token(value: object) -> bool:
    """Whether it can stand in a header."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST:
        return False
    return value.isascii() and value.isprintable() and " " not in value


def _until(lasts: object, began: float) -> float | None:
    if isinstance(lasts, str) and lasts.isascii() and lasts.isdigit():
        lasts = int(lasts[:12])
    if isinstance(lasts, bool) or not isinstance(lasts, int | float) or not 0 < lasts < 1e10:
        return None
    return began + lasts
