"""What time it is; a test brings its own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time, in seconds."""

    def time(self) -> float:
        """Since 1970."""
        ...

    def monotonic(self) -> float:
        """Since some moment, never running backwards."""
        ...


class SystemClock:
    """The machine's clock."""

    def time(self) -> float:
        """Since 1970."""
        return time.time()

    def monotonic(self) -> float:
        """Since some moment, never running backwards."""
        return time.monotonic()


SYSTEM = SystemClock()
