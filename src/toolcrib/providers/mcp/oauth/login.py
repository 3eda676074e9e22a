"""From a challenge to tokens: find the server, become its client, and ask a person or ourselves."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from msgspec.structs import replace

from toolcrib.core.jsontext import shown
from toolcrib.net.url import Url
from toolcrib.providers.mcp.oauth.asking import Asker
from toolcrib.providers.mcp.oauth.challenge import MOST_SCOPES, Challenge
from toolcrib.providers.mcp.oauth.consent import Question, code_in
from toolcrib.providers.mcp.oauth.discovery import (
    AuthorizationServer,
    Resource,
    find_old_server,
    find_resource,
    find_server,
)
from toolcrib.providers.mcp.oauth.faults import OAuthFailed
from toolcrib.providers.mcp.oauth.granting import Granter
from toolcrib.providers.mcp.oauth.listener import Listener
from toolcrib.providers.mcp.oauth.record import Record, Registration, Tokens
from toolcrib.providers.mcp.oauth.registering import configured_client, documented_client, register
from toolcrib.providers.mcp.oauth.settings import OAuthSettings

Show = Callable[[str], Awaitable[None]]
"""Puts an address before a person."""
_OFFLINE = "offline_access"


@dataclass(frozen=True, slots=True)
class Found:
    """An upstream and its authorization server, as they describe themselves now."""

    resource: Resource
    server: AuthorizationServer


@dataclass(frozen=True, slots=True)
class Login:
    """What gets tokens for one upstream."""

    name: str
    upstream: Url
    settings: OAuthSettings
    asker: Asker
    patience: float = 300.0
    """Seconds that a person has."""

    async def discover(self, challenge: Challenge, record: Record) -> Found:
        """Look who speaks for the upstream now."""
        resource = await find_resource(self.asker, self.upstream, challenge)
        wanted = self.settings.issuer
        if wanted is not None and resource.issuers and wanted not in resource.issuers:
            raise OAuthFailed(
                f"{self.name}: the upstream names the authorization server "
                f"{shown(resource.issuers[0])}, but auth.issuer is {wanted}"
            )
        known = record.tokens.issuer if record.tokens is not None else None
        issuer = wanted or (
            known if known in resource.issuers else next(iter(resource.issuers), None)
        )
        if issuer is None:
            return Found(resource, await find_old_server(self.asker, self.upstream))
        return Found(resource, await find_server(self.asker, issuer))

    async def by_person(
        self, found: Found, record: Record, challenge: Challenge, show: Show
    ) -> Record:
        """Have a person log in. The record that comes back holds the tokens."""
        question = Question()
        async with self._listener(question, found, record) as listener:
            uri = listener.redirect_uri
            scopes = self.scopes(found, record, challenge)
            record, client = await self._client(found, record, uri, scopes)
            url = question.url(
                found.server,
                client_id=client.client_id,
                redirect_uri=uri,
                resource=found.resource.resource,
                scopes=scopes,
            )
            await show(url)
            code = code_in(await listener.answer(self.patience), found.server)
        granter = self.granter(found, client)
        return self._with(record, await granter.by_code(code, question.verifier, uri, scopes))

    async def by_credentials(self, found: Found, record: Record, challenge: Challenge) -> Record:
        """Come in our own name."""
        scopes = self.scopes(found, record, challenge)
        record, client = await self._client(found, record, None, scopes)
        return self._with(record, await self.granter(found, client).by_credentials(scopes))

    def granter(self, found: Found, client: Registration) -> Granter:
        """What asks the token endpoint."""
        return Granter(
            self.asker,
            issuer=found.server.issuer,
            endpoint=found.server.token_endpoint,
            resource=found.resource.resource,
            client=client,
            key=self.settings.key,
        )

    def again(self, tokens: Tokens) -> Granter:
        """What asks the token endpoint that granted tokens before."""
        client = tokens.client
        if self.settings.client_id is not None:
            client = replace(client, client_secret=self.settings.client_secret)
        return Granter(
            self.asker,
            issuer=tokens.issuer,
            endpoint=self.asker.url(tokens.token_endpoint, "the token_endpoint"),
            resource=tokens.resource,
            client=client,
            key=self.settings.key,
        )

    def scopes(self, found: Found, record: Record, challenge: Challenge) -> tuple[str, ...]:
        """What to ask for: what the upstream wants now, and what was asked for before."""
        if self.settings.scopes is not None:
            return self.settings.scopes
        said = challenge.scopes or found.resource.scopes
        tokens = record.tokens
        before = tokens.requested if tokens and tokens.issuer == found.server.issuer else ()
        wanted = dict.fromkeys((*before, *said, *record.wanted))
        if wanted and self.settings.flow == "code" and _OFFLINE in found.server.scopes:
            wanted[_OFFLINE] = None
        return tuple(wanted)[:MOST_SCOPES]

    def fits(self, record: Record) -> bool:
        """Whether what is kept is for this upstream, and no more than the settings allow now."""
        tokens, settings = record.tokens, self.settings
        if record.url != str(self.upstream):
            return False
        if tokens is None:
            return True
        return (
            tokens.flow == settings.flow
            and settings.issuer in (None, tokens.issuer)
            and settings.client_id in (None, tokens.client.client_id)
            and (settings.scopes is None or {*settings.scopes}.issuperset(tokens.requested))
        )

    def without_secrets(self, tokens: Tokens) -> Tokens:
        """Tokens as they are kept: what the configuration holds is not written a second time."""
        if self.settings.client_id is None:
            return tokens
        return replace(tokens, client=replace(tokens.client, client_secret=None))

    def _with(self, record: Record, tokens: Tokens) -> Record:
        return replace(record, tokens=self.without_secrets(tokens), wanted=())

    def _listener(self, question: Question, found: Found, record: Record) -> Listener:
        # A registered address is used again, so that no server collects clients.
        kept = record.registrations.get(found.server.issuer)
        rather = urlsplit(kept.redirect_uri).port if kept and kept.redirect_uri else None
        return Listener(question.state, self.settings.redirect_port, rather=rather)

    async def _client(
        self, found: Found, record: Record, uri: str | None, scopes: tuple[str, ...]
    ) -> tuple[Record, Registration]:
        server = found.server
        client = configured_client(self.settings, server)
        if client is not None:
            return self._bind(record, server.issuer), client
        client = documented_client(self.settings, server)
        if client is not None:
            return record, client
        client = record.registrations.get(server.issuer)
        usable = client is not None and client.redirect_uri == uri and _lasts(client)
        if client is None or not usable:
            if not self.settings.register or uri is None:
                raise OAuthFailed(
                    f"{self.name}: who we are to {server.issuer} is not known; "
                    "write auth.client_id, or auth.client_metadata_url"
                )
            client = await register(self.asker, server, uri, scopes)
        registrations = {**record.registrations, server.issuer: client}
        return replace(record, registrations=registrations), client

    def _bind(self, record: Record, issuer: str) -> Record:
        """Configured credentials belong to the server they were first used with: an upstream that
        names another one does not get them sent there."""
        if self.settings.issuer is None and record.bound not in (None, issuer):
            raise OAuthFailed(
                f"{self.name}: auth.client_id belongs to {record.bound}, but the upstream names "
                f"{issuer} now. If that is right, run: toolcrib auth logout {self.name}"
            )
        return replace(record, bound=issuer)


def _lasts(client: Registration) -> bool:
    return client.secret_until is None or client.secret_until > time.time() + 60
