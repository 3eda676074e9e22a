"""One HTTP/1.1 connection, with no more between it and its reader than has to be."""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import httptools

from toolcrib.errors import ToolFailure
from toolcrib.net.exchange import Request
from toolcrib.net.framing import Frame, Parts, frame_of
from toolcrib.net.inflate import Inflater

_MOST_HEAD = 64 * 1024
"""Bytes of the head of an answer."""
_MOST_HELD = 1 << 20
"""Bytes of a body that wait for their reader before the server has to."""
_OK = b"HTTP/1.1 200 "
_UNUSUAL = frozenset(("transfer-encoding", "content-encoding", "upgrade"))
_LINGER = 1.0
"""Seconds for an answer to end by itself, so that its connection can be kept."""


class QuickConnection(asyncio.Protocol):
    """Carries one request at a time. `idle` is called when it can carry another one, `ended` when
    it cannot carry any more."""

    def __init__(
        self,
        idle: Callable[[QuickConnection], None],
        ended: Callable[[QuickConnection], None],
    ) -> None:
        self._idle = idle
        self._ended = ended
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        """What reads the answer, if it has to be read closely."""
        self._stream: QuickStream | None = None
        self._usual: _Usual | None = None
        self._parts: Parts | None = None
        """An answer whose head is known and which is not whole."""
        self._first = b""
        """The first piece of any other answer."""
        self.since = 0.0
        """When it became idle."""

    @property
    def open(self) -> bool:
        """Whether a request can be sent on it, as far as is known."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def parser(self) -> Any:
        """What reads the answer."""
        return self._parser

    def send(self, request: Request, data: bytes) -> QuickStream:
        """Send a request as `data` has it; the answer's head is still to be waited for."""
        stream = self._stream = QuickStream(self, request)
        self._parser = self._parts = None
        transport: Any = self._transport
        transport.write(data)
        return stream

    def pause(self) -> None:
        """Let the server wait."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """Give it up at once."""
        if self._transport is not None:
            self._transport.abort()

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """There is a connection."""
        self._transport = cast("asyncio.Transport", transport)
        # What is written leaves at once, not when the loop turns: somebody waits for it.
        self._transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        """A piece of an answer."""
        stream = self._stream
        if stream is None:  # nobody asked
            self.close()
            return
        parser, usual = self._parser, self._usual
        if parser is None:
            body = None
            if self._parts is not None:
                self._parts.add(data)
                if self._parts.missing > 0:
                    return
                parts, self._parts = self._parts, None
                body, data = parts.body if parts.missing == 0 else None, bytes(parts.data)
            elif usual is not None and (found := usual.frame.open(data)) is not None:
                body, missing = found
                if missing:
                    self._parts = Parts(data, body, missing)
                    return
            if usual is not None and body is not None:
                self._stream = None
                stream.take(usual.headers, body)
                self._idle(self)
                return
            self._first = data
            parser = self._parser = httptools.HttpResponseParser(stream)
            usual = None
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            stream.fail("does not answer in HTTP")
            self.close()
            return
        if stream.over_head(len(data)):
            stream.fail("answers with a head that does not end")
            self.close()
        elif stream.whole:
            self._stream = None
            stream.unpause()
            if stream.keep and self.open:
                self._usual = _usual(stream, self._first)
                self._idle(self)
            else:
                self.close()

    def eof_received(self) -> bool:
        """The server says no more; a body without a length ends so."""
        if self._stream is not None:
            self._stream.end_of_input()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        stream, self._stream, self._transport = self._stream, None, None
        if stream is not None and not stream.whole:
            stream.fail("closed the connection before its answer was whole")
        self._ended(self)


class _Usual(NamedTuple):
    """A plain answer. The next one on the connection mostly has the same head; equal bytes mean the
    same, and need not be parsed again."""

    frame: Frame
    headers: dict[str, str]


def _usual(stream: QuickStream, data: bytes) -> _Usual | None:
    """What to expect the next time; `data` is the first piece of this answer."""
    headers = stream.headers
    if not data.startswith(_OK) or stream.status != 200 or not stream.request.expects_body:
        return None  # it may begin with what comes before an answer proper
    frame = frame_of(data, headers.get("content-length", "").encode("latin-1"))
    return None if frame is None or not _UNUSUAL.isdisjoint(headers) else _Usual(frame, headers)


class QuickStream:
    """An `Answer` that a quick connection reads."""

    # Most answers come whole, so the defaults stand on the class.
    status = 0
    headers: dict[str, str]
    """Names in lower case."""
    whole = False
    """Whether all of it has come."""
    keep = False
    """Whether the connection can be used again."""
    _held = 0
    _head = 0
    _named = 0
    begun = False
    """Whether its head is there."""
    _bare = False
    """Whether the body ends with the connection."""
    _paused = False
    _closed = False
    _unheard = False
    """Whether nobody reads what still comes."""
    _failed: str | None = None
    _waiter: asyncio.Future[None] | None = None

    def __init__(self, connection: QuickConnection, request: Request) -> None:
        self.request = request
        self.headers = {}
        self._connection = connection
        self._pieces: list[bytes] = []

    def take(self, headers: dict[str, str], body: bytes) -> None:
        """The whole answer is here, and its head is known."""
        self.status = 200
        self.headers = headers
        self.keep = self.whole = self.begun = True
        if body:
            self._pieces.append(body)
            self._held = len(body)
        self._wake()

    @property
    def all_there(self) -> bytes | None:
        """The body, if it came whole and as it is; else it has to be read."""
        pieces = self._pieces
        if not self.whole or len(pieces) != 1 or "content-encoding" in self.headers:
            return None
        return pieces[0]

    @property
    def content_type(self) -> str:
        """The media type alone, in lower case; empty when the server said none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def read(self) -> bytes:
        """The next piece; empty at the end. Raises `ToolFailure` when the connection breaks."""
        while not self._pieces:
            if self.whole:
                return b""
            await self.more()
        piece = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._held = 0
        self.unpause()
        return piece

    async def body(self, limit: int) -> bytes:
        """All of it. Raises `ToolFailure` with the reason `output_too_large` while it comes."""
        coding = self.headers.get("content-encoding", "")
        if not coding and self.whole and self._held <= limit:
            return await self.read()
        inflater = Inflater(coding, limit)
        while piece := await self.read():
            if not inflater.feed(piece):
                self.close()
                text = f"{self.request.words} answered with more than {limit} bytes"
                raise ToolFailure(text, reason="output_too_large")
        return inflater.body()

    def close(self) -> None:
        """Stop reading, and drop the connection unless the answer was read to its end."""
        if not self._closed:
            self._closed = True
            if not self.whole:
                self._connection.close()

    def finish(self) -> None:
        """What matters was read: keep the connection if the answer ends in a moment."""
        if self.whole or self._closed:
            return
        self._unheard = True
        self._pieces.clear()
        self.unpause()
        asyncio.get_running_loop().call_later(_LINGER, self.close)

    def unpause(self) -> None:
        """Have the server go on."""
        if self._paused:
            self._paused = False
            self._connection.resume()

    def more(self) -> asyncio.Future[None]:
        """Done when something came. Raises `ToolFailure` when nothing will."""
        if self._failed is not None:
            place = self.request.url.authority
            raise ToolFailure(f"{place} {self._failed}", reason="upstream_error")
        self._waiter = waiter = get_running_loop().create_future()
        return waiter

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def fail(self, words: str) -> None:
        """It does not go on."""
        if self._failed is None and not self.whole:
            self._failed = words
            self._wake()

    def over_head(self, size: int) -> bool:
        """Whether its head is longer than any."""
        if not self.begun:
            self._head += size
        return self._head > _MOST_HEAD

    def end_of_input(self) -> None:
        """The server says no more."""
        if self._bare and self.begun:
            self.whole = True
            self._wake()

    # What the parser calls.

    def on_message_begin(self) -> None:
        """A second answer to one request is none: it would be taken for the next one's."""
        if self.whole:
            raise ValueError("nobody asked for this")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; all of them together have their limit."""
        self._named += len(name) + len(value)
        if self._named > _MOST_HEAD:
            raise ValueError("the head does not end")
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
        known = self.headers.get(key)
        self.headers[key] = text if known is None else f"{known}, {text}"

    def on_headers_complete(self) -> None:
        """The head is there; the parser knows the status."""
        parser = self._connection.parser
        self.status = parser.get_status_code()
        if 100 <= self.status < 200:
            self.headers = {}
            return
        self.keep = parser.should_keep_alive()
        self._bare = (
            "content-length" not in self.headers and "transfer-encoding" not in self.headers
        )
        self.begun = True
        self._wake()

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self._unheard:
            return
        self._pieces.append(body)
        self._held += len(body)
        if self._held > _MOST_HELD and not self._paused:
            self._paused = True
            self._connection.pause()
        self._wake()

    def on_message_complete(self) -> None:
        """All of it is there; what comes before the answer proper is not it."""
        if self.begun:
            self.whole = True
            self._wake()
