"""The server of one provider: a held conversation, taken up again where that does no harm."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from toolcrib.core.context import ToolContext
from toolcrib.core.link import UpstreamError
from toolcrib.errors import ToolcribError, ToolFailure
from toolcrib.providers.mcp.connecting import Connector
from toolcrib.providers.mcp.direct import Direct, direct_to
from toolcrib.providers.mcp.exchange import Behalf, Lost, Refused
from toolcrib.providers.mcp.listening import Listener
from toolcrib.providers.mcp.session import Session

_log = logging.getLogger("toolcrib")
_PATIENCE = 30.0
"""Seconds for what nobody but this provider waits for."""
_POLITE = 5.0
"""Seconds for what nobody waits for at all."""


class Upstream:
    """Everything that is sent goes through here, so that nothing is sent twice by mistake."""

    def __init__(self, name: str, connector: Connector) -> None:
        self._name = name
        self._connector = connector
        self._session: Session | None = None
        self._direct: Direct | None = None
        self._listener: Listener | None = None
        self._turn = asyncio.Lock()
        self._watchers: list[Callable[[str, Mapping[str, Any]], None]] = []
        self._wishes: dict[tuple[str, str], Mapping[str, Any]] = {}
        """What a handshake server was asked to do for as long as the session lasts."""
        self._aside: set[asyncio.Task[None]] = set()

    @property
    def session(self) -> Session:
        """The conversation. Raises `Lost` when there is none."""
        if self._session is None:
            raise Lost(f"the provider {self._name} is not connected")
        return self._session

    async def open(self) -> None:
        """Connect."""
        session = await self._connector.connect()
        for told in self._watchers:
            session.watch(told)
        self._session = session
        self._direct = direct_to(session)
        if session.era == "modern":
            self._listener = Listener(session)
            await self._listener.start()

    async def aclose(self) -> None:
        """End it."""
        if self._aside:
            aside = [*self._aside]
            await asyncio.wait(aside, timeout=1.0)
            for task in aside:
                task.cancel()
            await asyncio.gather(*aside, return_exceptions=True)
        listener, self._listener = self._listener, None
        session, self._session = self._session, None
        self._direct = None
        if listener is not None:
            await listener.aclose()
        if session is not None:
            await session.aclose()

    def watch(self, told: Callable[[str, Mapping[str, Any]], None]) -> Callable[[], None]:
        """Be told of what belongs to no request, across conversations."""
        self._watchers.append(told)
        if self._session is not None:
            self._session.watch(told)

        def stop() -> None:
            with contextlib.suppress(ValueError):
                self._watchers.remove(told)
            if self._session is not None:
                self._session.unwatch(told)

        return stop

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A question of the provider itself, which does nothing and may be asked again."""
        async with asyncio.timeout(_PATIENCE):
            return await self.send(method, params or {}, repeatable=True)

    async def send(
        self,
        method: str,
        params: Mapping[str, Any],
        behalf: Behalf | None = None,
        *,
        repeatable: bool,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """The result of a request. It is sent a second time only when the server cannot have acted
        on it: it never left, or came to a session that the server does not know any more.

        Raises `UpstreamError`, or `ToolFailure`: `outcome_unknown` when it was sent, may not be
        repeated, and the connection broke.
        """
        mine = Behalf() if behalf is None else behalf
        for again in (True, False):
            session = await self._held()
            try:
                return await session.converse(method, params, mine, headers)
            except Refused as error:
                if not error.gone or not again:
                    raise _refused(error) from error
                await self._anew(session)
            except Lost as error:
                begun = mine.sent
                if begun or not again or session.lost is not None:
                    raise _broken(error, begun=begun, repeatable=repeatable) from error
        raise AssertionError("the second round ends it")

    async def call(
        self, tool: str, ctx: ToolContext, behalf: Behalf, *, repeatable: bool
    ) -> dict[str, Any]:
        """The same for a plain call of a tool. Most servers are reached the short way."""
        direct = self._direct
        begun = None if direct is None else direct.begin(tool, ctx, behalf)
        params = {"name": tool, "arguments": ctx.arguments}
        if direct is None or begun is None:
            return await self.send("tools/call", params, behalf, repeatable=repeatable)
        session = direct.session
        exchange, stream = begun
        try:
            while not stream.begun:
                await stream.more()
            raw = direct.read(exchange, stream)
            if raw is None:
                raw = await direct.read_closely(exchange, stream)
            if "inputRequests" not in raw and raw.get("resultType") != "input_required":
                return raw
            return await session.converse("tools/call", params, behalf, first=raw)
        except UpstreamError as error:
            session.asking.check_error(error, behalf.link)
            raise
        except Refused as error:
            raise _refused(error) from error
        except Lost as error:
            if behalf.sent:
                raise _broken(error, begun=True, repeatable=repeatable) from error
        except ToolFailure as error:
            if stream.begun:
                raise
            raise _broken(Lost(str(error)), begun=True, repeatable=repeatable) from error
        finally:
            direct.end(exchange, stream)
        return await self.send("tools/call", params, behalf, repeatable=repeatable)

    def send_aside(self, method: str, params: Mapping[str, Any]) -> None:
        """Send what nobody waits for, and whose failure changes nothing."""
        self._beside(self._politely(method, params))

    async def subscribe(self, uri: str, *, on: bool) -> None:
        """Be told of a resource by a modern server, or no more."""
        if self._listener is None:
            raise Lost(f"the provider {self._name} is not connected")
        await (self._listener.subscribe(uri) if on else self._listener.unsubscribe(uri))

    def wish(self, method: str, about: str, params: Mapping[str, Any] | None) -> None:
        """Note what is to be asked of every new session as well; None takes it back."""
        if params is None:
            self._wishes.pop((method, about), None)
        else:
            self._wishes[method, about] = params

    async def _held(self) -> Session:
        """The conversation, or the one that is just being opened."""
        if self._session is None and self._turn.locked():
            async with self._turn:
                pass
        try:
            return self.session
        except Lost as error:
            raise ToolFailure(str(error), reason="tool_unavailable", retryable=True) from error

    async def _anew(self, session: Session) -> None:
        """A new session in the place of one that the server has forgotten; one for all who wait."""
        async with self._turn:
            if self._session is session:
                await self.aclose()
                try:
                    await self.open()
                except ToolcribError as error:
                    session.gone(f"the session ended, and there is no new one: {error}")
                    raise ToolFailure(str(error), reason="tool_unavailable") from error
                for (method, _), params in self._wishes.items():
                    self.send_aside(method, params)

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    async def _politely(self, method: str, params: Mapping[str, Any]) -> None:
        try:
            async with asyncio.timeout(_POLITE):
                await self.session.request(method, params)
        except (ToolcribError, TimeoutError) as error:
            _log.debug("provider %s: %s was not done: %s", self._name, method, error)


def _broken(error: Lost, *, begun: bool, repeatable: bool) -> ToolFailure:
    if begun and not repeatable:
        text = f"{error}; whether the call had its effect is not known"
        return ToolFailure(text, reason="outcome_unknown")
    return ToolFailure(str(error), reason="upstream_error", retryable=repeatable or not begun)


def _refused(error: Refused) -> ToolFailure:
    return ToolFailure(
        str(error),
        reason="tool_unavailable" if error.status in (401, 403, 429, 503) else "upstream_error",
    )
