"""What waits to be sent to one client. A client that does not read holds up nobody but itself."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

MUCH = 1_048_576
"""Bytes waiting, from which on nothing more is read from the client and progress is left out."""
TOO_MUCH = 67_108_864
"""Bytes waiting, from which on the client counts as gone."""


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
