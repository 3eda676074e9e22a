"""One request and its answer on our own server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from toolcrib.transports.faults import Fault
from toolcrib.transports.http.answers import JSON_HEAD
from toolcrib.transports.outgoing import Round

CONNECTION = "toolcrib.connection"
"""Where a scope of our own server has its connection."""
DONE = object()
"""What stands in the place of work that is done and answered already."""
_MUCH = 65_536
_CLOSE = b"connection: close\r\n"
LINGER = 1.0
"""Seconds for which the rest of a refused body is read and thrown away, so that the client gets to
read the answer before the connection is reset."""


class Exchange(RequestResponseCycle):
    """What uvicorn knows of a request, and what our door asks of it besides."""

    gone: Callable[[], object] | None = None
    """Told when the client goes away before its answer."""

    # What uvicorn sets on every one, and what hardly any request changes.
    access_log = False
    disconnected = False
    waiting_for_100_continue = False
    more_body = True
    response_started = False
    response_complete = False
    chunked_encoding: bool | None = None
    expected_content_length = 0

    def __init__(
        self, connection: HttpToolsProtocol, scope: Any, *, expects: bool, keep_alive: bool
    ) -> None:
        self.connection: Any = connection
        self.scope = scope
        self.transport = connection.transport
        self.flow = connection.flow
        self.logger = connection.logger
        self.access_logger = connection.access_logger
        self.default_headers = connection.server_state.default_headers
        self.on_response = connection.on_response_complete
        self.keep_alive = keep_alive
        self.body = bytearray()
        if expects:
            self.waiting_for_100_continue = True

    @cached_property
    def message_event(self) -> asyncio.Event:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Set when something of the request came. Most requests are there before anybody waits."""
        event = asyncio.Event()
        if self.body or not self.more_body or self.disconnected:
            event.set()
        return event

    def came(self) -> None:
        """Wake whoever waits for the request."""
        if "message_event" in self.__dict__:
            self.message_event.set()

    def whole_body(self) -> bytes | None:
        """The body, if all of it is here already."""
        return None if self.more_body else bytes(self.body)

    def finish(self, status: int, head: bytes, body: bytes, *, now: bool = False) -> bool:
        """Write a whole answer in one go: `head` is the header lines up to the length's value.
        With `now`, it does not wait for the loop to turn.

        False when a slow reader has to be waited for; then the usual way has to be taken.
        """
        if self.flow.write_paused:
            return False
        if self.disconnected or self.response_started:
            return True
        self.response_started = self.response_complete = True
        first = STATUS_LINE[status] if self.keep_alive else STATUS_LINE[status] + _CLOSE
        date = self.connection.owner.date_line
        transport: Any = self.transport
        if len(body) > _MUCH:  # not to be copied once more
            transport.writelines((b"%b%b%b%d\r\n\r\n" % (first, date, head, len(body)), body))
        else:
            write = transport.write if now else transport.write_later
            write(b"%b%b%b%d\r\n\r\n%b" % (first, date, head, len(body), body))
        if "message_event" in self.__dict__:
            self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()
        return True

    def lost(self) -> None:
        """The connection is gone."""
        if self.response_complete:
            return
        self.disconnected = True
        self.came()
        if self.gone is not None:
            self.gone()

    def break_off(self, fault: Fault) -> None:
        """Answer with a fault if an answer can still be given at once, and close in any case."""
        self.keep_alive = False
        told = not self.response_started and self.finish(
            fault.http, JSON_HEAD, msgspec.json.encode(fault.result())
        )
        if not told and not self.response_complete:
            self.transport.abort()

    def linger(self) -> None:
        """Close the connection gently after the answer: the client may still be sending. Nothing
        that comes behind this could be answered, so nothing of it is done."""
        self.keep_alive = False
        self.connection.deaf = True
        self.connection.pipeline.clear()
        gentle: Any = _Gentle(self.transport)
        self.transport = gentle


def hang_up(transport: asyncio.Transport) -> None:
    """Say that nothing more comes, and close a little later, when the client could read it."""
    if transport.is_closing():
        return
    if transport.can_write_eof():
        transport.write_eof()
    asyncio.get_running_loop().call_later(LINGER, transport.close)


class Turning:
    """A transport that can also write when the loop turns, together with all others: first all is
    read that came in this moment. One after the other, each answer would wake its client in
    between."""

    def __init__(self, transport: asyncio.Transport, turn: Round) -> None:
        self.real = transport
        self._round = turn
        self._late: list[bytes] = []
        self.is_closing = transport.is_closing
        self.get_extra_info = transport.get_extra_info
        self.can_write_eof = transport.can_write_eof
        self.get_protocol = transport.get_protocol

    def write_later(self, data: bytes) -> None:
        if not self._late:
            self._round.add(self.flush)
        self._late.append(data)

    def flush(self) -> None:
        """Write what waits for the loop to turn."""
        if self._late:
            late, self._late = self._late, []
            self.real.write(b"".join(late))

    def write(self, data: bytes) -> None:
        if self._late:
            self.flush()
        self.real.write(data)

    def writelines(self, parts: Iterable[bytes]) -> None:
        self.flush()
        self.real.writelines(parts)

    def write_eof(self) -> None:
        self.flush()
        self.real.write_eof()

    def close(self) -> None:
        self.flush()
        self.real.close()

    def abort(self) -> None:
        self._late.clear()
        self.real.abort()


class _Gentle:
    """A transport that is closed gently."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.write = transport.write
        self.write_later = transport.write
        self.writelines = transport.writelines
        self.is_closing = transport.is_closing

    def close(self) -> None:
        hang_up(self._transport)
