"""From settings to a conversation with the server that they name."""

from __future__ import annotations

from collections.abc import Callable

from toolcrib.core.protocols import Workshop
from toolcrib.errors import ToolcribError
from toolcrib.net.client import Client
from toolcrib.net.guard import guard_for
from toolcrib.net.url import Url
from toolcrib.providers.mcp.asking import Asking
from toolcrib.providers.mcp.exchange import Lost, Refused, Wire
from toolcrib.providers.mcp.greeting import Wanted, greet, remember, remembered
from toolcrib.providers.mcp.http import HttpWire
from toolcrib.providers.mcp.old_sse import SsePipe
from toolcrib.providers.mcp.session import Session
from toolcrib.providers.mcp.settings import McpSettings, Transport
from toolcrib.providers.mcp.shared import SharedWire
from toolcrib.providers.mcp.signing import Signer
from toolcrib.providers.mcp.stdio import StdioPipe

_PLAIN = "subprocess"
"""The sandbox that keeps nothing apart: what a server without one is started in."""
_NOT_HERE = (400, 404, 405)
"""What servers of the first revision answer to a POST where their stream is."""


class Connector:
    """Connects to one server, as often as need be."""

    def __init__(
        self,
        settings: McpSettings,
        workshop: Workshop,
        signer: Signer,
        client: Client,
        *,
        changed: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._workshop = workshop
        self._signer = signer
        self._client = client
        self._changed = changed
        self._asking = Asking(settings.grants, settings.roots)

    async def connect(self) -> Session:
        """A conversation whose greeting is over. Raises `ToolcribError` in the operator's words."""
        settings = self._settings
        try:
            session = await self._attempt(settings.transport, settings.era)
        except ToolcribError as error:
            if remembered(settings.identity) is not None:  # it may be another one by now
                remember(settings.identity, None)
                return await self.connect()
            session = await self._otherwise(error)
        remember(settings.identity, session.era)
        return session

    async def _otherwise(self, error: ToolcribError) -> Session:
        """What is left to try: an old server may die of the modern question, or be older still."""
        settings = self._settings
        if settings.transport == "stdio" and settings.era == "auto" and isinstance(error, Lost):
            return await self._attempt("stdio", "handshake")
        refused = isinstance(error, Refused) and error.status in _NOT_HERE
        free = settings.transport == "http" and not settings.forced and settings.era != "modern"
        if free and refused:
            try:
                return await self._attempt("sse", "handshake")
            except (Lost, Refused):
                raise error from None
        raise error

    async def _attempt(self, transport: Transport, era: Wanted) -> Session:
        settings = self._settings
        pipe = self._program() if transport == "stdio" else None
        wire = self._place(transport) if pipe is None else SharedWire(settings.name, pipe)
        session = Session(settings.name, wire, self._asking, changed=self._changed)
        try:
            await session.open()
            await greet(session, era, remembered(settings.identity))
        except BaseException as error:
            await session.aclose()
            if pipe is not None and (said := pipe.complaint):
                error.add_note(f"it said: {said}")
            raise
        return session

    def _program(self) -> StdioPipe:
        settings = self._settings
        return StdioPipe(
            settings.name,
            settings.argv,
            sandbox=self._workshop.sandbox(settings.sandbox or _PLAIN),
            cwd=settings.cwd,
            env=settings.env,
            max_message=settings.max_message,
        )

    def _place(self, transport: Transport) -> Wire:
        settings = self._settings
        url: Url = settings.url  # pyright: ignore[reportAssignmentType] - there is one then
        kind = SsePipe if transport == "sse" else HttpWire
        made = kind(
            settings.name,
            url,
            client=self._client,
            guard=guard_for(url, settings.private),
            signer=self._signer,
            max_message=settings.max_message,
        )
        return SharedWire(settings.name, made) if isinstance(made, SsePipe) else made
