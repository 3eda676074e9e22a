"""Reading one client's messages in turn without waiting for the calls that they make."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from toolcrib.transports.faults import Fault
from toolcrib.transports.outgoing import MUCH, Outlet

if TYPE_CHECKING:
    from toolcrib.transports.rpc import Connection


Next = Callable[[], Awaitable[bytes | str | None]]
"""Gives the next message; None at the end."""
AT_ONCE = 64
"""Messages of one client that are looked at before others have their turn."""


class Reading:
    """Takes messages from where they have to be asked for."""

    def __init__(
        self,
        connection: Connection,
        out: Outlet,
        next: Next,
        ended: Callable[[BaseException | None], None],
    ) -> None:
        self._connection = connection
        self._out = out
        self._next = next
        self._ended = ended
        """Told of the end: None when the client has no more to say, else what `next` raised."""
        self._reader = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        connection, out = self._connection, self._out
        try:
            while True:
                text = await self._next()
                if text is None:
                    self._ended(None)
                    return
                connection.receive(text)
                if out.waiting >= MUCH:
                    await out.room()
        except Exception as error:
            self._ended(error)

    async def stop(self) -> None:
        """Read no more; calls that were begun go on."""
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)


class Source(Protocol):
    """Where messages come from by themselves."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...


class Receiver(Protocol):
    """Who takes messages as they come."""

    more: bool
    """Whether others wait that will be taken in this moment, too."""

    def receive(self, text: bytes | str) -> None: ...
    def refuse(self, fault: Fault) -> None: ...


class Intake:
    """Takes messages from where they come by themselves.

    While the client reads too slowly, or sends too much for one moment, they wait here, and no more
    are read.
    """

    def __init__(self, connection: Receiver, out: Outlet, source: Source | None = None) -> None:
        self.source = source
        self.connection = connection
        """Who takes them; another one may take over between two messages."""
        self._out = out
        self._loop = asyncio.get_running_loop()
        self._texts: deque[bytes] = deque()
        self._held = False
        """Whether what waits will be looked at later."""
        self._roomless: asyncio.Task[None] | None = None
        self._finished: Callable[[], None] | None = None
        self._stopped = False

    def take(self, text: bytes) -> None:
        """Take one message."""
        if self._held:
            if not self._stopped:
                self._texts.append(text)
            return
        self.connection.receive(text)
        if self._out.waiting >= MUCH:
            self._hold()

    def take_all(self, texts: Iterable[bytes]) -> None:
        """Take several that came together; those that are answered at once are so together."""
        if self._stopped:
            return
        self._texts.extend(texts)
        if not self._held:
            self._go_on()

    def _go_on(self) -> None:
        self._held = False
        texts, out = self._texts, self._out
        for _ in range(AT_ONCE):
            if not texts or self._stopped:
                break
            text = texts.popleft()
            self.connection.more = bool(texts)
            self.connection.receive(text)
            if out.waiting >= MUCH:
                break
        self.connection.more = False
        if self._stopped:
            return
        if out.waiting >= MUCH:
            self._hold()
        elif texts:
            self._held = True
            if self.source is not None:
                self.source.pause()
            self._loop.call_soon(self._go_on)
        else:
            if self.source is not None:
                self.source.resume()
            if self._finished is not None:
                self._finished()

    def _hold(self) -> None:
        """Take no more until the client has read."""
        self._held = True
        if self.source is not None:
            self.source.pause()
        self._roomless = self._loop.create_task(self._wait_for_room())

    async def _wait_for_room(self) -> None:
        await self._out.room()
        self._go_on()

    def finish(self, finished: Callable[[], None]) -> None:
        """Nothing more comes; `finished` is called when all of it was looked at."""
        if self._held:
            self._finished = finished
        else:
            finished()

    def stop(self) -> None:
        """Take no more; calls that were begun go on."""
        self._stopped = self._held = True
        self._texts.clear()
        if self._roomless is not None:
            self._roomless.cancel()
