"""One exporter, its queue, and what is said when it fails."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from toolcrib.core.events import Event
from toolcrib.observe.redact import Redactor

if TYPE_CHECKING:
    from toolcrib.core.protocols import Exporter


QUEUE = 10_000
"""Events an exporter may be behind before the oldest are dropped."""
BATCH = 512
"""The most events an exporter gets at once."""
DELAY = 0.5
"""Seconds a queued exporter's first event waits for company."""
COMPLAIN = 60.0
"""Seconds between two log lines about the same listener."""

_log = logging.getLogger("toolcrib")


class ExporterCounts(NamedTuple):
    """How an exporter is doing."""

    exported: int
    dropped: int
    failed: int


class Complaints:
    """Says that a listener fails, once a minute, without what it must not say."""

    def __init__(self, redactor: Redactor, clock: Callable[[], float]) -> None:
        self._redactor = redactor
        self._clock = clock
        self._last: dict[str, float] = {}

    def about(self, listener: str, error: BaseException, count: int) -> None:
        """Say that `listener` raised `error`, unless that was said just now."""
        now = self._clock()
        if now - self._last.get(listener, -COMPLAIN) < COMPLAIN:
            return
        self._last[listener] = now
        said = self._redactor.text(f"{type(error).__name__}: {error}")
        _log.warning(
            "%s failed (%d events so far); calls are not affected: %s", listener, count, said
        )


class Lane:
    """One exporter, its queue, and the task that empties it."""

    def __init__(self, name: str, exporter: Exporter, complaints: Complaints) -> None:
        self.name = name
        self.exporter = exporter
        self.exported = self.dropped = self.failed = 0
        self._complaints = complaints
        self._events: deque[Event] = deque()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._some = asyncio.Event()
        self._enough = asyncio.Event()
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    def put(self, event: Event) -> None:
        """Queue one event, from any thread; never blocks."""
        with self._lock:
            if len(self._events) >= QUEUE:
                self._events.popleft()
                self.dropped += 1
            self._events.append(event)
            size = len(self._events)
        if size == 1:
            self._signal(self._some)
        elif size == BATCH:
            self._signal(self._enough)

    def _signal(self, flag: asyncio.Event) -> None:
        loop = self._loop
        if loop is None:
            return
        if threading.get_ident() == self._thread:
            flag.set()
            return
        try:
            loop.call_soon_threadsafe(flag.set)
        except RuntimeError:  # stopped meanwhile: the event waits for the next start
            self._loop = None

    def start(self) -> None:
        """Begin to empty the queue on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._some, self._enough = asyncio.Event(), asyncio.Event()
        self._some.set()
        self._closing = False
        self._task = self._loop.create_task(self._run(), name=f"toolcrib exporter {self.name}")

    async def stop(self, timeout: float) -> None:
        """Deliver what waits, for at most `timeout` seconds; what is left counts as dropped."""
        task, self._task = self._task, None
        if task is not None:
            self._closing = True
            self._some.set()
            self._enough.set()
            await asyncio.wait({task}, timeout=timeout)
            task.cancel()
            # Not without end: an exporter may swallow the cancellation.
            await asyncio.wait({task}, timeout=1.0)
        self._loop = None
        with self._lock:
            self.dropped += len(self._events)
            self._events.clear()
        close = getattr(self.exporter, "close", None)
        if callable(close):
            try:
                closing = close()
                if inspect.isawaitable(closing):
                    await asyncio.wait_for(closing, max(timeout, 0.1))
            except Exception as error:
                self._complaints.about(f"closing exporter {self.name}", error, self.failed)

    async def _run(self) -> None:
        while True:
            await self._some.wait()
            if self.exporter.mode == "queued" and not self._closing:
                await self._company()
            self._some.clear()
            self._enough.clear()
            while batch := self._take():
                await self._export(batch)
            if self._closing:
                return

    async def _company(self) -> None:
        """Wait until a batch is full, but not for long."""
        if not 0 < len(self._events) < BATCH:
            return
        handle = asyncio.get_running_loop().call_later(DELAY, self._enough.set)
        await self._enough.wait()
        handle.cancel()

    def _take(self) -> list[Event]:
        with self._lock:
            return [self._events.popleft() for _ in range(min(BATCH, len(self._events)))]

    async def _export(self, batch: Sequence[Event]) -> None:
        try:
            await self.exporter.export(batch)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                self.dropped += len(batch)
                raise
            # Not ours: something inside the exporter was cancelled.
            self._fail(batch, error)
        except Exception as error:
            self._fail(batch, error)
        else:
            self.exported += len(batch)

    def _fail(self, batch: Sequence[Event], error: BaseException) -> None:
        self.failed += len(batch)
        self._complaints.about(f"exporter {self.name}", error, self.failed)
