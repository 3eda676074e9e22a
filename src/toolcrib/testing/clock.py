"""A clock that stands still until a test moves it."""

from __future__ import annotations

import threading
import time


class FakeClock:
    """Shows the same time until `advance` is called.

    It begins at the present unless told otherwise, because some times in a host (when a request
    was made, say) are read from the machine. Called like a function it gives `time()`.
    """

    def __init__(self, start: float | None = None) -> None:
        self._now = time.time() if start is None else start
        self._lock = threading.Lock()

    def __call__(self) -> float:
        return self._now

    def __repr__(self) -> str:
        return f"FakeClock({self._now!r})"

    def time(self) -> float:
        """Seconds since 1970, in place of `time.time`."""
        return self._now

    def monotonic(self) -> float:
        """Seconds that never go back, in place of `time.monotonic`."""
        return self._now

    def advance(self, seconds: float) -> float:
        """Let so many seconds pass; gives the new time."""
        if not seconds >= 0:
            raise ValueError(f"time does not go back: cannot advance by {seconds!r} seconds")
        with self._lock:
            self._now += seconds
            return self._now
