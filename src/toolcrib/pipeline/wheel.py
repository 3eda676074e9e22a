"""Calls that run, and the clock that stops those past their deadline.

One timer sweeps all running calls of a loop every 50 ms. A timer per call would cost more than
the rest of the pipeline together.
"""

from __future__ import annotations

import asyncio
from time import monotonic

from toolcrib.pipeline.flight import NEVER, Flight
from toolcrib.pipeline.plan import SHORT

TICK = 0.05


class Wheel:
    """The running calls of one event loop."""

    __slots__ = ("loop", "running", "ticking")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.running: dict[Flight, None] = {}
        """By themselves: two calls may have been given the same id."""
        self.ticking = False

    def watch(self, flight: Flight, seconds: float | None) -> None:
        """Stop the call's task when `seconds` are over; None means never."""
        self.running[flight] = None
        if seconds is None:
            flight.expires = NEVER
            return
        flight.deadline = flight.expires = monotonic() + seconds
        if seconds < SHORT:
            self.loop.call_later(seconds, self._sweep)
        if not self.ticking:
            self.ticking = True
            self.loop.call_later(TICK, self._tick)

    def _tick(self) -> None:
        self._sweep()
        if self.running:
            self.loop.call_later(TICK, self._tick)
        else:
            self.ticking = False

    def _sweep(self) -> None:
        now = monotonic()
        for flight in list(self.running):
            if flight.expires <= now:
                stop(flight, "timeout")

    def cancel(self, call_id: str, why: str = "cancelled") -> bool:
        """Stop the calls of that id, from any thread."""
        found = [flight for flight in list(self.running) if flight.call_id == call_id]
        for flight in found:
            self.stop(flight, why)
        return bool(found)

    def stop(self, flight: Flight, why: str) -> None:
        """Stop one call, from any thread."""
        self.loop.call_soon_threadsafe(self._stop_if_running, flight, why)

    def _stop_if_running(self, flight: Flight, why: str) -> None:
        # It may have ended meanwhile, and its task may be about something else by now.
        if flight in self.running:
            stop(flight, why)


def stop(flight: Flight, why: str) -> None:
    """Cancel the call's task once; the pipeline turns the cancellation into an ending."""
    if flight.stop is None and flight.task is not None:
        flight.stop = why
        flight.odd = True
        flight.expires = NEVER
        flight.cancelled = True
        flight.task.cancel()
