"""From credentials to a caller."""

from __future__ import annotations

import hmac
import logging
import os
import pwd
import re
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from weakref import WeakSet

from msgspec.structs import replace

from toolcrib.core.serving import ServeSettings, TokenSettings, followed
from toolcrib.errors import ConfigError
from toolcrib.host.config.serving import tokens_file
from toolcrib.host.host import ToolHost
from toolcrib.net.client import Client
from toolcrib.transports.caller import Badge, Caller
from toolcrib.transports.faults import Fault
from toolcrib.transports.identity.claims import holder
from toolcrib.transports.identity.doors import exposed
from toolcrib.transports.identity.signed import SignedTokens, Verified
from toolcrib.transports.identity.standing import (
    Standing,
    at_stdio,
    claimed,
    configured,
    operator,
)
from toolcrib.transports.identity.tokenfile import WatchedTokens

_MOST_KNOWN = 4096
_UNKNOWN = "the token is not known here, has expired or was revoked"
_NOBODY = "credentials are needed: send the header Authorization: Bearer TOKEN"
_UNREADABLE = "the header Authorization holds no token: send Authorization: Bearer TOKEN"
_BEARER = re.compile(rb"(?i:bearer) +([\x21-\x7e]{8,16384}) *").fullmatch
_FOREVER = float("inf")

_log = logging.getLogger("toolcrib")


class Peer(NamedTuple):
    """Who is at the other end of a unix socket, as the system says."""

    uid: int
    gid: int
    pid: int


class Pass(Badge):
    """Credentials that were good, and how to judge them again when the rules change."""

    __slots__ = ("__weakref__", "judge", "standing")

    def __init__(self, judge: Callable[[], Standing]) -> None:
        self.judge = judge
        self.standing = judge()
        super().__init__(self.standing.expires)


class Known(NamedTuple):
    """A caller whose credentials were found good."""

    caller: Caller
    until: float
    """Seconds since 1970: then it is checked again."""
    under: object
    """The rules by which it was judged."""


class Identity:
    """Knows who calls. Follows reloads of the host, and tokens made and revoked meanwhile: callers
    whose standing changed have to come again."""

    def __init__(self, host: ToolHost, settings: ServeSettings) -> None:
        self._host = host
        self._config = host.config
        self._settings = settings
        self._time = host.clock.time
        self._client = Client()
        self._signed = SignedTokens(self._client, host.clock)
        self._known: OrderedDict[tuple[bytes | None, str, bool], Known] = OrderedDict()
        self._passes: WeakSet[Pass] = WeakSet()
        self._by_hash: dict[str, TokenSettings] = {}
        self._held: dict[object, Pass] = {}
        """The pass of each token, user and door, so that all connections share it."""
        self._rules = object()
        """Another one whenever everybody is judged again."""
        self._kept = self._watched()
        self.renew(settings)

    # Asked with every request.

    def holds(self, known: Known) -> bool:
        """Whether what `known` gave is still so."""
        if self._host.config is not self._config or self._kept.changed():
            self._follow()
        return (
            known.under is self._rules
            and known.until > self._time()
            and not known.caller.badge.revoked
        )

    def known(self, authorization: bytes | None, door: str, loopback: bool) -> Known | None:
        """The caller, if these credentials were found good a moment ago; None: ask `identify`."""
        if self._host.config is not self._config or self._kept.changed():
            self._follow()
        # The header itself is not kept, only its hash.
        key = (
            None if authorization is None else sha256(authorization).digest(),
            door,
            loopback,
        )
        found = self._known.get(key)
        if found is None or found.until <= self._time() or found.caller.badge.revoked:
            return None
        self._known.move_to_end(key)
        return found

    async def identify(
        self,
        authorization: bytes | None,
        *,
        door: str,
        loopback: bool,
        peer: Peer | None = None,
    ) -> Caller:
        """The caller. Raises `Fault` (`unauthenticated`), whatever is wrong with the credentials;
        what was sent stands in no message and no log."""
        by_peer = authorization is None and (peer is not None or door == "unix")
        here = loopback or peer is not None
        found = None if by_peer else self.known(authorization, door, here)
        if found is not None:
            return found.caller
        try:
            if authorization is None:
                made = self._without(door, loopback, peer)
            else:
                made = await self._with(authorization)
        except Fault:
            raise
        except Exception as error:
            _log.error("checking credentials failed: %s", type(error).__name__)
            raise Fault("unauthenticated", _UNKNOWN) from None
        at_socket = peer is not None or door == "stdio"
        caller = Caller(
            made.standing.principal,
            door=door,
            profile=made.standing.profile,
            profiles=made.standing.profiles,
            # A proxy on this machine makes everybody look local.
            local=at_socket or (loopback and not exposed(self._settings.http)),
            badge=made,
        )
        if not by_peer:
            self._remember((_key(authorization), door, here), caller)
        return caller

    # When something changes.

    def look(self) -> None:
        """Notice what changed. To be called now and then, too: whoever is connected may never ask
        for anything again, and loses what was taken from it all the same."""
        if self._host.config is not self._config or self._kept.changed():
            self._follow()

    def renew(self, settings: ServeSettings) -> None:
        """Go by these settings from now on. Raises `ConfigError`, and changes nothing then."""
        self._signed.renew(settings.jwt)
        before, self._settings, self._config = self._settings, settings, self._host.config
        if before.tokens_file != settings.tokens_file:
            self._kept = self._watched()
        self._judge_again()

    async def close(self) -> None:
        """Let go of what is held."""
        await self._signed.close()
        await self._client.aclose()

    @property
    def guarded(self) -> bool:
        """Whether credentials are needed at all: tokens or issuers are configured."""
        settings = self._settings
        return bool(
            settings.tokens or settings.jwt or settings.tokens_file is not None or self._kept.there
        )

    def _watched(self) -> WatchedTokens:
        given = self._settings.tokens_file
        path = tokens_file(self._config) if given is None else Path(given)
        return WatchedTokens(path, self._host.clock.monotonic)

    def _follow(self) -> None:
        """Take over what the configuration changed; what was given in its stead stays."""
        before, after = self._config.serving, self._host.config.serving
        self._config = self._host.config
        http = followed(self._settings.http, before.http, after.http)
        settings = followed(self._settings, before, after)
        try:
            self.renew(replace(settings, http=http))
        except ConfigError as error:
            _log.error("what serve: says now is not in force: %s", error)
            self._judge_again()

    def _judge_again(self) -> None:
        """Let nobody in by what was known, and turn out those whose standing is another one."""
        self._by_hash = {token.hash: token for token in self._kept.tokens}
        self._by_hash |= {token.hash: token for token in self._settings.tokens}
        self._known.clear()
        self._rules = object()
        for each in list(self._passes):
            try:
                each.revoked = each.revoked or each.judge() != each.standing
            except Fault:
                each.revoked = True

    # Credentials.

    async def _with(self, authorization: bytes) -> Pass:
        match = _BEARER(authorization)
        if match is None:
            raise Fault("unauthenticated", _UNREADABLE)
        secret = match[1]
        digest = f"sha256:{sha256(secret).hexdigest()}"
        token = self._by_hash.get(digest)
        if token is not None and hmac.compare_digest(token.hash, digest):
            return self._pass(digest, partial(self._token, digest))
        if not self._settings.jwt or secret.count(b".") != 2:
            raise Fault("unauthenticated", _UNKNOWN)
        try:
            verified = await self._signed.verify(secret)
        except Fault:
            # Its key may have been withdrawn while a connection goes on with it.
            if (held := self._held.pop(digest, None)) is not None:
                held.revoked = True
            raise
        return self._pass(digest, partial(self._claims, verified))

    def _without(self, door: str, loopback: bool, peer: Peer | None) -> Pass:
        uid = None if peer is None else peer.uid
        return self._pass((door, loopback, uid), partial(self._nobody, door, loopback, uid))

    def _pass(self, key: object, judge: Callable[[], Standing]) -> Pass:
        made = Pass(judge)  # judged now: what was good may have expired
        held = self._held.get(key)
        if held is not None and not held.revoked and held.standing == made.standing:
            return held
        self._passes.add(made)
        if len(self._held) >= _MOST_KNOWN:
            self._held.pop(next(iter(self._held)))
        self._held[key] = made
        return made

    def _remember(self, key: tuple[bytes | None, str, bool], caller: Caller) -> None:
        expires = caller.badge.expires
        # Signed tokens are checked again now and then: their key may have been withdrawn.
        until = _FOREVER if expires is None else expires
        if self._settings.jwt:
            until = min(until, self._time() + min(each.cache for each in self._settings.jwt))
        while len(self._known) >= _MOST_KNOWN:
            self._known.popitem(last=False)
        self._known[key] = Known(caller, until, self._rules)

    # Judgements; each is asked again when the rules change.

    def _token(self, digest: str) -> Standing:
        token = self._by_hash.get(digest)
        if token is None or (token.expires is not None and token.expires <= self._time()):
            raise Fault("unauthenticated", _UNKNOWN)
        usual = self._settings.http.profile
        made = configured(self._host, token.principal, token.profile, usual)
        return replace(made, expires=token.expires)

    def _claims(self, verified: Verified) -> Standing:
        issuers = self._signed.issuers
        if verified.issuer not in issuers:
            raise Fault("unauthenticated", _UNKNOWN)
        others = [each for each in issuers if each is not verified.issuer]
        who = holder(verified.issuer, verified.claims, self._host.config.principals, others)
        made = claimed(self._host, self._settings, who, verified.issuer.profile)
        return replace(made, expires=verified.expires + verified.issuer.leeway)

    def _nobody(self, door: str, loopback: bool, uid: int | None) -> Standing:
        """Without credentials: by the door, and by what the system says of the other end."""
        http = self._settings.http
        if door == "stdio":
            return at_stdio(self._host, self._settings.stdio)
        if uid is not None:
            user = _user(uid)
            mapped = next((who for name, who in http.users if name in (user, str(uid))), None)
            if mapped is not None:
                return configured(self._host, mapped, None, http.profile)
            if uid in (0, os.geteuid()):
                return operator(self._host, http.profile)
            raise Fault("unauthenticated", f"the system user {user} is not among serve.http.users")
        if door != "unix" and loopback:
            if http.local is not None:
                return configured(self._host, http.local, None, http.profile)
            # Read again, a configuration may come to what would have been refused at the start.
            if not self.guarded and not exposed(http):
                return operator(self._host, http.profile)
        raise Fault("unauthenticated", _NOBODY)


def _key(authorization: bytes | None) -> bytes | None:
    return None if authorization is None else sha256(authorization).digest()


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
