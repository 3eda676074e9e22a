"""Servers that answer everything on one channel: standard output, or one event stream."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from toolcrib.protocol import jsonrpc
from toolcrib.protocol.jsonrpc import Message, Notification, Request, Response
from toolcrib.providers.mcp.exchange import Exchange, Incoming, Lost, encode, result_of

_log = logging.getLogger("toolcrib")

Received = Callable[[Message], None]


class Pipe(Protocol):
    """Carries frames there and messages back."""

    async def open(self, received: Received, ended: Callable[[str], None]) -> None: ...
    def send(self, frame: bytes) -> Awaitable[None]: ...
    async def aclose(self) -> None: ...


class SharedWire:
    """Tells answers apart by their ids."""

    shared = True

    def __init__(self, name: str, pipe: Pipe) -> None:
        self._name = name
        self._pipe = pipe
        self._waiting: dict[int, tuple[Exchange, asyncio.Future[dict[str, Any]]]] = {}
        self._incoming: Incoming | None = None
        self._over: str | None = "it is not connected"
        self._telling: set[asyncio.Task[None]] = set()

    async def open(self, incoming: Incoming) -> None:
        """Connect."""
        self._incoming = incoming
        self._over = None
        await self._pipe.open(self._received, self._ended)

    async def ask(self, exchange: Exchange) -> dict[str, Any]:
        """The result of a request."""
        if self._over is not None:
            raise Lost(self._over)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[exchange.id] = exchange, future
        try:
            exchange.sent = True
            await self._pipe.send(exchange.frame())
            return await future
        except asyncio.CancelledError:
            if not exchange.answered:
                self._cancel(exchange)
            raise
        finally:
            del self._waiting[exchange.id]

    async def tell(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        if self._over is not None:
            raise Lost(self._over)
        await self._pipe.send(jsonrpc.notification(method, encode(params or {})))

    async def reply(self, frame: bytes) -> None:
        """Send an answer."""
        if self._over is None:
            await self._pipe.send(frame)

    def began(self, version: str, *, modern: bool) -> None:
        """Nothing is said differently here."""

    def listen(self) -> None:
        """There is one stream for everything."""

    async def aclose(self) -> None:
        """End it."""
        self._incoming = None
        self._over = "the connection was closed"
        tasks = [*self._telling]
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)
        for task in tasks:
            task.cancel()
        await self._pipe.aclose()
        self._fail(self._over)

    def _cancel(self, exchange: Exchange) -> None:
        """Tell the server that nobody waits any more; the greeting must not be taken back."""
        if self._over is not None or exchange.method == "initialize":
            return
        params = {"requestId": exchange.id, "reason": "the call was cancelled"}
        task = asyncio.ensure_future(self._quietly("notifications/cancelled", params))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _quietly(self, method: str, params: Mapping[str, Any]) -> None:
        try:
            await self.tell(method, params)
        except Exception as error:  # the server is told out of politeness, and may be gone
            _log.debug("provider %s: %s was not told: %s", self._name, method, type(error).__name__)

    def _received(self, message: Message) -> None:
        incoming = self._incoming
        if incoming is None:
            return
        if isinstance(message, Response):
            found = self._waiting.get(message.id) if isinstance(message.id, int) else None
            if found is None:
                _log.info("provider %s answered %r, which nobody asked", self._name, message.id)
                return
            exchange, future = found
            exchange.answered = True
            if not future.done():
                try:
                    future.set_result(result_of(message))
                except Exception as error:
                    future.set_exception(error)
        elif isinstance(message, Notification):
            incoming.notified(message.method, message.params, None)
        elif isinstance(message, Request):
            incoming.requested(message, None)

    def _ended(self, why: str) -> None:
        if self._over is None:
            self._over = why
            self._fail(why)
            if self._incoming is not None:
                self._incoming.gone(why)

    def _fail(self, why: str) -> None:
        for _, future in self._waiting.values():
            if not future.done():
                future.set_exception(Lost(why))
