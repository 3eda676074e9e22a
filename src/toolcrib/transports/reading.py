"""Reading one client's messages in turn without waiting for the calls that they make."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any

from toolcrib.transports.outgoing import MUCH, Outlet
from toolcrib.transports.rpc import Connection

_log = logging.getLogger("toolcrib")

Next = Callable[[], Awaitable[bytes | str | None]]
"""Gives the next message; None at the end."""


class Noticed:
    """`await Noticed(work, told)` is `await work`, and `told` is called when it begins to wait.
    Nobody is told of work that is done in one go."""

    __slots__ = ("_told", "_work")

    def __init__(self, work: Coroutine[Any, Any, None], told: Callable[[], None]) -> None:
        self._work = work
        self._told = told

    def __await__(self) -> Generator[Any, Any, None]:
        work = self._work
        try:
            waiting = work.send(None)
            self._told()
            while True:
                try:
                    got = yield waiting
                except BaseException as error:
                    waiting = work.throw(error)
                else:
                    waiting = work.send(got)
        except StopIteration:
            return


class Reading:
    """Takes messages one after the other.

    A plain call that is done at once is done by the task that reads: another one would cost more
    than the call. When a call begins to wait, a new task reads on, and the old one belongs to that
    call.
    """

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
        self._loop = asyncio.get_running_loop()
        self._reader: asyncio.Task[None] | None = None
        self._stopped = False
        self.read_on()

    def read_on(self) -> None:
        """Have a new task read."""
        if not self._stopped:
            self._reader = self._loop.create_task(self._read())

    async def _read(self) -> None:
        connection, out = self._connection, self._out
        mine = asyncio.current_task()
        try:
            while True:
                text = await self._next()
                if text is None:
                    self._ended(None)
                    return
                call = connection.plain_call(text)
                if call is None:
                    connection.receive(text)
                else:
                    call.task = mine
                    await Noticed(connection.serve_call(call), self.read_on)
                    if self._reader is not mine:
                        return
                if out.waiting >= MUCH:
                    await out.room()
        except Exception as error:
            self._ended(error)

    async def stop(self) -> None:
        """Read no more; calls that were begun go on."""
        self._stopped = True
        reader = self._reader
        if reader is not None and reader is not asyncio.current_task():
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
