"""How one POST is answered: in one piece, unless something has to be said before the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from toolcrib.transports.http.answers import JSON_HEAD, Headers, Receive, Send, reply
from toolcrib.transports.http.exchange import Exchange
from toolcrib.transports.mcp.line import Line
from toolcrib.transports.mcp.sessions import PRIMED, Connection
from toolcrib.transports.mcp.streams import Events, Heart, Patience, Stream, event

T = TypeVar("T")
GRACE = 30.0
"""Seconds in which a client of the handshake era that lost its connection may come back for the
answer: losing it is not the same as cancelling."""


class Web(NamedTuple):
    """One HTTP request, as far as answering it goes."""

    head: Mapping[bytes, bytes]
    exchange: Exchange | None
    """Our own server's side of it, where the answer may be written directly."""
    receive: Receive
    send: Send
    cut: Callable[[], None] | None
    """Breaks the connection off, where the server can do that."""


def web_of(head: Mapping[bytes, bytes], exchange: Exchange) -> Web:
    """A request to our own server."""
    receive: Any = exchange.receive
    send: Any = exchange.send
    return Web(head, exchange, receive, send, exchange.transport.abort)


class Post:
    """The answer to one POST; a `Sink` that turns it into a stream when something is pushed."""

    __slots__ = (
        "_beats", "_connection", "_events", "_exchange", "_head", "_lines", "_lost", "_stream",
        "_timer", "_web",
    )  # fmt: skip

    def __init__(
        self,
        web: Web | None,
        connection: Connection | None = None,
        *,
        head: Mapping[bytes, bytes] | None = None,
        exchange: Any = None,
    ) -> None:
        """`connection`: of the handshake era, so that the stream can be resumed. In the place of
        `web`, what that is made from when somebody needs it."""
        self._web = web
        self._head = head
        self._exchange: Exchange = exchange
        self._connection = connection
        self._lines: Line | list[Line] | None = None
        self._events: Events | None = None
        self._stream: Stream | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._beats = 0
        self._lost = False

    @property
    def web(self) -> Web:
        """The request that it answers."""
        if self._web is None:
            self._web = web_of(self._head or {}, self._exchange)
        return self._web

    def line(self) -> Line:
        """The channel of a request that is answered here."""
        made = Line(self, self._connection)
        if self._lines is None:
            self._lines = made
        elif isinstance(self._lines, Line):
            self._lines = [self._lines, made]
        else:
            self._lines.append(made)
        return made

    @property
    def streaming(self) -> bool:
        """Whether it is a stream already."""
        return self._events is not None

    # What is said before the answer.

    def push(self, frame: bytes) -> None:
        """Send a message before the answer."""
        if self._events is None:
            self._open()
        if self._stream is not None:
            self._stream.push(frame)
        elif self._events is not None:
            self._events.push(event(frame))

    def _open(self) -> None:
        self._events = Events(self.web.send, self.web.cut)
        if self._lost:
            self._events.leave()
        if self._connection is not None:
            self._stream = self._connection.new_stream()
            if not self._lost:
                self._stream.attach(self._events)

    def beat(self) -> None:
        """A sign of life; who waits for a whole pause becomes a stream for it."""
        self._beats += 1
        if self._events is None and self._beats > 1 and not self._lost:
            self._open()
        if self._events is not None:
            self._events.beat()

    # Its client.

    def lost(self) -> None:
        """The client's connection is gone."""
        if self._lost:
            return
        self._lost = True
        if self._events is not None:
            self._events.leave()
        if self._connection is None:
            self._leave()
            return
        if self._stream is not None:
            self._stream.detach(self._events)
        self._wait()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(GRACE, self._give_up)

    def _give_up(self) -> None:
        if self._stream is not None and self._stream.attached:
            self._wait()  # it came back, and may get lost again
        else:
            self._leave()

    def _leave(self) -> None:
        lines = self._lines
        for line in [lines] if isinstance(lines, Line) else lines or ():
            line.leave()

    def prime(self) -> None:
        """Become a stream, so that the client knows where to come back to."""
        if self._events is None and not self._lost:
            self._open()

    async def patiently(self, work: Awaitable[T], heart: Heart, patience: Patience) -> T:
        """The result of work that waits for something, while it is watched whether the client
        does."""
        known = self._connection
        if known is not None and known.version >= PRIMED:
            patience.add(self)
        exchange, watcher = self.web.exchange, None
        if exchange is not None:
            exchange.gone = self.lost
            if exchange.disconnected:
                self.lost()
        else:
            watcher = asyncio.ensure_future(watch(self.web.receive, self.lost))
        heart.add(self)
        try:
            return await work
        finally:
            heart.discard(self)
            patience.discard(self)
            if exchange is not None:
                exchange.gone = None
            if watcher is not None:
                watcher.cancel()
            if self._timer is not None:
                self._timer.cancel()

    # The answer.

    async def finish(self, status: int, body: bytes, more: Headers | None = None) -> None:
        """Answer in one piece, or end the stream with the answer."""
        if self._events is None:
            if not self._lost:
                await answer(self.web, status, body, more)
            return
        self.push(body)
        await self.close()

    async def close(self) -> None:
        """End the stream; nothing more belongs on it."""
        stream, events = self._stream, self._events
        if stream is not None and self._connection is not None:
            stream.ended = True
            if self._lost and stream.attached:
                stream.close()  # whoever carries it now sends what waits, and is done
            if not self._lost or stream.attached:
                self._connection.drop(stream)
        if events is not None:
            await events.end()


async def answer(web: Web, status: int, body: bytes, more: Headers | None = None) -> None:
    """Write a whole answer."""
    if more is None and web.exchange is not None and web.exchange.finish(status, JSON_HEAD, body):
        return
    await reply(web.send, status, body, more)


async def watch(receive: Receive, lost: Callable[[], Any]) -> None:
    """Tell when the client of another server goes away."""
    while (await receive())["type"] != "http.disconnect":
        pass
    lost()
