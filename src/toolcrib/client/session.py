"""A stay at a remote host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from toolcrib.client.watching import OnApproval, OnProgress
from toolcrib.core.result import ToolResult
from toolcrib.errors import ToolcribError
from toolcrib.transports.models import SessionView

if TYPE_CHECKING:
    from toolcrib.client.client import Client


class Session:
    """A session of the caller's at the host: `async with host.session(…) as session`. It belongs
    to the host and outlives a broken connection."""

    def __init__(
        self,
        client: Client,
        *,
        profile: str | None,
        cwd: str | None,
        metadata: Mapping[str, Any] | None,
        ended: Callable[[str], None],
    ) -> None:
        """`ended` is told the session's id when it is over."""
        self._client = client
        self._ended = ended
        self._wanted = {"profile": profile, "cwd": cwd, "metadata": dict(metadata or {}) or None}
        self._view: SessionView | None = None
        self.closed = False

    def __repr__(self) -> str:
        name = "not open" if self._view is None else self._view.id
        return f"<Session {name} at {self._client.where}>"

    async def __aenter__(self) -> Session:
        if self._view is None:
            self._view = cast("SessionView", await self._client.ask("sessions.open", self._wanted))
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @property
    def view(self) -> SessionView:
        """What the host tells of it. Raises before it is open."""
        if self._view is None:
            raise ToolcribError("the session is not open: use it as `async with host.session(…)`")
        return self._view

    @property
    def id(self) -> str:
        """Names the session; authorises nothing."""
        return self.view.id

    @property
    def principal(self) -> str:
        """Whose session it is."""
        return self.view.principal

    @property
    def profile(self) -> str | None:
        """The rules it is held to."""
        return self.view.profile

    @property
    def cwd(self) -> str:
        """The folder it works in, on the host."""
        return self.view.cwd

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What its opener wanted tools to know."""
        return self.view.metadata

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        patience: float | None = None,
        on_progress: OnProgress | None = None,
        on_approval: OnApproval | None = None,
    ) -> ToolResult:
        """Call a tool in this session, under its profile."""
        return await self._client.call(
            name,
            arguments,
            session=self.id,
            timeout=timeout,
            patience=patience,
            on_progress=on_progress,
            on_approval=on_approval,
        )

    async def register(self, thing: Any, *, replace: bool = False) -> None:
        """Offer a function that runs here to the calls of this session, for as long as the client
        is connected. Over WebSocket and stdio only."""
        await self._client.register(thing, replace=replace, session=self.id)

    async def unregister(self, name: str) -> bool:
        """Take such a tool back. False when there is none of that name."""
        return await self._client.unregister(name, session=self.id)

    async def tools(self, *, format: str | None = None) -> list[Any]:
        """The tools this session may call, its own among them."""
        return await self._client.tools(session=self.id, format=format)

    async def close(self) -> None:
        """End the session. Calling it again does nothing."""
        if self._view is not None and not self.closed:
            self.closed = True
            self._ended(self._view.id)
            await self._client.ask("sessions.close", {"id": self._view.id})
