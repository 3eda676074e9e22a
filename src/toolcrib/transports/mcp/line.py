"""The transport's side of one request, for every transport."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from toolcrib.core.link import InputRefused
from toolcrib.protocol import jsonrpc
from toolcrib.protocol.jsonrpc import Id
from toolcrib.transports.mcp.faults import McpFault

if TYPE_CHECKING:
    from toolcrib.transports.mcp.sessions import Connection

_log = logging.getLogger("toolcrib")
encode = msgspec.json.Encoder().encode


class Sink(Protocol):
    """Where messages to the client go. Putting never waits and never raises."""

    def push(self, frame: bytes) -> None: ...


class Line:
    """A `Channel`: what one request can do with its client while it is not answered."""

    __slots__ = ("_sink", "_told", "connection", "gone")

    def __init__(self, sink: Sink, connection: Connection | None) -> None:
        self._sink = sink
        self._told: list[Callable[[], None]] | None = None
        self.connection = connection
        """The client's connection in the handshake era, else None."""
        self.gone = False
        """Whether the client went away or cancelled the request."""

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell the client something that belongs to this request."""
        if not self.gone:
            said(self._sink, method, params)

    async def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        """Ask a client of the handshake era. Raises `McpFault` or `InputRefused`."""
        if self.connection is None:
            raise InputRefused("a client of this revision is not asked on its own channel")
        if self.gone:
            raise InputRefused("the client went away")
        return await self.connection.ask(method, params, self._sink)

    def on_gone(self, told: Callable[[], None]) -> None:
        """Tell when the client goes away or cancels; at once if it has."""
        if self.gone:
            told()
        elif self._told is None:
            self._told = [told]
        else:
            self._told.append(told)

    def leave(self) -> None:
        """The client went away or cancelled."""
        if self.gone:
            return
        self.gone = True
        told, self._told = self._told, None
        for each in told or ():
            try:
                each()
            except Exception:
                _log.exception("a request whose client left could not be stopped")


def said(sink: Sink, method: str, params: Mapping[str, Any]) -> None:
    """Send a notification."""
    try:
        frame = jsonrpc.notification(method, encode(params))
    except Exception:  # a notification is not worth the call
        _log.exception("the notification %s cannot be written", method)
        return
    sink.push(frame)


def one_line(frame: bytes) -> bytes:
    """A message without line breaks, which are what ends it on a pipe or a stream. JSON has them
    between values only, and what passes through as it came may have some."""
    if b"\n" in frame or b"\r" in frame:
        return frame.replace(b"\n", b" ").replace(b"\r", b" ")
    return frame


def error_frame(id: Id, fault: McpFault) -> bytes:
    """An error; without an id where none is known, as the protocol has it."""
    if id is None:
        return encode({"jsonrpc": "2.0", "error": fault.error()})
    data = None if fault.data is None else encode(fault.data)
    return jsonrpc.error(id, fault.code, fault.message, data)
