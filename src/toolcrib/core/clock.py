"""What time it is; a test brings its own."""

from __future__ import annotations

from time import monotonic as _monotonic
from time import time as _time
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
    """The machine's clock. Its functions themselves: they are asked at every call."""

    time = staticmethod(_time)
    monotonic = staticmethod(_monotonic)


SYSTEM = SystemClock()
