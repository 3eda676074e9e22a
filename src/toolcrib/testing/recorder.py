"""Keeps what happened, so that a test can look at it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from toolcrib.core.events import EVENTS, Event
from toolcrib.core.units import did_you_mean

if TYPE_CHECKING:
    from toolcrib.host.host import ToolHost

_Waiter = tuple[str, asyncio.AbstractEventLoop, "asyncio.Future[Event]"]


class EventRecorder:
    """Records events: attached to a host, where it sees them at once, or given as an exporter."""

    mode: Literal["inline", "queued"] = "inline"
    name = "recorder"

    def __init__(self, host: ToolHost | None = None) -> None:
        self._events: list[Event] = []
        self._lock = threading.Lock()
        self._waiters: list[_Waiter] = []
        self._ends: list[Callable[[], None]] = []
        if host is not None:
            self.attach(host)

    def __repr__(self) -> str:
        return f"<EventRecorder of {len(self._events)} events>"

    def attach(self, host: ToolHost) -> EventRecorder:
        """Record every event of `host` from now on."""
        self._ends.append(host.on_event(self.record))
        return self

    def detach(self) -> None:
        """Record nothing more of the hosts it was attached to."""
        while self._ends:
            self._ends.pop()()

    @property
    def events(self) -> list[Event]:
        """All events so far, oldest first."""
        with self._lock:
            return list(self._events)

    @property
    def types(self) -> list[str]:
        """The types of all events so far, oldest first."""
        return [event.type for event in self.events]

    def of(self, call_id: str) -> list[Event]:
        """The events of one call."""
        return [event for event in self.events if event.call_id == call_id]

    def only(self, type: str) -> list[Event]:
        """The events of one type."""
        _check(type)
        return [event for event in self.events if event.type == type]

    def clear(self) -> None:
        """Forget what was recorded."""
        with self._lock:
            self._events.clear()

    def record(self, event: Event) -> None:
        """Take down one event; works from any thread."""
        with self._lock:
            self._events.append(event)
            woken = [waiter for waiter in self._waiters if waiter[0] == event.type]
            self._waiters = [waiter for waiter in self._waiters if waiter[0] != event.type]
        for _, loop, future in woken:
            try:
                loop.call_soon_threadsafe(_settle, future, event)
            except RuntimeError:  # the loop of whoever waited is closed
                continue

    async def export(self, batch: Sequence[Event]) -> None:
        """Take down a batch, as an exporter."""
        for event in batch:
            self.record(event)

    async def wait_for(self, type: str, timeout: float = 5.0) -> Event:
        """The first event of a type, recorded already or yet to come within `timeout` seconds."""
        _check(type)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Event] = loop.create_future()
        waiter: _Waiter = (type, loop, future)
        with self._lock:
            for event in self._events:
                if event.type == type:
                    return event
            self._waiters.append(waiter)
        try:
            return await asyncio.wait_for(future, timeout)
        except TimeoutError:
            seen = ", ".join(self.types) or "nothing"
            raise AssertionError(
                f"no {type} happened within {timeout:g} seconds; there was: {seen}"
            ) from None
        finally:
            with self._lock:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)


def _check(type: str) -> None:
    # A misspelled type would match nothing, and a test for "it did not happen" would pass.
    if type not in EVENTS:
        near = did_you_mean(type, EVENTS)
        raise ValueError(
            f"there is no event {type!r}" + (f"; did you mean {near}?" if near else "")
        )


def _settle(future: asyncio.Future[Event], event: Event) -> None:
    if not future.done():
        future.set_result(event)
