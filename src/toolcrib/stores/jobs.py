"""Work handed to a store's thread, and the way its outcome comes back."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any


class Job:
    """One piece of work on a connection, and the future of the task that waits for it."""

    __slots__ = ("error", "future", "loop", "value", "wakes", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], Any], *, wakes: bool = False) -> None:
        self.work = work
        self.wakes = wakes
        """Whether its success is news for those who wait for changes."""
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.value: Any = None
        self.error: Exception | None = None


def settle(jobs: Iterable[Job]) -> None:
    """Give every waiting task its outcome, with one call into each loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in jobs:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, group in by_loop.items():
        try:
            loop.call_soon_threadsafe(_deliver, group)
        except RuntimeError:  # the loop was closed meanwhile: nobody waits there any more
            continue


def _deliver(jobs: list[Job]) -> None:
    for job in jobs:
        if job.future.done():
            continue
        if job.error is None:
            job.future.set_result(job.value)
        else:
            job.future.set_exception(job.error)
