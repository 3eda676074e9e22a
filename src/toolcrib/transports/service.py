"""The one service behind every door: what each method does, whoever asks and however."""

from __future__ import annotations

import logging
import os
from collections.abc import Coroutine, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.core.result import ToolResult
from toolcrib.core.serving import ServeSettings
from toolcrib.errors import ConfigError, HostStopped, NotFound, StoreError
from toolcrib.host.host import ToolHost
from toolcrib.host.parts import Parts
from toolcrib.host.session import Session
from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault
from toolcrib.transports.sessions import Sessions, entered

if TYPE_CHECKING:
    from toolcrib.transports.calls import Calls
    from toolcrib.transports.events import Hub
    from toolcrib.transports.models import Health

_log = logging.getLogger("toolcrib")
_FEW = 500
"""Tools that are found out about soon enough when somebody asks."""
_MANY = 20_000
"""More than these would keep the start waiting, and nobody lists them all."""
EXPIRED = "the credentials of this connection do not hold any more; connect again"


class Service:
    """A gateway's methods on one host. A door brings who asks; nothing here believes a request."""

    def __init__(self, host: ToolHost, settings: ServeSettings | None = None) -> None:
        self.host = host
        self.settings = settings or ServeSettings()
        self.folder = _folder(host)
        self.parts: Parts
        """The running host's; there from `start` on."""
        self._hub: Hub | None = None
        self.sessions = Sessions(host, self.settings.sessions, self.folder)
        self.stopping = False

    @property
    def hub(self) -> Hub:
        """What carries events to viewers. There from the first one on, so that a gateway which
        nobody watches starts without it."""
        if self._hub is None:
            from toolcrib.transports import events

            http = self.settings.http
            self._hub = events.Hub(
                self.host,
                queue=http.queue,
                viewers=http.viewers,
                per_principal=http.viewers_per_principal,
            )
            if not self.stopping:
                self._hub.begin(self.parts)
        return self._hub

    @cached_property
    def calls(self) -> Calls:
        """What is known of calls beyond the request that made them."""
        from toolcrib.transports import calls

        return calls.Calls(self)

    async def start(self) -> None:
        """Start the host and what the doors share."""
        self.host.folder = self.folder
        self.parts = await self.host.start()
        await self.host.sources.settle(self.host.settings.ready)
        if _FEW < len(self.host.catalog) <= _MANY:
            from toolcrib.transports.warming import warm

            await warm(self.host, self.settings)
        await self.sessions.start()

    async def stop(self) -> None:
        """Let running calls end; then stop everything, the host too."""
        self.stopping = True
        await self.sessions.stop()
        try:
            await self.host.stop()
        finally:
            if "calls" in vars(self):
                await self.calls.stop()
            if self._hub is not None:
                await self._hub.stop()

    def renew(self, settings: ServeSettings) -> None:
        """Go by changed settings; sessions that are open keep the time they were given."""
        self.settings = settings
        self.sessions.settings = settings.sessions
        if self._hub is not None:
            self._hub.renew(settings.http)

    def health(self) -> Health:
        """How the host is: its trail, its providers, and whether it still takes calls."""
        from toolcrib.transports.methods.host import health

        return health(self)

    async def handle(self, caller: Caller, method: str, params: Any = None) -> Any:
        """The answer to one request. Raises `Fault` for what is wrong with the request."""
        from toolcrib.transports.methods import HANDLERS
        from toolcrib.transports.wire import METHODS

        row = METHODS.get(method)
        work = HANDLERS.get(method)
        if row is None or work is None:
            raise Fault("unknown_method", f"there is no method {method!r} here")
        if caller.badge.over:
            raise Fault("unauthenticated", EXPIRED)
        if row.right is not None:
            caller.need(row.right)
        try:
            request = msgspec.convert({} if params is None else params, row.request)
        except msgspec.ValidationError as error:
            raise Fault("invalid_request", f"{method}: {_words(error)}") from None
        try:
            return await work(self, caller, request)
        except Fault:
            raise
        except NotFound as error:
            raise Fault("not_found", str(error)) from None
        except ConfigError as error:
            raise Fault("config_rejected", str(error)) from None
        except StoreError as error:
            raise Fault("audit_unavailable", str(error)) from None
        except HostStopped as error:
            raise Fault("host_stopping", str(error)) from None
        except Exception:
            _log.exception("the method %s failed", method)
            raise Fault("unexpected_failure") from None

    # Calls.

    def place(
        self,
        caller: Caller,
        name: str,
        arguments: Mapping[str, Any] | None,
        *,
        session: str | None = None,
        profile: str | None = None,
        timeout: float | None = None,
        call_id: str | None = None,
    ) -> Coroutine[Any, Any, ToolResult]:
        """One call, from a door's request to its result. Never raises for something that is about
        the call."""
        host = self.host
        if session is None and profile is None and not caller.badge.over:
            books = host.planner.books
            if caller.books is not books:
                self._seat(caller, books)
            plan = None if caller.plans is None else caller.plans.get(name)
            own = caller.session
            # A session may have tools of its own under any name; then it has to be looked up.
            if plan is not None and (own is None or (not own.entries and not own.closed)):
                return self.parts.pipeline.run(
                    plan, caller.principal, own, arguments, timeout, call_id, caller.door
                )
        return self._careful(caller, name, arguments, session, profile, timeout, call_id)

    def _seat(self, caller: Caller, books: Any) -> None:
        """Find out once, until the rules change, whether the caller may use its own profile."""
        caller.principal = who = self.host.callers.current(caller.principal)
        _, chosen, _, problem, _ = self.host.callers.resolve(who, caller.profile, None)
        caller.plans = books.get(chosen) if problem is None else None
        caller.books = books

    async def _careful(
        self,
        caller: Caller,
        name: str,
        arguments: Mapping[str, Any] | None,
        session: str | None,
        profile: str | None,
        timeout: float | None,
        call_id: str | None,
    ) -> ToolResult:
        if caller.badge.over:
            return await self.host.calling.refuse(
                name, caller.principal, "unauthenticated", EXPIRED, call_id, caller.door
            )
        if not caller.may_use(profile):
            words = f"{caller.principal.name} may not use the profile {profile}"
            return await self.host.calling.refuse(
                name, caller.principal, "not_in_profile", words, call_id, caller.door
            )
        try:
            held = entered(self.host, caller, session, profile)
        except Fault as fault:
            return await self.host.calling.refuse(
                name, caller.principal, "not_in_profile", fault.message, call_id, caller.door
            )
        if profile is None and held is None:
            profile = caller.profile
        return await self.host.calling.call(
            name, arguments, caller.principal, profile, held, timeout, call_id, caller.door
        )

    def new_call_id(self) -> str:
        """A call id that no other call has."""
        return self.parts.new_call_id()

    async def open_session(
        self,
        caller: Caller,
        *,
        profile: str | None = None,
        cwd: str | None = None,
        metadata: dict[str, Any] | None = None,
        lasting: bool = True,
    ) -> Session:
        """A session of the caller's. Raises `Fault`."""
        return await self.sessions.open(
            caller, profile=profile, cwd=cwd, metadata=metadata, lasting=lasting
        )


def _folder(host: ToolHost) -> str:
    """Where calls without a session of their own work: the folder of the configuration."""
    sources = host.config.sources
    base = Path(sources[0]).parent if sources else Path.cwd()
    return os.path.abspath(base)  # noqa: PTH100 - links stay as written


def _words(error: msgspec.ValidationError) -> str:
    text = str(error)
    return text.replace("Object", "the request").replace(" - at `$", " at `")
