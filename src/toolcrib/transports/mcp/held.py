"""HTTP answers that stay open: for clients that listen, and for those that come back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault
from toolcrib.transports.mcp.asked import Asked, Endpoint
from toolcrib.transports.mcp.listening import Listening
from toolcrib.transports.mcp.posts import Web, watch
from toolcrib.transports.mcp.sessions import Connection
from toolcrib.transports.mcp.streams import Events, Heart, event, position

if TYPE_CHECKING:
    from toolcrib.transports.mcp.dispatcher import Dispatcher
    from toolcrib.transports.service import Service


class Held:
    """The long streams of a door: counted, kept alive, and ended with their credentials."""

    def __init__(self, service: Service, heart: Heart) -> None:
        self._service = service
        self._heart = heart
        self._open: dict[Events, str] = {}
        """Whose each is."""

    def __len__(self) -> int:
        return len(self._open)

    async def listen(
        self, dispatcher: Dispatcher, caller: Caller, endpoint: Endpoint, asked: Asked, web: Web
    ) -> None:
        """Tell a modern client of changes until it leaves. Raises `McpFault` and `Fault` before
        anything was sent."""
        events = self.open(caller, web)
        told = Listening(asked, caller, Framed(events))
        try:
            await told.open(dispatcher, endpoint)
            await self.carry(events, caller, web)
            if not events.closed and not caller.badge.over:
                events.push(event(told.goodbye()))
        finally:
            told.close()
            self.discard(events)
        await events.end()

    async def resume(self, connection: Connection, caller: Caller, web: Web) -> None:
        """Send a client of the handshake era what belongs to no request, or the rest of a stream
        that broke off. Raises `Fault` before anything was sent."""
        last, after = web.head.get(b"last-event-id"), None
        stream = connection.general
        if last:
            place = position(last.decode("latin-1").strip())
            found = None if place is None else connection.stream(place[0])
            if place is None or found is None:
                raise Fault("not_a_request", "Last-Event-ID names nothing that can be resumed")
            stream, after = found, place[1]
        events = self.open(caller, web)
        try:
            stream.attach(events, after)
            if stream is connection.general:
                connection.follow()
            elif stream.ended:
                connection.drop(stream)
                events.send_away()
            await self.carry(events, caller, web)
        finally:
            stream.detach(events)
            self.discard(events)
        await events.end()

    def open(self, caller: Caller, web: Web) -> Events:
        """A stream that stays open. Raises `Fault` when there are too many."""
        settings, who = self._service.settings.http, caller.principal.name
        if self._service.stopping:
            raise Fault("host_stopping")
        if len(self._open) >= settings.viewers:
            raise Fault("too_many_viewers", f"{settings.viewers} event streams are open already")
        mine = sum(name == who for name in self._open.values())
        if mine >= settings.viewers_per_principal:
            raise Fault("too_many_viewers", f"{who} has {mine} event streams open; close one")
        events = Events(web.send, web.cut)
        self._open[events] = who
        return events

    async def carry(self, events: Events, caller: Caller, web: Web) -> None:
        """Keep a stream open until somebody ends it."""
        beating = _Beating(events, caller)
        watcher = None
        if web.exchange is not None:
            web.exchange.gone = events.leave
            if web.exchange.disconnected:
                events.leave()
        else:
            watcher = asyncio.ensure_future(watch(web.receive, events.leave))
        self._heart.add(beating)
        try:
            await events.over
        finally:
            self._heart.discard(beating)
            if web.exchange is not None:
                web.exchange.gone = None
            if watcher is not None:
                watcher.cancel()

    def discard(self, events: Events) -> None:
        """It is not open any more."""
        self._open.pop(events, None)

    def close(self) -> None:
        """Send everybody away."""
        for events in list(self._open):
            events.send_away()


class Framed:
    """Puts messages on a stream that nobody resumes."""

    def __init__(self, events: Events) -> None:
        self._events = events

    def push(self, frame: bytes) -> None:
        self._events.push(event(frame))


class _Beating:
    """Signs of life, for as long as the caller's credentials hold."""

    def __init__(self, events: Events, caller: Caller) -> None:
        self._events = events
        self._caller = caller

    def beat(self) -> None:
        if self._caller.badge.over:
            self._events.send_away()
        else:
            self._events.beat()
