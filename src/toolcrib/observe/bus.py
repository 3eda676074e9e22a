"""Carries every event to whoever listens; listeners can neither delay nor change a call."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from toolcrib.core.events import Event
from toolcrib.observe.lane import Complaints, ExporterCounts, Lane
from toolcrib.observe.redact import Redactor

if TYPE_CHECKING:
    from toolcrib.core.protocols import Exporter


class Subscription:
    """An async iterator over events from now on. A slow reader loses the oldest."""

    def __init__(self, maxsize: int) -> None:
        self.dropped = 0
        """Events this reader was too slow for."""
        self._events: deque[Event] = deque()
        self._maxsize = maxsize
        self._lock = threading.Lock()
        self._waiter: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None
        self.closed = False

    def put(self, event: Event) -> None:
        """Hand over one event; never blocks."""
        with self._lock:
            if self.closed:
                return
            if len(self._events) >= self._maxsize:
                self._events.popleft()
                self.dropped += 1
            self._events.append(event)
        self._wake()

    def close(self) -> None:
        """End the iteration; events that wait already are still given."""
        with self._lock:
            self.closed = True
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            waiter, self._waiter = self._waiter, None
        if waiter is not None:
            loop, future = waiter
            try:
                loop.call_soon_threadsafe(_finish, future)
            except RuntimeError:  # the reader's loop is gone, and the reader with it
                self.closed = True

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Event:
        while True:
            with self._lock:
                if self._events:
                    return self._events.popleft()
                if self.closed:
                    raise StopAsyncIteration
                loop = asyncio.get_running_loop()
                future = loop.create_future()
                self._waiter = loop, future
            await future

    async def __aenter__(self) -> Subscription:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Bus:
    """Publishes events to callbacks, subscriptions and exporters, from any thread.

    Callbacks run in the publishing thread. An `inline` exporter gets events with the next turn of
    the loop that `start` ran on, a `queued` one in batches; both in order.
    """

    def __init__(
        self, *, redactor: Redactor | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.active = False
        """Whether somebody listens; without listeners no event has to be made."""
        self.failed = 0
        """Events at which a callback raised."""
        self._complaints = Complaints(redactor or Redactor(), clock)
        self._lock = threading.Lock()
        self._callbacks: tuple[tuple[Callable[[Event], object]], ...] = ()
        self._facts: tuple[tuple[Callable[[Event], object]], ...] = ()
        self._subscriptions: tuple[weakref.ref[Subscription], ...] = ()
        self._lanes: tuple[Lane, ...] = ()
        self._loop: asyncio.AbstractEventLoop | None = None

    def publish(self, event: Event) -> None:
        """Hand `event` to everybody; never raises and never waits."""
        for (callback,) in self._callbacks:
            try:
                callback(event)
            except Exception as error:
                self.failed += 1
                name = getattr(callback, "__qualname__", type(callback).__name__)
                self._complaints.about(f"event callback {name}", error, self.failed)
        gone = False
        for reference in self._subscriptions:
            subscription = reference()
            if subscription is None or subscription.closed:
                gone = True
            else:
                subscription.put(event)
        if gone:
            self._prune()
        for lane in self._lanes:
            lane.put(event)

    @property
    def heard(self) -> bool:
        """Whether somebody listens to facts beside calls."""
        return self.active or bool(self._facts)

    def tell(self, event: Event) -> None:
        """Hand a fact that no record of a call makes to those who listen to such only."""
        for (callback,) in self._facts:
            try:
                callback(event)
            except Exception as error:
                self.failed += 1
                self._complaints.about("fact callback", error, self.failed)

    def on_fact(self, callback: Callable[[Event], object]) -> Callable[[], None]:
        """Call `callback` with approvals, progress, log lines and changes of the catalog, and with
        nothing else: calls stay as cheap as without listeners. Returns how to stop."""
        entry = (callback,)
        with self._lock:
            self._facts = (*self._facts, entry)

        def unsubscribe() -> None:
            with self._lock:
                self._facts = tuple(c for c in self._facts if c is not entry)

        return unsubscribe

    def on_event(self, callback: Callable[[Event], object]) -> Callable[[], None]:
        """Call `callback` with every event, in the thread that publishes; returns how to stop."""
        entry = (callback,)
        with self._lock:
            self._callbacks = (*self._callbacks, entry)
            self._count()

        def unsubscribe() -> None:
            with self._lock:
                self._callbacks = tuple(c for c in self._callbacks if c is not entry)
                self._count()

        return unsubscribe

    def subscribe(self, maxsize: int = 1000) -> Subscription:
        """Events from now on, for `async for` in any loop. Ends with `close`, or when let go of."""
        if maxsize < 1:
            raise ValueError(f"maxsize is {maxsize}; a subscription must hold at least one event")
        subscription = Subscription(maxsize)
        with self._lock:
            self._subscriptions = (*self._subscriptions, weakref.ref(subscription))
            self._count()
        return subscription

    def _prune(self) -> None:
        """Forget subscriptions that were closed, or that nobody holds any more."""
        with self._lock:
            live = ((reference, reference()) for reference in self._subscriptions)
            self._subscriptions = tuple(r for r, s in live if s is not None and not s.closed)
            self._count()

    def _count(self) -> None:
        self.active = bool(self._callbacks or self._subscriptions or self._lanes)

    def add_exporter(self, exporter: Exporter, name: str | None = None) -> str:
        """Send events to `exporter` from now on; returns the name it is counted under."""
        mode = getattr(exporter, "mode", None)
        if mode not in ("inline", "queued"):
            raise ValueError(
                f"the exporter {type(exporter).__name__} has mode {mode!r}. "
                "Set `mode` to 'inline' or 'queued'"
            )
        wanted = name or getattr(exporter, "name", None) or type(exporter).__name__
        with self._lock:
            taken = {lane.name for lane in self._lanes}
            unique, number = wanted, 2
            while unique in taken:
                unique, number = f"{wanted}-{number}", number + 1
            lane = Lane(unique, exporter, self._complaints)
            self._lanes = (*self._lanes, lane)
            self._count()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(lane.start)
        return unique

    def remove_exporter(self, name: str) -> bool:
        """Send no more events to an exporter; what waits for it is still delivered."""
        with self._lock:
            gone = next((lane for lane in self._lanes if lane.name == name), None)
            self._lanes = tuple(lane for lane in self._lanes if lane is not gone)
            self._count()
        if gone is None:
            return False
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(gone.stop(5.0), self._loop)
        return True

    def counts(self) -> dict[str, ExporterCounts]:
        """What each exporter has exported, dropped and failed at."""
        return {
            lane.name: ExporterCounts(lane.exported, lane.dropped, lane.failed)
            for lane in self._lanes
        }

    async def start(self) -> None:
        """Begin to feed exporters, on the running loop. Events published before are not lost."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            for lane in self._lanes:
                lane.start()

    async def stop(self, timeout: float = 5.0) -> None:
        """Deliver what waits, close the exporters and end the subscriptions."""
        self._loop = None
        # Lanes that were added just now start first, so that they are stopped too.
        await asyncio.sleep(0)
        if self._lanes:
            await asyncio.gather(*(lane.stop(timeout) for lane in self._lanes))
        for reference in self._subscriptions:
            subscription = reference()
            if subscription is not None:
                subscription.close()
        self._prune()
