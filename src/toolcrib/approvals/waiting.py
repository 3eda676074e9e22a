"""Who waits for which request, in whatever event loop, and what wakes them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from toolcrib.errors import StoreError

if TYPE_CHECKING:
    from toolcrib.core.protocols import Store


TICK = 1.0
"""Seconds after which a wait looks at the clock again, in case somebody moved its hands."""
MOST = 10_000
"""Pending requests looked at in one go."""

_Waiter = tuple[asyncio.AbstractEventLoop, asyncio.Event]


class Waiting:
    """Events by request id; waking works from any thread, loop and, by the store, process."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._waiters: dict[str, list[_Waiter]] = {}
        self._watchers: dict[asyncio.AbstractEventLoop, asyncio.Task[None]] = {}

    @contextmanager
    def on(self, id: str) -> Generator[asyncio.Event, None, None]:
        """An event of the running loop that is set when the request may have changed."""
        loop = asyncio.get_running_loop()
        waiter = (loop, asyncio.Event())
        with self._lock:
            self._waiters.setdefault(id, []).append(waiter)
            if self._store.durable and loop not in self._watchers:
                self._watchers[loop] = loop.create_task(self._watch(loop))
        try:
            yield waiter[1]
        finally:
            with self._lock:
                self._waiters[id].remove(waiter)
                if not self._waiters[id]:
                    del self._waiters[id]

    async def pause(self, changed: asyncio.Event, until: float) -> None:
        """Sleep until the event is set or the clock shows `until`."""
        while not changed.is_set() and (left := until - self._clock()) > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), min(left, TICK))

    def wake(self, id: str) -> None:
        """Have everybody who waits for this request look again."""
        with self._lock:
            waiters = tuple(self._waiters.get(id, ()))
        for loop, event in waiters:
            # A loop that has been closed has nobody left who waits.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(event.set)

    def watchers(self) -> set[asyncio.Task[None]]:
        """The tasks that follow what other processes answer."""
        with self._lock:
            return set(self._watchers.values())

    async def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Follow the store for as long as somebody in this loop waits."""
        try:
            while waited := self._waited_in(loop):
                try:
                    await self._store.wait(timeout=TICK)
                    # Looked at also when nothing is said to have changed: an answer may have come
                    # between a waiter's last look and this wait.
                    pending = await self._store.requests(state="pending", limit=MOST)
                    waited.difference_update(request.id for request in pending)
                except StoreError:
                    # Each waiter is woken, sees the trouble for itself and refuses its call.
                    await asyncio.sleep(TICK)
                for request_id in waited:
                    self.wake(request_id)
        finally:
            with self._lock:
                del self._watchers[loop]

    def _waited_in(self, loop: asyncio.AbstractEventLoop) -> set[str]:
        with self._lock:
            return {
                request_id
                for request_id, waiters in self._waiters.items()
                if any(waiter[0] is loop for waiter in waiters)
            }
