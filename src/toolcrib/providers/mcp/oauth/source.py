"""The tokens of one upstream: handed out, renewed before they end, and replaced when refused."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from toolcrib.errors import StoreError, ToolFailure
from toolcrib.net.client import Client
from toolcrib.net.url import Url
from toolcrib.providers.mcp.oauth.challenge import (
    MOST_SCOPES,
    NOTHING_SAID,
    Challenge,
    challenge_in,
)
from toolcrib.providers.mcp.oauth.faults import LoginNeeded, OAuthFailed, Refused
from toolcrib.providers.mcp.oauth.login import Found, Login, Show
from toolcrib.providers.mcp.oauth.record import Record, Tokens
from toolcrib.providers.mcp.oauth.vault import Vault

_MARGIN = 30.0
"""A token that ends during a request is of no use."""
_BETWEEN = 0.5
"""Seconds between two looks at the file, which another process may have changed."""
_FRESH = 60.0
"""A token that is refused at this age was never good: another one would fare no better."""
_STEPS = 3
"""How often an upstream can have more scopes asked for, for each login."""
_PROBE = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
_PROBE_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}


class OAuth:
    """Puts tokens on requests to one upstream. All callers wait for the same renewal, and so do
    other processes that share the file."""

    def __init__(
        self,
        login: Login,
        vault: Vault,
        *,
        client: Client,
        keep_secret: Callable[[str], None],
        show: Show | None = None,
    ) -> None:
        self._login = login
        self._vault = vault
        self._client = client
        self._keep_secret = keep_secret
        self._show = show
        self._record = Record(url=str(login.upstream))
        self._seen: object = self  # no signature equals it
        self._next = 0.0
        self._lock = asyncio.Lock()
        self._renewing: asyncio.Task[Tokens] | None = None
        self._steps = 0

    @property
    def name(self) -> str:
        """The provider's name."""
        return self._login.name

    @property
    def upstream(self) -> Url:
        """Where the tokens are for."""
        return self._login.upstream

    @property
    def by_person(self) -> bool:
        """Whether a person has to log in."""
        return self._login.settings.flow == "code"

    @property
    def identity(self) -> str:
        """Who we are to the upstream now; changes with the login."""
        tokens = self._record.tokens
        return "" if tokens is None else f"{tokens.issuer} {tokens.client.client_id}"

    async def aclose(self) -> None:
        """Let go of connections, after a renewal that is under way: half of one loses a login."""
        if self._renewing is not None:
            await asyncio.wait([self._renewing])
        await self._client.aclose()

    async def headers(self) -> dict[str, str]:
        """What a request to the upstream has to carry now; nothing before the first challenge."""
        tokens = self._look().tokens
        if tokens is None:
            return {}
        if tokens.expires is not None:
            now, lasts = time.time(), tokens.expires - tokens.obtained
            if now >= tokens.expires - min(_MARGIN, lasts / 2):
                renewed = await self._due(tokens, now)
                if renewed is None:
                    return {}
                tokens = renewed
        return {"Authorization": f"Bearer {tokens.access_token}"}

    async def challenged(
        self, status: int, headers: Mapping[str, str], sent: Mapping[str, str] | None = None
    ) -> bool:
        """What to do about a refusal: true when the request is to be sent again with new headers,
        false when nothing here can help. Raises `LoginNeeded` where only a person can."""
        challenge = challenge_in(headers)
        if status != 401 and (status != 403 or challenge.error != "insufficient_scope"):
            return False
        before = self._record.tokens
        used = (
            (sent or {}).get("Authorization", "").removeprefix("Bearer ")
            if sent is not None or before is None
            else before.access_token
        )
        async with self._lock:
            tokens = self._look(now=True).tokens
            if tokens is not None and tokens.access_token != used and _alive(tokens):
                return True
            if status == 403:
                return await self._step_up(challenge, tokens)
            return await self._replace(challenge, tokens)

    async def login(self) -> Tokens:
        """Log in now, whatever is kept; the upstream is asked what it wants first."""
        url = self._login.upstream
        probe = await self._login.asker.post(url, _PROBE_HEADERS, _PROBE)
        challenge = challenge_in(probe.headers) if probe.status == 401 else NOTHING_SAID
        async with self._lock:
            record = self._look(now=True)
            return await self._begin(await self._login.discover(challenge, record), challenge)

    def kept(self) -> Record:
        """What is known now."""
        return self._look(now=True)

    # Tokens that are refused.

    async def _replace(self, challenge: Challenge, tokens: Tokens | None) -> bool:
        record = self._record
        # Always looked up again: the upstream may have moved to another authorization server.
        found = await self._login.discover(challenge, record)
        issuer = found.server.issuer
        if tokens is None:
            await self._begin(found, challenge, "nobody is logged in")
            return True
        if tokens.issuer != issuer:
            why = f"its authorization server is {issuer} now, no longer {tokens.issuer}"
            await self._begin(found, challenge, why)
            return True
        if _alive(tokens) and time.time() - tokens.obtained < _FRESH:
            return False
        if tokens.refresh_token is not None:
            try:
                await self._renewed(tokens)
                return True
            except Refused:
                pass
        await self._begin(found, challenge, "the login has ended")
        return True

    async def _step_up(self, challenge: Challenge, tokens: Tokens | None) -> bool:
        requested = () if tokens is None else tokens.requested
        more = tuple(scope for scope in challenge.scopes if scope not in requested)
        if not more:
            # Asking for the same again would be granted or refused just the same.
            return False
        words = " ".join(more)
        if self._login.settings.scopes is not None:
            raise OAuthFailed(
                f"{self.name}: the upstream wants the scope {words}, "
                "which auth.scopes does not hold"
            )
        await self._want(more)
        if self.by_person and self._show is None:
            raise LoginNeeded(self.name, f"the scope {words} is needed")
        if self._steps >= _STEPS:
            return False
        self._steps += 1
        found = await self._login.discover(challenge, self._record)
        await self._begin(found, challenge)
        return True

    async def _want(self, more: tuple[str, ...]) -> None:
        """Keep in mind what calls were refused for, for whoever logs in next."""
        async with self._vault.alone(self.name):
            record = self._look(now=True)
            wanted = tuple(dict.fromkeys((*record.wanted, *more)))[:MOST_SCOPES]
            if wanted != record.wanted:
                await self._keep(replace(record, wanted=wanted))

    async def _begin(self, found: Found, challenge: Challenge, why: str = "") -> Tokens:
        """New tokens: by our own credentials, or by the person who can be asked here."""
        record, login = self._record, self._login
        if login.settings.flow == "client_credentials":
            record = await login.by_credentials(found, record, challenge)
        elif self._show is None:
            raise LoginNeeded(self.name, why)
        else:
            record = await login.by_person(found, record, challenge, self._show)
        # After a renewal that is under way somewhere: it would put its own tokens in their place.
        async with self._vault.alone(self.name):
            await self._keep(record)
        assert record.tokens is not None  # noqa: S101 - both ways end with tokens
        return record.tokens

    # Tokens that end.

    async def _due(self, tokens: Tokens, now: float) -> Tokens | None:
        """What to use in place of tokens that end; None to have the upstream ask for new ones."""
        over = tokens.expires is not None and now >= tokens.expires
        can = tokens.refresh_token is not None or self._login.settings.flow != "code"
        if can:
            try:
                return await self._renewed(tokens)
            except Refused:
                if self._record.tokens is None:
                    return None
            except OAuthFailed:
                if over:
                    raise
        if not over:
            return tokens
        if self._show is None and self._login.settings.flow == "code":
            raise LoginNeeded(self.name, "the login has ended")
        return None

    async def _renewed(self, old: Tokens) -> Tokens:
        """Newer tokens. Whoever waits may be cancelled, the renewal is not: a refresh token counts
        once, and what it brought has to be kept."""
        task = self._renewing
        if task is None or task.done():
            task = self._renewing = asyncio.create_task(self._renew(old))
            # When nobody is left to read its failure, nobody has to.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    async def _renew(self, old: Tokens) -> Tokens:
        async with self._vault.alone(self.name):
            newest = self._look(now=True).tokens
            if newest is not None and newest.access_token != old.access_token and _alive(newest):
                return newest
            if newest is None:
                raise Refused(f"{self.name}: the login was forgotten", "forgotten")
            granter = self._login.again(old)
            try:
                if old.refresh_token is not None:
                    tokens = await granter.by_refresh(old)
                else:
                    tokens = await granter.by_credentials(old.requested)
            except Refused:
                # It is used up. Servers take a second try for a theft.
                await self._keep(replace(self._record, tokens=replace(old, refresh_token=None)))
                raise
            await self._keep(replace(self._record, tokens=self._login.without_secrets(tokens)))
            return tokens

    # What is kept.

    def _look(self, *, now: bool = False) -> Record:
        """What is known: what this process got, or what another one wrote since."""
        moment = time.monotonic()
        if not now and moment < self._next:
            return self._record
        self._next = moment + _BETWEEN
        signature = self._vault.signature()
        if signature != self._seen:
            try:
                found = self._vault.read(self.name)
            except StoreError as error:
                raise ToolFailure(str(error), reason="tool_unavailable") from None
            # What was granted for another place is not sent to this one.
            fits = found is not None and self._login.fits(found)
            self._take(found if found is not None and fits else Record(url=self._record.url))
            self._steps = 0
            self._seen = signature
        return self._record

    async def _keep(self, record: Record) -> None:
        self._take(record)
        try:
            await asyncio.to_thread(self._vault.write, self.name, record)
        except StoreError as error:
            raise ToolFailure(str(error), reason="tool_unavailable") from None
        self._seen = self._vault.signature()

    def _take(self, record: Record) -> None:
        tokens = record.tokens
        if tokens is not None and tokens != self._record.tokens:
            for secret in (tokens.access_token, tokens.refresh_token, tokens.client.client_secret):
                if secret is not None:
                    self._keep_secret(secret)
        self._record = record


def _alive(tokens: Tokens) -> bool:
    return tokens.expires is None or tokens.expires > time.time()
