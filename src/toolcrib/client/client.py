"""The same surface as `ToolHost`, for a host that runs somewhere else."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

import msgspec

from toolcrib.client.address import read_address
from toolcrib.client.answers import decode, greeting
from toolcrib.client.approvals import Approvals, answer
from toolcrib.client.errors import NothingFound
from toolcrib.client.link import Link, Placed
from toolcrib.client.opening import open_link
from toolcrib.client.session import Session
from toolcrib.client.tool import Tool, as_spec
from toolcrib.client.watching import OnApproval, OnProgress, Watch
from toolcrib.core.decision import Explanation
from toolcrib.core.events import Event
from toolcrib.core.principal import Principal
from toolcrib.core.result import ToolResult
from toolcrib.core.units import did_you_mean
from toolcrib.errors import HostStopped, ToolcribError
from toolcrib.transports.models import MOST_LISTED, Health, Info, Reloaded, ToolsPage, ToolView
from toolcrib.transports.wire import METHODS

TOKEN = "TOOLCRIB_TOKEN"  # noqa: S105 - the name of the variable


class Client:
    """A remote host: `async with Client("http://127.0.0.1:8700") as host`.

    Code that uses a `ToolHost` works on it unchanged, except that everything that has to ask the
    host is awaited. `call` gives a `ToolResult` for whatever is about the call; what is wrong with
    the connection is raised as `ClientError`.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        profile: str | None = None,
        timeout: float = 30.0,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | str | None = None,
        command: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
    ) -> None:
        address = read_address(url)
        if address.kind != "stdio" and token is None:
            token = os.environ.get(TOKEN)
        self.where = address.shown
        """The address of the host, as messages name it."""
        self.profile = profile
        """What calls are held to that name no profile themselves."""
        self.approvals = Approvals(self)
        self._make = partial(
            open_link,
            address,
            token=token,
            timeout=timeout,
            headers=headers,
            tls=tls,
            command=command,
            environment=environment,
            cwd=None if cwd is None else str(cwd),
        )
        self._link: Link = self._make()
        self._info: Info | None = None
        self._starting = asyncio.Lock()
        self._stopped = False

    def __repr__(self) -> str:
        state = "stopped" if self._stopped else "started" if self._info else "not started"
        return f"<Client of {self.where}, {state}>"

    # Life.

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Connect, and see that a host answers that this client understands; the first request
        does it by itself."""
        if self._info is not None and not self._stopped:
            return
        async with self._starting:
            if self._stopped:
                raise HostStopped("this client was stopped; make a new Client")
            if self._info is not None:
                return
            link = self._link
            try:
                await link.open()
                info = greeting(await link.ask("host.info", {}), self.where)
            except BaseException:
                await link.close()
                self._link = self._make()  # the next attempt begins anew
                raise
            link.principal = info.principal
            link.durable = info.capabilities.get("durable", False)
            self._info = info

    async def stop(self) -> None:
        """Let go of the connection; the host goes on. Calling it again does nothing."""
        if not self._stopped:
            self._stopped = True
            await self._link.close()

    # Calls.

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        profile: str | None = None,
        session: Session | str | None = None,
        timeout: float | None = None,
        patience: float | None = None,
        on_progress: OnProgress | None = None,
        on_approval: OnApproval | None = None,
    ) -> ToolResult:
        """Call a tool. The result says how it ended; `ClientError` says that nothing was called.

        `timeout` limits the tool's own work in seconds. `patience` is how long this side waits in
        all, people included; then the call is cancelled. Cancelling the task cancels the call.
        """
        await self.start()
        watch = None
        if on_progress is not None or on_approval is not None:
            watch = Watch(on_progress, on_approval, partial(answer, self.approvals))
        return await self._link.place(
            Placed(
                name=name,
                arguments=arguments,
                session=_id(session),
                profile=self._profile(profile, session),
                timeout=timeout,
                patience=patience,
                watch=watch,
            )
        )

    async def cancel(self, call_id: str) -> bool:
        """Stop a running or waiting call; false when there is none of that id."""
        try:
            return bool((await self.ask("calls.cancel", {"id": call_id})).cancelled)
        except NothingFound:
            return False

    async def explain(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        principal: Principal | str | None = None,
        profile: str | None = None,
        session: Session | str | None = None,
    ) -> Explanation:
        """What would happen to a call, and why; nothing runs. For another principal it needs the
        right `audit`."""
        params = {"name": name, "arguments": arguments, **self._who(principal, profile, session)}
        return cast("Explanation", await self.ask("explain", params))

    async def output(self, call_id: str) -> str:
        """The whole output of a call whose result was cut, as text. Raises `NotFound`."""
        return str((await self.ask("calls.output", {"id": call_id})).text)

    # Tools.

    async def tools(
        self,
        *,
        profile: str | None = None,
        principal: Principal | str | None = None,
        session: Session | str | None = None,
        format: str | None = None,
    ) -> list[Any]:
        """The tools the caller may call: bound `Tool`s, or a model provider's list of dicts."""
        who = self._who(principal, profile, session)
        found: list[ToolView] = []
        cursor: str | None = None
        while True:
            params = {"limit": MOST_LISTED, "cursor": cursor, **who}
            page: ToolsPage = await self.ask("tools.list", params)
            found += page.tools
            cursor = page.next
            if cursor is None:
                break
        if format is None:
            return [self._bound(view, profile, session) for view in found]
        from toolcrib.catalog.formats import export

        return export([as_spec(view) for view in found], format)

    async def get(self, name: str) -> ToolView | None:
        """What the host tells of a tool; None when the caller has none of that name."""
        try:
            params = {"name": name, **self._who(None, None, None)}
            return cast("ToolView", await self.ask("tools.get", params))
        except NothingFound:
            return None

    async def search(
        self,
        query: str,
        *,
        limit: int = 10,
        profile: str | None = None,
        session: Session | str | None = None,
    ) -> list[Tool]:
        """The tools that fit some words best, the best one first."""
        params = {"query": query, "limit": limit, **self._who(None, profile, session)}
        found = await self.ask("tools.search", params)
        return [self._bound(each.tool, profile, session) for each in found.tools]

    async def register(
        self, thing: Any, *, replace: bool = False, session: Session | str | None = None
    ) -> None:
        """Offer a function that runs here to the calls of this connection, or of a session, under
        the host's rules. Over WebSocket and stdio only."""
        await self.start()
        await self._link.offer(thing, replace=replace, session=_id(session))

    async def unregister(self, name: str, *, session: Session | str | None = None) -> bool:
        """Take such a tool back. False when there is none of that name."""
        await self.start()
        return await self._link.withdraw(name, session=_id(session))

    # Sessions.

    def session(
        self,
        *,
        profile: str | None = None,
        cwd: str | Path | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Session:
        """A stay at the host: `async with host.session(…) as session`. `cwd` is a folder there."""
        chosen = profile or self.profile
        folder = None if cwd is None else str(cwd)
        return Session(
            self,
            profile=chosen,
            cwd=folder,
            metadata=metadata,
            ended=lambda name: self._link.session_ended(name),
        )

    # The host.

    async def info(self) -> Info:
        """Who answers, what it can do, and who the caller is to it."""
        return cast("Info", await self.ask("host.info", {}))

    async def health(self) -> Health:
        """How the host is."""
        return cast("Health", await self.ask("host.health", {}))

    async def reload(self) -> Reloaded:
        """Have the host read its configuration again. A wrong one changes nothing and raises
        `ConfigError`."""
        return cast("Reloaded", await self.ask("host.reload", {}))

    # Events.

    async def events(
        self, after: str | None = None, *, types: Sequence[str] | None = None
    ) -> AsyncIterator[Event]:
        """Events as they happen; with `after`, first those on the trail behind that event id.

        `types` chooses: `["call.*", "approval.requested"]`. A broken connection is taken up where
        it ended; one that does not come back raises `ClientError`.
        """
        await self.start()
        async for event in self._link.follow(types, after):
            yield event

    async def trail(self, *, call_id: str | None = None, limit: int = 1000) -> list[Event]:
        """The newest events on the trail, oldest first, which needs the right `audit`; or those of
        one call."""
        if call_id is not None:
            found = await self.ask("calls.trail", {"id": call_id})
            return cast("list[Event]", found.events)[-limit:]
        return cast("list[Event]", (await self.ask("audit.search", {"limit": limit})).events)

    # Requests.

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """The answer to any method of the wire, as plain JSON values. Raises `Refused`."""
        _known(method)
        await self.start()
        return msgspec.json.decode(await self._link.ask(method, _given(params or {})))

    async def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        """The answer to a method that is no call, in its type. Raises `Refused`."""
        _known(method)
        await self.start()
        return decode(method, await self._link.ask(method, _given(params)), self.where)

    def _profile(self, profile: str | None, session: Session | str | None) -> str | None:
        return profile if profile is not None or session is not None else self.profile

    def _who(
        self,
        principal: Principal | str | None,
        profile: str | None,
        session: Session | str | None,
    ) -> dict[str, Any]:
        who = principal.name if isinstance(principal, Principal) else principal
        chosen = self._profile(profile, session)
        return {"as": who, "profile": chosen, "session": _id(session)}

    def _bound(self, view: ToolView, profile: str | None, session: Session | str | None) -> Tool:
        return Tool(view, self, profile=profile, session=_id(session))


def _id(session: Session | str | None) -> str | None:
    return session.id if isinstance(session, Session) else session


def _given(params: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in params.items() if value is not None}


def _known(method: str) -> None:
    if method not in METHODS:
        close = did_you_mean(method, METHODS)
        raise ToolcribError(
            f"there is no method {method!r}" + (f". Did you mean {close}?" if close else "")
        )
