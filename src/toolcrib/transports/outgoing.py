"""What waits to be sent to one client. A client that does not read holds up nobody but itself."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

_log = logging.getLogger("toolcrib")
MUCH = 1_048_576
"""Bytes waiting, from which on nothing more is read from the client and progress is left out."""
TOO_MUCH = 67_108_864
"""Bytes waiting, from which on the client counts as gone."""
_PIECE = 65_536
"""Bytes that are written in one go."""


class Outlet(Protocol):
    """Where a connection's messages go. Putting never waits and never raises."""

    @property
    def waiting(self) -> int:
        """Bytes that the client has not taken yet."""
        ...

    def give(self, frame: bytes, more: bool) -> bool:
        """Send a message; `more` says that others may be ready in this moment. True when `flush`
        has to be awaited for it."""
        ...

    def push(self, frame: bytes) -> None:
        """Send a message from where nobody can wait for it."""
        ...

    async def flush(self) -> None:
        """Have what waits sent; may return before it is when somebody else does it."""
        ...

    async def room(self) -> None:
        """Wait until not much waits."""
        ...

    async def finish(self, seconds: float) -> None:
        """Wait until all is sent, or the time is over."""
        ...


class Outgoing:
    """An outlet over a function that sends one message and is awaited."""

    def __init__(
        self,
        send: Callable[[bytes], Awaitable[None]],
        *,
        gone: Callable[[str], None],
        most: int = TOO_MUCH,
    ) -> None:
        self.waiting = 0
        self.taken = 0
        """Messages that left."""
        self.closed = False
        self._send = send
        self._gone = gone
        """Told once that the client reads too slowly, or not at all any more."""
        self._most = most
        self._frames: deque[bytes] = deque()
        self._flushing = False
        self._helper: asyncio.Task[None] | None = None
        self._roomless: list[asyncio.Future[None]] = []
        self._empty: asyncio.Future[None] | None = None
        """Done when nothing waits any more."""

    def give(self, frame: bytes, more: bool) -> bool:
        """Send a message behind those that wait; true when nobody carries those out yet."""
        if self.closed:
            return False
        if self.waiting > self._most:
            self.close("slow_reader")
            return False
        self._frames.append(frame)
        self.waiting += len(frame)
        return not self._flushing

    def push(self, frame: bytes) -> None:
        """Send a message from where nobody can wait for it."""
        if self.give(frame, False) and (self._helper is None or self._helper.done()):
            self._helper = asyncio.ensure_future(self.flush())

    async def flush(self) -> None:
        """Carry out what waits, unless somebody does already."""
        if self._flushing:
            return
        self._flushing = True
        frames = self._frames
        try:
            while frames:
                frame = frames[0]
                await self._send(frame)
                if self.closed:
                    return
                frames.popleft()
                self.taken += 1
                self.waiting -= len(frame)
                if self._roomless and self.waiting < MUCH // 2:
                    self._make_room()
        except Exception:  # whatever the server raises for a client that is not there any more
            self.close("client_gone")
        finally:
            self._flushing = False
            if self._empty is not None and not self._empty.done():
                self._empty.set_result(None)

    async def room(self) -> None:
        """Wait until not much waits."""
        while self.waiting >= MUCH and not self.closed:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._roomless.append(future)
            await future

    def _make_room(self) -> None:
        roomless, self._roomless = self._roomless, []
        for future in roomless:
            if not future.done():
                future.set_result(None)

    async def finish(self, seconds: float) -> None:
        """Wait until all is sent, or the time is over."""
        if not self._flushing:
            self._helper = asyncio.ensure_future(self.flush())
            await asyncio.wait({self._helper}, timeout=seconds)
        else:
            self._empty = asyncio.get_running_loop().create_future()
            await asyncio.wait({self._empty}, timeout=seconds)

    def close(self, why: str | None = None) -> None:
        """Send nothing more."""
        if self.closed:
            return
        self.closed = True
        self._frames.clear()
        self.waiting = 0
        self._make_room()
        if self._helper is not None:
            self._helper.cancel()
        if why is not None:
            self._gone(why)


class Round:
    """What is written when the loop turns, for all clients: first everything is read and done that
    came in this moment, then it is answered. One after the other, each answer would wake its
    client in between."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._work: list[Callable[[], None]] = []

    def add(self, work: Callable[[], None]) -> None:
        if not self._work:
            self.loop.call_soon(self._run)
        self._work.append(work)

    def _run(self) -> None:
        work, self._work = self._work, []
        for each in work:
            try:
                each()
            except Exception:
                _log.exception("answers could not be written")


_last = threading.local()
"""The round of the loop that this thread used last."""


def round_of(loop: asyncio.AbstractEventLoop) -> Round:
    """The one of this loop, which is the running one."""
    found: Round | None = getattr(_last, "round", None)
    if found is None or found.loop is not loop:
        found = _last.round = Round(loop)
    return found


class Direct:
    """An outlet over a function that writes messages at once, and tells when it has had enough
    for the moment (`pause`, `resume`)."""

    def __init__(
        self,
        write: Callable[[Sequence[bytes]], None],
        *,
        gone: Callable[[str], None],
        most: int = TOO_MUCH,
    ) -> None:
        self.waiting = 0
        self.taken = 0
        """Messages that left."""
        self.closed = False
        self._write = write
        self._gone = gone
        """Told once that the client reads too slowly."""
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._round = round_of(self._loop)
        self._frames: deque[bytes] = deque()
        self._paused = False
        self._idle = True
        """Whether the next message has it written when the loop turns: nothing waits for that."""
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        """Those who go on when no more than so many bytes wait."""

    def give(self, frame: bytes, more: bool) -> bool:
        """Send a message with those that are ready before the loop turns."""
        self._frames.append(frame)
        self.waiting += len(frame)
        if self._idle:
            self._idle = False
            self._round.add(self._carry)
        elif self.closed:
            self._frames.clear()
            self.waiting = 0
        elif self.waiting - len(frame) > self._most:
            self.close("slow_reader")
        return False

    def push(self, frame: bytes) -> None:
        """Send a message with those that are ready before the loop turns."""
        self.give(frame, True)

    def pause(self) -> None:
        """Nothing more is written for now."""
        self._paused = True

    def resume(self) -> None:
        """It is written on."""
        self._paused = False
        self._carry()

    def _carry(self) -> None:
        frames = self._frames
        if len(frames) == 1 and not self._paused and not self._waiters:  # what it mostly is
            self.taken += 1
            self.waiting = 0
            self._idle = True
            self._write((frames.popleft(),))
            return
        self._idle = not self._paused and not self.closed
        while frames and not self._paused and not self.closed:
            some: list[bytes] = []
            size = 0
            while frames and size < _PIECE:
                size += len(frames[0])
                some.append(frames.popleft())
            self.taken += len(some)
            self.waiting -= size
            self._write(some)
        if self._waiters:
            self._wake()

    def _wake(self) -> None:
        ready = [future for most, future in self._waiters if self.closed or self.waiting <= most]
        self._waiters = [one for one in self._waiters if one[1] not in ready]
        for future in ready:
            if not future.done():
                future.set_result(None)

    def _until(self, most: int) -> asyncio.Future[None]:
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append((most, future))
        return future

    async def flush(self) -> None:
        """What can be written is written when the loop turns."""

    async def room(self) -> None:
        """Wait until not much waits."""
        while self.waiting >= MUCH and not self.closed:
            await self._until(MUCH // 2)

    async def finish(self, seconds: float) -> None:
        """Wait until all is written, or the time is over."""
        self._carry()
        if self._frames and not self.closed:
            await asyncio.wait({self._until(0)}, timeout=seconds)

    def close(self, why: str | None = None) -> None:
        """Send nothing more."""
        if self.closed:
            return
        self.closed = True
        self._idle = False
        self._frames.clear()
        self.waiting = 0
        self._wake()
        if why is not None:
            self._gone(why)
