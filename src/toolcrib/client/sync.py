"""The same client without asyncio: a loop in a thread of its own does the work.

Works in scripts, threads and notebooks, also where a loop is running already.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from toolcrib.approvals.inbox import Fate
from toolcrib.client.client import Client as AsyncClient
from toolcrib.client.session import Session as AsyncSession
from toolcrib.client.tool import Tool as AsyncTool
from toolcrib.client.watching import OnApproval, OnProgress
from toolcrib.core.approval import ApprovalRequest, Grant
from toolcrib.core.decision import Explanation
from toolcrib.core.events import Event
from toolcrib.core.principal import Principal
from toolcrib.core.result import ToolResult
from toolcrib.host.loop import Loop
from toolcrib.transports.models import Health, Info, Reloaded, ToolView

_Requests = list[ApprovalRequest]
_Grants = list[Grant]
_Fates = list[Fate]


class Approvals:
    """What waits for a person, and what is remembered of the answers."""

    def __init__(self, client: AsyncClient, loop: Loop) -> None:
        self._approvals = client.approvals
        self._loop = loop

    def list(self, *, state: Any = "pending") -> _Requests:
        """The requests in a state, those that expire first in front; None means any."""
        return self._loop.run(self._approvals.list(state=state))

    def get(self, id: str) -> ApprovalRequest:
        """One request. Raises `NotFound`."""
        return self._loop.run(self._approvals.get(id))

    def decide(
        self,
        id: str,
        allow: bool = True,
        *,
        note: str | None = None,
        reach: str = "once",
        arguments: dict[str, Any] | None = None,
    ) -> ApprovalRequest:
        """Answer a request. Raises `NotFound`, or `ValueError` when the answer does not count."""
        return self._loop.run(
            self._approvals.decide(id, allow, note=note, reach=reach, arguments=arguments)
        )

    def decide_many(self, ids: Iterable[str], **answer: Any) -> _Fates:
        """Give several requests the same answer; each one's fate is told."""
        return self._loop.run(self._approvals.decide_many(ids, **answer))

    def grants(self, *, live: bool = True) -> _Grants:
        """The remembered approvals."""
        return self._loop.run(self._approvals.grants(live=live))

    def revoke(self, grant_id: str) -> bool:
        """Take a remembered approval back; false when it is gone already."""
        return self._loop.run(self._approvals.revoke(grant_id))


class Tool:
    """A tool that can be called; nothing to await."""

    def __init__(self, tool: AsyncTool, loop: Loop) -> None:
        self.inner = tool
        """The asynchronous tool."""
        self._loop = loop

    def __repr__(self) -> str:
        return repr(self.inner)

    @property
    def spec(self) -> ToolView:
        """What the host tells of it."""
        return self.inner.spec

    @property
    def name(self) -> str:
        """The registered name."""
        return self.inner.name

    @property
    def wire_name(self) -> str:
        """The name shown to models."""
        return self.inner.wire_name

    @property
    def description(self) -> str:
        """What it does."""
        return self.inner.description

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        return self.inner.input_schema

    @property
    def unavailable(self) -> str | None:
        """Why it cannot be called now; None when it can."""
        return self.inner.unavailable

    def call(
        self,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        patience: float | None = None,
    ) -> ToolResult:
        """Call it; the result says how it ended."""
        return self._loop.run(self.inner.call(arguments, timeout=timeout, patience=patience))

    def __call__(self, **arguments: Any) -> Any:
        """Call it like a function: gives the output, raises `CallError` otherwise."""
        return self.call(arguments).unwrap()


class Session:
    """A stay at the host."""

    def __init__(self, session: AsyncSession, loop: Loop) -> None:
        self.inner = session
        """The asynchronous session."""
        self._loop = loop

    @property
    def id(self) -> str:
        """Names the session; authorises nothing."""
        return self.inner.id

    def __enter__(self) -> Self:
        self._loop.run(self.inner.__aenter__())
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def call(
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
        return self._loop.run(
            self.inner.call(
                name,
                arguments,
                timeout=timeout,
                patience=patience,
                on_progress=_threaded(on_progress),
                on_approval=_threaded(on_approval),
            )
        )

    def register(self, thing: Any, *, replace: bool = False) -> None:
        """Offer a function that runs here to the calls of this session."""
        self._loop.run(self.inner.register(thing, replace=replace))

    def unregister(self, name: str) -> bool:
        """Take such a tool back."""
        return self._loop.run(self.inner.unregister(name))

    def tools(self, *, format: str | None = None) -> list[Any]:
        """The tools this session may call."""
        return _bound(self._loop.run(self.inner.tools(format=format)), self._loop)

    def close(self) -> None:
        """End the session."""
        self._loop.run(self.inner.close())


class Client:
    """`toolcrib.client.Client` for code without asyncio; the same names, nothing to await."""

    def __init__(self, url: str, token: str | None = None, **options: Any) -> None:
        self._client = AsyncClient(url, token, **options)
        refusal = "what the client itself runs cannot wait for the client"
        self._loop = Loop("toolcrib-client", refusal)
        self.approvals = Approvals(self._client, self._loop)

    def __repr__(self) -> str:
        return repr(self._client)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._loop.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Connect, and see that a host answers; the first request does it by itself."""
        self._loop.run(self._client.start())

    def stop(self) -> None:
        """Let go of the connection; the host goes on."""
        self._loop.run(self._client.stop())
        self._loop.close()

    def call(
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
        """Call a tool; the result says how it ended. Callbacks run in a thread of their own."""
        return self._loop.run(
            self._client.call(
                name,
                arguments,
                profile=profile,
                session=_inner(session),
                timeout=timeout,
                patience=patience,
                on_progress=_threaded(on_progress),
                on_approval=_threaded(on_approval),
            )
        )

    def cancel(self, call_id: str) -> bool:
        """Stop a running or waiting call."""
        return self._loop.run(self._client.cancel(call_id))

    def output(self, call_id: str) -> str:
        """The whole output of a call whose result was cut, as text."""
        return self._loop.run(self._client.output(call_id))

    def explain(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        principal: Principal | str | None = None,
        profile: str | None = None,
        session: Session | str | None = None,
    ) -> Explanation:
        """What would happen to a call, and why; nothing runs."""
        held = _inner(session)
        return self._loop.run(
            self._client.explain(
                name, arguments, principal=principal, profile=profile, session=held
            )
        )

    def register(
        self, thing: Any, *, replace: bool = False, session: Session | str | None = None
    ) -> None:
        """Offer a function that runs here. Over WebSocket and stdio only."""
        held = _inner(session)
        self._loop.run(self._client.register(thing, replace=replace, session=held))

    def unregister(self, name: str, *, session: Session | str | None = None) -> bool:
        """Take such a tool back."""
        return self._loop.run(self._client.unregister(name, session=_inner(session)))

    def get(self, name: str) -> ToolView | None:
        """What the host tells of a tool."""
        return self._loop.run(self._client.get(name))

    def tools(
        self,
        *,
        profile: str | None = None,
        principal: Principal | str | None = None,
        session: Session | str | None = None,
        format: str | None = None,
    ) -> list[Any]:
        """The tools the caller may call."""
        held = _inner(session)
        found = self._client.tools(
            profile=profile, principal=principal, session=held, format=format
        )
        return _bound(self._loop.run(found), self._loop)

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        profile: str | None = None,
        session: Session | str | None = None,
    ) -> list[Tool]:
        """The tools that fit some words best, the best one first."""
        found = self._client.search(query, limit=limit, profile=profile, session=_inner(session))
        return _bound(self._loop.run(found), self._loop)

    def session(
        self,
        *,
        profile: str | None = None,
        cwd: str | Path | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Session:
        """A stay at the host: `with host.session(…) as session`."""
        made = self._client.session(profile=profile, cwd=cwd, metadata=metadata)
        return Session(made, self._loop)

    def info(self) -> Info:
        """Who answers, what it can do, and who the caller is to it."""
        return self._loop.run(self._client.info())

    def health(self) -> Health:
        """How the host is."""
        return self._loop.run(self._client.health())

    def reload(self) -> Reloaded:
        """Have the host read its configuration again; a wrong one changes nothing."""
        return self._loop.run(self._client.reload())

    def trail(self, *, call_id: str | None = None, limit: int = 1000) -> list[Event]:
        """The newest events on the trail, oldest first; or those of one call."""
        return self._loop.run(self._client.trail(call_id=call_id, limit=limit))

    def events(
        self, after: str | None = None, *, types: Sequence[str] | None = None
    ) -> Iterator[Event]:
        """Events as they happen; ends when the iterator is closed."""
        following: Any = self._client.events(after, types=types)
        try:
            while (event := self._loop.run(_next(following))) is not None:
                yield event
        finally:
            self._loop.run(following.aclose())

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """The answer to any method of the wire, as plain JSON values. Raises `Refused`."""
        return self._loop.run(self._client.request(method, params))


async def _next(following: AsyncIterator[Event]) -> Event | None:
    return await anext(following, None)


def _inner(session: Session | str | None) -> AsyncSession | str | None:
    return session.inner if isinstance(session, Session) else session


def _bound(found: list[Any], loop: Loop) -> list[Any]:
    return [Tool(each, loop) if isinstance(each, AsyncTool) else each for each in found]


def _threaded(callback: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """Callbacks of synchronous code may block: they must not hold up the loop."""
    if callback is None:
        return None

    async def told(*arguments: Any) -> Any:
        return await asyncio.to_thread(callback, *arguments)

    return told
