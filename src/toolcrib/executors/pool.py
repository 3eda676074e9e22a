"""The workers of one event loop that are alike."""

from __future__ import annotations

import asyncio
from collections import deque

from toolcrib.executors.worker import Worker, WorkerSettings


class WorkerFailed(Exception):
    """A worker ended before it was ready; the text has its last words, for the log."""


class Pool:
    """Lends ready workers, one call each, in the order of asking. Grows when all are busy."""

    def __init__(self, loop: asyncio.AbstractEventLoop, settings: WorkerSettings) -> None:
        self.loop = loop
        self.settings = settings
        self.workers: set[Worker] = set()
        self._idle: list[Worker] = []
        self._dying: set[Worker] = set()
        """Ended by themselves, and not yet looked after."""
        self._waiting: deque[asyncio.Future[Worker]] = deque()
        self.closed = False

    async def take(self) -> Worker:
        """A worker that is ready."""
        while self._idle:
            worker = self._idle.pop()
            if not worker.ended:
                return worker
        mine: asyncio.Future[Worker] = self.loop.create_future()
        self._waiting.append(mine)
        self._grow()
        try:
            return await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled() and mine.exception() is None:
                self.give(mine.result())
            raise

    def give(self, worker: Worker) -> None:
        """Back from a call that ended well."""
        if self.closed or worker.ended:
            return
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(worker)
                return
        self._idle.append(worker)

    def forget(self, worker: Worker) -> None:
        """A worker has been ended. Another starts at once, so that the next call finds one."""
        self.workers.discard(worker)
        if not self.closed:
            self.loop.call_soon(self._grow, 1)

    def warm(self) -> None:
        """Start all workers now."""
        self._grow(self.settings.workers)

    def _grow(self, spare: int = 0) -> None:
        if self.closed:
            return
        starting = sum(not worker.ready for worker in self.workers)
        waiting = sum(not waiter.done() for waiter in self._waiting)
        wanted = max(waiting, spare - len(self._idle)) - starting
        for _ in range(min(wanted, self.settings.workers - len(self.workers))):
            self.workers.add(Worker(self.loop, self.settings, self._changed))

    def _changed(self, worker: Worker) -> None:
        if not worker.ended:
            self.give(worker)
            return
        self.workers.discard(worker)
        if worker in self._idle:
            self._idle.remove(worker)
        self._reap(worker)
        if worker.ready:
            return
        # One that cannot even start: one call hears of it, and the next starts another.
        text = worker.last_words.decode("utf-8", "replace")
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(WorkerFailed(f"a worker could not start:\n{text}"))
                break
        self._grow()

    def _reap(self, worker: Worker) -> None:
        if worker.process.poll() is not None:
            self._dying.discard(worker)
        elif not self.closed:
            self._dying.add(worker)
            self.loop.call_later(0.01, self._reap, worker)

    def let_go(self) -> list[Worker]:
        """Kill all workers; gives them, to be waited for."""
        self.closed = True
        workers, self.workers = [*self.workers, *self._dying], set()
        self._idle.clear()
        for worker in workers:
            worker.let_go()
        return workers
