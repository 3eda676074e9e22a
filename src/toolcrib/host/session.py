"""A principal's stay at the host."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from toolcrib.core.entry import Entry
from toolcrib.core.ledger import SessionRow
from toolcrib.core.names import look_alikes
from toolcrib.core.principal import Principal
from toolcrib.core.result import ToolResult
from toolcrib.errors import NameTaken
from toolcrib.executors.python import arrived
from toolcrib.host.entries import close_instance

if TYPE_CHECKING:
    from toolcrib.core.context import ToolContext
    from toolcrib.host.host import ToolHost
    from toolcrib.pipeline.plan import Plan

_log = logging.getLogger("toolcrib")


class Session:
    """Who is there, under which profile, with which tools of its own.

    Its id names it and authorises nothing. Instances of session-scoped tools live here and are
    closed with it.
    """

    def __init__(
        self,
        host: ToolHost,
        *,
        principal: Principal,
        profile: str | None,
        cwd: str,
        environment: Mapping[str, str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        door: str = "python",
        ephemeral: bool = False,
        idle: float | None = None,
        lifetime: float | None = None,
    ) -> None:
        self.id = f"s{os.urandom(8).hex()}"
        self.principal = principal
        self.profile = profile
        self.cwd = cwd
        self.environment: Mapping[str, str] = MappingProxyType(dict(environment or {}))
        self.metadata: Mapping[str, Any] = MappingProxyType(dict(metadata or {}))
        self.door = door
        self.ephemeral = ephemeral
        """Made for one call only; nothing is remembered for it."""
        self.passing = False
        """Whether it ends with its connection. An answer to its calls is tied to principal and door
        then, so that a client that was cut off finds it when it comes back."""
        self._kept: asyncio.Future[None] | None = None
        """Done when the store has it."""
        self.created = self.used = host.clock.time()
        """Seconds since 1970, as is `used`: when it was last asked for."""
        self.idle = idle
        """Seconds without use after which it is over; None means never."""
        self.lifetime = lifetime
        """Seconds after which it is over in any case; None means never."""
        self.closed = False
        self.entries: dict[str, Entry] = {}
        """Tools that only this session has."""
        self.plans: dict[str, tuple[object, Plan]] = {}
        """Compiled plans of its own tools, each with the books it was made beside."""
        self._host = host
        self._instances: dict[object, Future[Any]] = {}

    def __repr__(self) -> str:
        return f"<Session {self.id} of {self.principal.name}>"

    @property
    def expires(self) -> float | None:
        """When it is over unless it is used before."""
        ends = [
            start + seconds
            for start, seconds in ((self.used, self.idle), (self.created, self.lifetime))
            if seconds is not None
        ]
        return min(ends, default=None)

    @property
    def over(self) -> bool:
        """Whether its time is up."""
        expires = self.expires
        return expires is not None and self._host.clock.time() >= expires

    def touch(self) -> None:
        """It was asked for just now."""
        if self.idle is not None:
            self.used = self._host.clock.time()

    async def __aenter__(self) -> Session:
        parts = await self._host.start()
        self._host.callers.sessions[self.id] = self
        self._kept = asyncio.ensure_future(parts.store.put_session(self.row()))
        if self.passing:
            # What ends with its connection is found by nobody later: the client need not wait for
            # the disk. Calls wait for their own records, and are refused where there can be none.
            self._kept.add_done_callback(self._told_kept)
        else:
            await self._kept
        self._host.announce_fact("session.opened", self.facts())
        return self

    def _told_kept(self, kept: asyncio.Future[None]) -> None:
        if not kept.cancelled() and kept.exception() is not None:
            _log.error("the session %s could not be kept: %s", self.id, kept.exception())

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Call a tool as this session's principal, under its profile."""
        return await self._host.call(
            name, arguments, session=self, timeout=timeout, call_id=call_id
        )

    def register(self, thing: Any, *, replace: bool = False) -> None:
        """Add a tool that only this session sees."""
        entry = self._host.entry_for(thing, owner=f"session {self.id}")
        looks = {*look_alikes(entry.name)}
        other = self._host.catalog.alike(entry.name) or next(
            (name for name in self.entries if not looks.isdisjoint(look_alikes(name))), None
        )
        if other is not None and not (replace and other == entry.name):
            raise NameTaken(
                f"the name {entry.name!r} is taken, or looks like {other!r} which is",
                cure="Choose another name",
            )
        self.entries[entry.name] = entry
        self._host.session_changed(self)

    def unregister(self, name: str) -> bool:
        """Remove a tool of this session."""
        gone = self.entries.pop(name, None)
        self._host.session_changed(self)
        return gone is not None

    def entry(self, name: str) -> Entry | None:
        """The session's own tool under a name, as registered or as models see it."""
        found = self.entries.get(name)
        if found is None and self.entries:
            found = next((e for e in self.entries.values() if e.spec.wire_name == name), None)
        return found

    def tools(self, *, format: str | None = None) -> list[Any]:
        """The tools this session may call, its own among them."""
        return self._host.tools(session=self, format=format)

    async def instance(
        self, key: object, factory: Callable[[ToolContext], Any], ctx: ToolContext
    ) -> Any:
        """The session's own instance of a session-scoped tool, built at first use.

        Whoever comes while it is built waits for it; a factory may call other tools meanwhile.
        """
        built = self._instances.get(key)
        if built is None:
            built = self._instances[key] = Future()
            try:
                made = await arrived(factory(ctx))
                if self.closed:  # it ended meanwhile, and would never close this
                    await close_instance(made)
                    ctx.deny("unauthenticated", f"the session {self.id} has ended")
                built.set_result(made)
            except BaseException as error:
                self._instances.pop(key, None)
                built.set_exception(error)
                raise
            return built.result()
        return await asyncio.shield(asyncio.wrap_future(built))

    async def close(self) -> None:
        """End the session and close what it holds. Calling it again does nothing."""
        if self.closed:
            return
        self.closed = True
        while self._instances:
            _, built = self._instances.popitem()
            if not built.done():
                continue  # whoever builds it closes it
            try:
                await close_instance(built.result())
            except Exception:
                _log.exception("closing an instance of session %s failed", self.id)
        self.entries.clear()
        if self._host.callers.sessions.pop(self.id, None) is None:
            return  # it was never opened
        self._host.planner.limits.forget_session(self.id)
        await self._host.sources.forget(self.id)
        parts = await self._host.start()
        if self._kept is not None and not self._kept.done():
            await asyncio.wait([self._kept])
        await parts.store.end_session(self.id, time.time())
        self._host.announce_fact("session.closed", self.facts())

    def facts(self) -> dict[str, Any]:
        """What the trail says of it."""
        return {"session": self.id, "principal": self.principal.name, "profile": self.profile}

    def row(self) -> SessionRow:
        """The session as the store keeps it."""
        return SessionRow(
            id=self.id,
            principal=self.principal.name,
            profile=self.profile,
            cwd=self.cwd,
            metadata=self._host.redactor.value(dict(self.metadata)),
            created=self.created,
            expires=self.expires,
        )
