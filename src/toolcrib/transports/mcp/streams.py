"""Event streams to MCP clients: written without making anybody wait, numbered and resumable in the
handshake era."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from toolcrib.transports.http.answers import Send
from toolcrib.transports.mcp.line import one_line
from toolcrib.transports.outgoing import Outgoing

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store, no-transform"),
    (b"x-content-type-options", b"nosniff"),
    # Proxies that collect an answer before they pass it on would hold everything back.
    (b"x-accel-buffering", b"no"),
]
RETRY_MS = 1000
"""When a client that lost its connection comes again, in milliseconds."""
MOST_WAITING = 16_777_216
"""Bytes that wait for one reader; a slower one is cut off."""
MOST_KEPT = 256
"""Events of one stream that are kept for a client that resumes it."""
MOST_BYTES = 1_048_576
"""Their size, unless one event alone is larger."""
_BEAT = b":\n\n"
_LAST = 60.0
"""Seconds between two looks at whether a reader takes what is left."""


def event(frame: bytes, id: bytes | None = None) -> bytes:
    """One message in the form of server-sent events."""
    frame = one_line(frame)
    if id is None:
        return b"event: message\ndata: %b\n\n" % frame
    return b"id: %b\nevent: message\ndata: %b\n\n" % (id, frame)


class Events:
    """One HTTP answer that is an event stream; it begins with the first thing pushed."""

    def __init__(self, send: Send, cut: Callable[[], None] | None) -> None:
        """`cut` breaks the connection off, where the server can do that."""
        self._send = send
        self._cut = cut
        self._begun = False
        self._out = Outgoing(self._write, gone=self._lost, most=MOST_WAITING)
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the reader has left, or is to be sent away."""

    async def _write(self, data: bytes) -> None:
        if not self._begun:
            self._begun = True
            await self._send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    def _lost(self, why: str) -> None:
        if why == "slow_reader" and self._cut is not None:
            self._cut()
        self.leave()

    @property
    def closed(self) -> bool:
        """Whether nothing is written any more."""
        return self._out.closed

    @property
    def waiting(self) -> int:
        """Bytes that the reader has not taken yet."""
        return self._out.waiting

    def push(self, data: bytes) -> None:
        """Write something behind what waits."""
        self._out.push(data)

    def beat(self) -> None:
        """A sign of life, where nothing else is on its way."""
        if not self._out.waiting:
            self._out.push(_BEAT)

    def leave(self) -> None:
        """The reader has left."""
        self._out.close()
        self.send_away()

    def send_away(self) -> None:
        """Have whoever serves the stream end it."""
        if not self.over.done():
            self.over.set_result(None)

    async def end(self) -> None:
        """Write what waits and the end of the stream."""
        while self._out.waiting and not self._out.closed:
            await self._out.finish(_LAST)
        if self._out.closed:
            return
        self._out.close()
        if not self._begun:
            await self._send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await self._send({"type": "http.response.body", "body": b""})


class Stream:
    """A stream of the handshake era: it outlives the HTTP answer that carries it, and a client that
    lost that one resumes it by the id of the last event it saw."""

    def __init__(self, id: str, *, primed: bool) -> None:
        self.id = id
        self.ended = False
        """Whether its last event is on it."""
        self._primed = primed
        """Whether it opens with an event without a message, which tells the client where it is."""
        self._carrier: Events | None = None
        self._count = 0
        self._carried = 0
        """The number of the last event that some answer carried."""
        self._kept: deque[tuple[int, bytes]] = deque()
        self._size = 0

    @property
    def attached(self) -> bool:
        """Whether a client reads it now."""
        return self._carrier is not None and not self._carrier.closed

    def push(self, frame: bytes) -> None:
        """Send a message, or keep it for when the client comes back."""
        self._count += 1
        data = event(frame, self._place(self._count))
        self._keep(self._count, data)
        if self._carrier is not None:
            self._carried = self._count
            self._carrier.push(data)

    def _keep(self, number: int, data: bytes) -> None:
        kept = self._kept
        kept.append((number, data))
        self._size += len(data)
        while len(kept) > 1 and (len(kept) > MOST_KEPT or self._size > MOST_BYTES):
            self._size -= len(kept.popleft()[1])

    def _place(self, number: int) -> bytes:
        return f"{self.id}-{number}".encode()

    def attach(self, carrier: Events, after: int | None = None) -> None:
        """Have an HTTP answer carry it from now on, after the event of that number; None goes on
        after what was carried before."""
        before, self._carrier = self._carrier, carrier
        if before is not None:
            before.send_away()
        first = b"retry: %d\n" % RETRY_MS
        if after is None:
            after = self._carried
            if self._primed:
                first = b"id: %b\n%bdata: \n" % (self._place(after), first)
        carrier.push(first + b"\n")
        for number, data in self._kept:
            if number > after:
                carrier.push(data)
        self._carried = self._count

    def detach(self, carrier: Events | None = None) -> None:
        """Nobody reads it for now."""
        if carrier is None or carrier is self._carrier:
            self._carrier = None

    def close(self) -> None:
        """Have its reader sent away."""
        self.ended = True
        if self._carrier is not None:
            self._carrier.send_away()


def position(text: str) -> tuple[str, int] | None:
    """The stream and the number of an event id; None when it is none of ours."""
    stream, _, number = text.rpartition("-")
    if not stream or len(number) > 12 or not number.isascii() or not number.isdigit():
        return None
    return stream, int(number)


class Primed(Protocol):
    """Something that may become a stream."""

    def prime(self) -> None: ...


class Patience:
    """One timer for all answers that take a while: they become streams then, so that a client that
    loses its connection knows where to go on."""

    def __init__(self, seconds: float = 0.05) -> None:
        self._seconds = seconds
        self._due: dict[Primed, float] = {}
        """In the order in which they came, which is the order in which they are due."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, one: Primed) -> None:
        """Prime it when its time is up."""
        loop = asyncio.get_running_loop()
        self._due[one] = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._look)

    def discard(self, one: Primed) -> None:
        """It was answered."""
        self._due.pop(one, None)

    def _look(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for one, due in list(self._due.items()):
            if due > now:
                self._timer = loop.call_later(due - now, self._look)
                return
            del self._due[one]
            one.prime()

    def stop(self) -> None:
        """Prime nothing more."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Beating(Protocol):
    """Something that gives signs of life."""

    def beat(self) -> None: ...


class Heart:
    """One timer for all streams of a door."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._all: dict[Beating, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, one: Beating) -> None:
        """Have it beat from now on."""
        self._all[one] = None
        if self._timer is None:
            self._arm()

    def discard(self, one: Beating) -> None:
        """Let it be."""
        self._all.pop(one, None)

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._seconds(), self._beat)

    def _beat(self) -> None:
        self._timer = None
        for one in list(self._all):
            one.beat()
        if self._all:
            self._arm()

    def stop(self) -> None:
        """Beat no more."""
        self._all.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
