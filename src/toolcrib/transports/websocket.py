"""The WebSocket door: text frames are JSON-RPC messages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault
from toolcrib.transports.outgoing import Direct, Outgoing
from toolcrib.transports.reading import Intake, Reading
from toolcrib.transports.rpc import Connection
from toolcrib.transports.service import Service

_log = logging.getLogger("toolcrib")
LINE = "toolcrib.line"
"""Where a scope has the server's own `Line`, if it has one."""
PROTOCOL = "toolcrib.v1"
"""The subprotocol; accepted when a client offers it, and not asked for."""
NOT_TEXT = 1003
POLICY = 1008
TOO_BIG = 1009
FAILED = 1011
RESTARTING = 1012
LATER = 1013
LOOK = 1.0
"""Seconds between two looks at whether credentials still hold, and clients read."""
GRACE = 5.0
"""Seconds in which a client that fell behind has to take a message; else it is cut off."""
_LONGEST_REASON = 120
"""Bytes; the standard leaves room for 123."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Line(Protocol):
    """A server's WebSocket, as far as it can do without the messages of ASGI."""

    def hold(self) -> bool: ...
    def open(self, end: End, limit: int) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def write(self, texts: Sequence[bytes]) -> None: ...


class _Ended(Exception):
    """The connection is to be closed, with this code and reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class _Socket:
    """One accepted WebSocket."""

    def __init__(self, receive: Receive, send: Send, max_bytes: int, line: Line | None) -> None:
        self._receive = receive
        self._send = send
        self._max_bytes = max_bytes
        self.ended: asyncio.Future[_Ended | None] = asyncio.get_running_loop().create_future()
        """Done when the client has gone, or this side wants to end it."""
        self.direct = None if line is None else Direct(line.write, gone=self._gone)
        self.out = self.direct or Outgoing(self._send_text, gone=self._gone)
        self._late: tuple[float, int] | None = None
        """Since when, and behind how many messages, a client that fell behind takes nothing."""

    def _send_text(self, frame: bytes) -> Awaitable[None]:
        return self._send({"type": "websocket.send", "text": frame.decode()})

    def _gone(self, why: str) -> None:
        self.end(_Ended(POLICY, why))

    def end(self, how: _Ended | None) -> None:
        """Have it closed; None when the client did it."""
        if not self.ended.done():
            self.ended.set_result(how)

    def hurry(self) -> None:
        """The client did not keep up with events: from now on it has to read."""
        self._late = asyncio.get_running_loop().time(), self.out.taken

    def look(self, now: float) -> None:
        """End it when a client that should hurry takes nothing."""
        if self._late is None:
            return
        since, taken = self._late
        if not self.out.waiting:
            self._late = None
        elif self.out.taken != taken:
            self._late = now, self.out.taken
        elif now - since >= GRACE:
            self._late = None
            self.out.close("slow_reader")

    async def next(self) -> str | None:
        """What the client sends; None when it has gone. Raises `_Ended`."""
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            return None
        text: str | None = message.get("text")
        if text is None:
            raise self.not_text()
        if len(text) > self._max_bytes:
            raise self.too_big()
        return text

    def not_text(self) -> _Ended:
        return _Ended(NOT_TEXT, "messages are text frames with JSON-RPC")

    def too_big(self) -> _Ended:
        return _Ended(TOO_BIG, f"a message has at most {self._max_bytes} bytes")

    def over(self, why: BaseException | None) -> None:
        """Nothing more is read."""
        if why is None or isinstance(why, _Ended):
            self.end(why)
        else:
            _log.error("a WebSocket broke off", exc_info=why)
            self.end(_Ended(FAILED, "unexpected_failure"))

    async def close(self, how: _Ended) -> None:
        """Say goodbye; a client that is gone does not hear it."""
        self.out.close()
        reason = how.reason.encode()[:_LONGEST_REASON].decode(errors="ignore")
        message = {"type": "websocket.close", "code": how.code, "reason": reason}
        with suppress(Exception):  # whatever the server raises for a client that is gone
            await asyncio.wait_for(self._send(message), 1.0)


class End:
    """What a `Line` tells."""

    def __init__(self, socket: _Socket, out: Direct, connection: Connection, line: Line) -> None:
        self.out = out
        self._socket = socket
        self._intake = Intake(connection, out, line)
        self.take = self._intake.take
        """Takes one text."""
        self.take_all = self._intake.take_all

    def refuse_bytes(self) -> None:
        """A message was not text."""
        self._over(self._socket.not_text())

    def refuse_size(self) -> None:
        """A message was too long."""
        self._over(self._socket.too_big())

    def gone(self) -> None:
        """Nothing comes any more."""
        self._over(None)

    def _over(self, how: _Ended | None) -> None:
        self._intake.stop()
        self._socket.over(how)

    async def stop(self) -> None:
        """Read no more; calls that were begun go on."""
        self._intake.stop()


class _Sockets:
    """The open WebSockets of one service."""

    def __init__(self) -> None:
        self.open: set[tuple[_Socket, Connection]] = set()
        self._look()

    def _look(self) -> None:
        """End those whose credentials do not hold any more, also when they say nothing, and those
        that do not read."""
        loop = asyncio.get_running_loop()
        self.timer = loop.call_later(LOOK, self._look)
        for socket, connection in self.open:
            if connection.caller.badge.over:
                socket.end(_Ended(POLICY, "unauthenticated"))
            socket.look(loop.time())


_sockets: dict[Service, _Sockets] = {}
"""Of services that have some."""


async def serve_websocket(
    service: Service, caller: Caller, scope: Scope, receive: Receive, send: Send
) -> None:
    """Serve one WebSocket until it ends. Who calls, and from where, was checked before."""
    await receive()  # the handshake
    offered: list[str] = list(scope.get("subprotocols") or ())
    accept: dict[str, Any] = {"type": "websocket.accept"}
    if PROTOCOL in offered:
        accept["subprotocol"] = PROTOCOL
    await send(accept)
    limit = service.settings.http.max_body
    line: Line | None = scope.get(LINE)
    if line is not None and not line.hold():
        line = None
    socket = _Socket(receive, send, limit, line)
    try:
        if service.stopping:
            raise _Ended(RESTARTING, "host_stopping")
        session = await service.open_session(caller.at(None, "websocket"), lasting=False)
    except Fault as fault:
        code = LATER if fault.row.retry == "yes" else POLICY
        await socket.close(_Ended(code, f"{fault.reason}: {fault.message}"))
        return
    except _Ended as how:
        await socket.close(how)
        return
    connection = Connection(
        service,
        caller.at(session, "websocket"),
        socket.out,
        max_bytes=limit,
        fell_behind=socket.hurry,
    )
    both = (socket, connection)
    sockets = _sockets.get(service) or _sockets.setdefault(service, _Sockets())
    sockets.open.add(both)
    reading: Reading | End
    if line is not None and socket.direct is not None:
        reading = End(socket, socket.direct, connection, line)
        line.open(reading, limit)
    else:
        reading = Reading(connection, socket.out, socket.next, socket.over)
    how: _Ended | None = None
    try:
        how = await socket.ended
    finally:
        sockets.open.discard(both)
        if not sockets.open and _sockets.pop(service, None) is not None:
            sockets.timer.cancel()
        await reading.stop()
        if how is not None:
            await socket.close(how)
        socket.out.close()
        await connection.close()


async def close_websockets(service: Service, seconds: float) -> None:
    """Let what the clients asked for end, for so many seconds; then close every WebSocket because
    the host stops."""
    sockets = _sockets.get(service)
    both = [] if sockets is None else list(sockets.open)
    await asyncio.gather(*(connection.drain(seconds) for _, connection in both))
    for socket, _ in both:
        await socket.out.finish(1.0)
        socket.end(_Ended(RESTARTING, "host_stopping"))
