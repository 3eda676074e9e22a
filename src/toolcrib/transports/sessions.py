"""Sessions that clients open: bound to who opened them, counted, and over when their time is up."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.core.serving import SessionSettings
from toolcrib.errors import ConfigError
from toolcrib.host.host import ToolHost
from toolcrib.host.session import Session
from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault

if TYPE_CHECKING:
    from toolcrib.transports.models import SessionView


_log = logging.getLogger("toolcrib")
_PAUSE = 30.0
"""Seconds between two looks for sessions that are over, at most."""
MOST_METADATA = 16_384
"""Characters of what a client wants its tools to know."""


class Sessions:
    """Opens, finds and ends the sessions of a gateway's callers."""

    def __init__(self, host: ToolHost, settings: SessionSettings, folder: str) -> None:
        self._host = host
        self.settings = settings
        self._folder = folder
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to end those whose time is up."""
        self._sweeper = asyncio.ensure_future(self._sweep())

    async def stop(self) -> None:
        """Sweep no more; the host closes what is open."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)

    async def open(
        self,
        caller: Caller,
        *,
        profile: str | None = None,
        cwd: str | None = None,
        metadata: dict[str, Any] | None = None,
        lasting: bool = True,
    ) -> Session:
        """A new session of the caller's. One that is not `lasting` ends with its connection and
        with nothing else. Raises `Fault`."""
        if not caller.may_use(profile):
            raise Fault(
                "not_permitted", f"{caller.principal.name} may not use the profile {profile}"
            )
        settings = self.settings
        # A connection is a session, too, but one that nobody forgets to close.
        alike = sum((session.idle is not None) is lasting for session in self.of(caller))
        most = settings.per_principal if lasting else settings.connections
        if alike >= most:
            what = "open sessions" if lasting else "connections"
            text = f"{caller.principal.name} has {most} {what}; close one"
            raise Fault("too_many_sessions", text)
        if metadata and len(repr(metadata)) > MOST_METADATA:
            raise Fault("invalid_request", f"metadata is over {MOST_METADATA} characters")
        try:
            session = self._host.session(
                principal=caller.principal,
                profile=profile or caller.profile,
                cwd=self._below(cwd),
                metadata=metadata,
                door=caller.door,
                idle=settings.idle if lasting else None,
                lifetime=settings.absolute if lasting else None,
            )
        except ConfigError as error:
            raise Fault("not_permitted", str(error)) from None
        session.passing = not lasting
        return await session.__aenter__()

    def _below(self, cwd: str | None) -> str:
        """The folder that is meant; a client may narrow the host's own and never leave it."""
        if cwd is None:
            return self._folder
        try:
            wanted = Path(self._folder, cwd).resolve(strict=True)
        except (OSError, ValueError):
            wanted = None
        base = Path(self._folder).resolve()
        if wanted is None or not wanted.is_dir() or not wanted.is_relative_to(base):
            raise Fault("invalid_request", "cwd is no folder at or below the host's own")
        return str(wanted)

    def of(self, caller: Caller) -> list[Session]:
        """The caller's open sessions, oldest first."""
        name = caller.principal.name
        return [
            session
            for session in list(self._host.callers.sessions.values())
            if session.principal.name == name and not session.over
        ]

    def find(self, caller: Caller, id: str) -> Session:
        """The caller's own session of that id. Raises `Fault`; it says the same of somebody else's
        as of one that never was."""
        session = self._host.callers.sessions.get(id)
        mine = session is not None and session.principal.name == caller.principal.name
        if session is None or not mine or session.over:
            raise Fault("not_found", f"{caller.principal.name} has no open session {id!r}")
        return session

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(min(_PAUSE, self.settings.idle / 2, self.settings.absolute / 2))
            for session in list(self._host.callers.sessions.values()):
                if not session.over:
                    continue
                try:
                    await session.close()
                except Exception:
                    _log.exception("session %s could not be closed", session.id)


def entered(
    host: ToolHost, caller: Caller, session: Session | str | None, profile: str | None
) -> Session | str | None:
    """The session that a caller means, else that of its connection. A session names and does not
    authorise: who comes in it now counts, not who opened it. Raises `Fault` where the caller may
    not use the profile that the session would hold it to."""
    given = caller.session if session is None else session
    found = host.callers.sessions.get(given) if isinstance(given, str) else given
    if found is None or found.principal.name != caller.principal.name:
        return given  # what is wrong with it is said where it is looked up
    if profile is None and not caller.may_use(found.profile):
        raise Fault(
            "not_permitted", f"{caller.principal.name} may not use the profile {found.profile}"
        )
    found.principal = caller.principal
    return found


def view(session: Session) -> SessionView:
    """A session as its owner sees it."""
    from toolcrib.transports.models import SessionView

    return SessionView(
        id=session.id,
        principal=session.principal.name,
        profile=session.profile,
        door=session.door,
        cwd=session.cwd,
        metadata=dict(session.metadata),
        created=session.created,
        expires=session.expires,
    )
