"""The same host without asyncio: a loop in a thread of its own does the work.

Works in scripts, threads and notebooks, also where a loop is running already.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from toolcrib.approvals.inbox import Fate
from toolcrib.core.approval import ApprovalRequest, Grant
from toolcrib.core.decision import Explanation
from toolcrib.core.events import Event
from toolcrib.core.principal import Principal
from toolcrib.core.protocols import Executor, Provider
from toolcrib.core.result import ToolResult
from toolcrib.core.settings import HostConfig
from toolcrib.core.spec import ToolSpec
from toolcrib.host.host import ToolHost as AsyncToolHost
from toolcrib.host.loop import Loop
from toolcrib.host.session import Session as AsyncSession

_Requests = list[ApprovalRequest]
_Grants = list[Grant]
_Fates = list[Fate]


class Approvals:
    """What waits for a person, and what is remembered of the answers."""

    def __init__(self, host: AsyncToolHost, loop: Loop) -> None:
        self._approvals = host.approvals
        self._loop = loop

    def list(self, *, state: Any = "pending") -> _Requests:
        """The requests in a state, those that expire first in front."""
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
        by: str = "host",
        via: str = "host",
    ) -> ApprovalRequest:
        """Answer a request."""
        return self._loop.run(
            self._approvals.decide(
                id, allow, note=note, reach=reach, arguments=arguments, by=by, via=via
            )
        )

    def decide_many(self, ids: Iterable[str], **answer: Any) -> _Fates:
        """Give several requests the same answer; each one's fate is told."""
        return self._loop.run(self._approvals.decide_many(ids, **answer))

    def grants(self, *, live: bool = True) -> _Grants:
        """The remembered approvals."""
        return self._loop.run(self._approvals.grants(live=live))

    def revoke(self, grant_id: str, *, by: str = "host") -> bool:
        """Take a remembered approval back."""
        return self._loop.run(self._approvals.revoke(grant_id, by=by))


class Session:
    """A principal's stay at the host."""

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
        call_id: str | None = None,
    ) -> ToolResult:
        """Call a tool as this session's principal."""
        return self._loop.run(self.inner.call(name, arguments, timeout=timeout, call_id=call_id))

    def register(self, thing: Any, *, replace: bool = False) -> None:
        """Add a tool that only this session sees."""
        self.inner.register(thing, replace=replace)

    def unregister(self, name: str) -> bool:
        """Remove a tool of this session."""
        return self.inner.unregister(name)

    def tools(self, *, format: str | None = None) -> list[Any]:
        """The tools this session may call."""
        return self.inner.tools(format=format)

    def close(self) -> None:
        """End the session and close what it holds."""
        self._loop.run(self.inner.close())


class ToolHost:
    """`toolcrib.ToolHost` for code without asyncio; the same names, nothing to await."""

    def __init__(self, tools: Iterable[Any] = (), **options: Any) -> None:
        self._host = AsyncToolHost(tools, **options)
        self._loop = Loop("toolcrib-sync", "a tool cannot use the synchronous host that runs it")
        self.approvals = Approvals(self._host, self._loop)

    @classmethod
    def from_config(cls, path: str | Path, **options: Any) -> Self:
        """A host as the configuration file says."""
        host = cls(config=path, **options)
        host._host.load()
        return host

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Open the store; the first call does it by itself."""

        async def start() -> None:
            await self._host.start()
            await self._host.sources.settle(self._host.settings.ready)

        self._loop.run(start())

    def add_provider(self, name: str, factory: Callable[[], Provider]) -> None:
        """Keep a provider alive beside those of the configuration."""
        self._loop.run(self._host.add_provider(name, factory))

    def stop(self) -> None:
        """Let running calls end, write what is left, close the store."""
        self._loop.run(self._host.stop())
        self._loop.close()

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        principal: Principal | str | None = None,
        profile: str | None = None,
        session: Session | str | None = None,
        timeout: float | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Call a tool; the result says how it ended."""
        held = session.inner if isinstance(session, Session) else session
        return self._loop.run(
            self._host.call(
                name,
                arguments,
                principal=principal,
                profile=profile,
                session=held,
                timeout=timeout,
                call_id=call_id,
            )
        )

    def cancel(self, call_id: str) -> bool:
        """Stop a running or waiting call."""
        return self._host.cancel(call_id)

    def output(self, call_id: str, *, principal: Principal | str | None = None) -> str:
        """The whole output of a call whose result was cut, as text."""
        return self._host.output(call_id, principal=principal)

    def add_executor(self, executor: Executor) -> None:
        """Run tools of the executor's kind with it."""
        self._host.add_executor(executor)

    @property
    def config(self) -> HostConfig:
        """The configuration in force."""
        return self._host.config

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
        held = session.inner if isinstance(session, Session) else session
        return self._host.explain(
            name, arguments, principal=principal, profile=profile, session=held
        )

    def register(self, thing: Any, *, replace: bool = False) -> None:
        """Add a function, a `ToolSpec` or a tool object."""
        self._host.register(thing, replace=replace)

    def unregister(self, name: str) -> bool:
        """Remove a tool."""
        return self._host.unregister(name)

    def get(self, name: str) -> ToolSpec | None:
        """The spec under a name."""
        return self._host.get(name)

    def tools(
        self,
        *,
        profile: str | None = None,
        principal: Principal | str | None = None,
        session: Session | str | None = None,
        format: str | None = None,
    ) -> list[Any]:
        """The tools a caller may call."""
        held = session.inner if isinstance(session, Session) else session
        return self._host.tools(profile=profile, principal=principal, session=held, format=format)

    def session(self, **options: Any) -> Session:
        """A principal's stay: `with host.session(…) as session`."""
        return Session(self._host.session(**options), self._loop)

    def reload(self) -> None:
        """Read the configuration again; a wrong file changes nothing."""
        self._loop.run(self._host.reload())

    def on_event(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Have `callback` told of every event."""
        return self._host.on_event(callback)

    def trail(self, *, call_id: str | None = None, limit: int = 1000) -> list[Event]:
        """The newest events on the trail, oldest first."""
        return self._loop.run(self._host.trail(call_id=call_id, limit=limit))

    def events(self) -> Iterator[Event]:
        """Events as they happen, from any thread; ends when the iterator is closed."""
        waiting: queue.SimpleQueue[Event] = queue.SimpleQueue()
        end = self._host.on_event(waiting.put)
        try:
            while True:
                yield waiting.get()
        finally:
            end()
