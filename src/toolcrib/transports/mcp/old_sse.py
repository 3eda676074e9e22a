"""The HTTP+SSE transport of 2024-11-05, for clients that know no other: answers come on a stream
that the client opens first, and its messages go to an address which that stream names."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault
from toolcrib.transports.http.answers import reply
from toolcrib.transports.http.body import check_type, read_body
from toolcrib.transports.mcp.asked import Endpoint
from toolcrib.transports.mcp.envelope import check_accept
from toolcrib.transports.mcp.http import McpDoor
from toolcrib.transports.mcp.pipe import Pipe
from toolcrib.transports.mcp.posts import Web
from toolcrib.transports.mcp.streams import Events, event

if TYPE_CHECKING:
    from toolcrib.transports.service import Service

_FULL = 4_194_304
"""Bytes that wait for a client, from which on it may send nothing more."""


class _Out:
    """An `Outlet` on an event stream."""

    def __init__(self, events: Events) -> None:
        self._events = events

    @property
    def waiting(self) -> int:
        return self._events.waiting

    def give(self, frame: bytes, more: bool) -> bool:
        self._events.push(event(frame))
        return False

    def push(self, frame: bytes) -> None:
        self._events.push(event(frame))

    async def flush(self) -> None:
        """What is pushed leaves by itself."""

    async def room(self) -> None:
        """Nobody waits here: a client that does not read may not send."""

    async def finish(self, seconds: float) -> None:
        """The stream's end does that."""


class OldDoor:
    """Serves `/mcp/sse` and `/mcp/messages/{id}`."""

    def __init__(self, service: Service, door: McpDoor) -> None:
        self._service = service
        self._door = door
        self._pipes: dict[str, Pipe] = {}

    def __len__(self) -> int:
        return len(self._pipes)

    async def answer(self, verb: str, caller: Caller, parts: list[str], web: Web) -> None:
        """One request. Raises `Fault`."""
        seated = self._door.seat(caller, Endpoint())
        if parts == ["sse"]:
            if verb != "GET":
                raise Fault("method_not_allowed", "this address takes GET")
            await self._stream(seated, web)
        elif len(parts) == 2 and parts[0] == "messages":
            if verb != "POST":
                raise Fault("method_not_allowed", "this address takes POST")
            await self._message(seated, parts[1], web)
        else:
            raise Fault("unknown_method", "MCP over HTTP+SSE is at /mcp/sse")

    async def _stream(self, caller: Caller, web: Web) -> None:
        check_accept(web.head, b"text/event-stream")
        held = self._door.held
        events = held.open(caller, web)
        limit = self._service.settings.http.max_body
        name = secrets.token_urlsafe(24)
        pipe = Pipe(
            self._door.dispatcher,
            caller,
            Endpoint(),
            _Out(events),
            max_bytes=limit,
            modern=False,
        )
        self._pipes[name] = pipe
        try:
            events.push(b"event: endpoint\ndata: /mcp/messages/%b\n\n" % name.encode())
            await held.carry(events, caller, web)
        finally:
            self._pipes.pop(name, None)
            held.discard(events)
            await pipe.close()
        await events.end()

    async def _message(self, caller: Caller, name: str, web: Web) -> None:
        pipe = self._pipes.get(name)
        if pipe is None or not _alike(pipe.caller, caller):
            raise Fault("not_found", "there is no such stream. Open one at /mcp/sse")
        settings = self._service.settings.http
        body = None if web.exchange is None else web.exchange.whole_body()
        if body is None or len(body) > settings.max_body:
            body = await read_body(web.receive, web.head, settings)
        check_type(web.head)
        if pipe.waiting > _FULL:
            raise Fault("too_many_calls", "the stream at /mcp/sse is not read")
        await reply(web.send, 202, b"")
        pipe.receive(body)

    async def close(self) -> None:
        """End every stream; `McpDoor.close` sends their readers away."""
        for pipe in list(self._pipes.values()):
            await pipe.close()


def _alike(opener: Caller, sender: Caller) -> bool:
    """Whether credentials open the same: an address names a stream, and lends nobody the rights of
    whoever opened it."""
    return (
        opener.principal.name == sender.principal.name
        and opener.profile == sender.profile
        and opener.profiles == sender.profiles
        and opener.local == sender.local
    )
