"""Wakes those who wait for somebody else's change."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar


class Changes:
    """Counts changes and wakes waiting tasks, whatever loop or thread they live in.

    A task that has read something and then waits is also woken by a change that happened in
    between: its wait begins at its latest read, not at the moment it falls asleep.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._waiting: list[asyncio.Future[None]] = []

    def seen(self) -> None:
        """Remember that this task has read the state as it is now."""
        _seen.set((self, self._count))

    def changed(self) -> None:
        """Wake everybody who waits."""
        with self._lock:
            self._count += 1
            waiting, self._waiting = self._waiting, []
        for future in waiting:
            try:
                future.get_loop().call_soon_threadsafe(_wake, future)
            except RuntimeError:  # its loop was closed: nobody waits there any more
                continue

    async def wait(self, timeout: float) -> bool:
        """Sleep until something changes; False when `timeout` seconds pass without."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        known = _seen.get()
        with self._lock:
            begin = known[1] if known is not None and known[0] is self else self._count
            if begin == self._count:
                self._waiting.append(future)
        try:
            if begin == self._count:
                await asyncio.wait([future], timeout=timeout)
            return begin != self._count
        finally:
            with self._lock:
                if future in self._waiting:
                    self._waiting.remove(future)
            self.seen()


_seen: ContextVar[tuple[Changes, int] | None] = ContextVar("toolcrib_store_seen", default=None)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
