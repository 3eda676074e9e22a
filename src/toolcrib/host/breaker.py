"""The circuit breaker of a provider: after failures in a row it is left alone for a while."""

from __future__ import annotations

from toolcrib.core.clock import SYSTEM, Clock


class Breaker:
    """Closed, calls go through. Open, they do not; when its time is over one call is the trial.

    A call takes a ticket when it begins and hands it in when it ends. A ticket from before the
    breaker opened says nothing about how the provider is now, and is not counted.
    """

    def __init__(self, *, failures: int = 5, open_for: float = 15.0, clock: Clock = SYSTEM) -> None:
        self._most = failures
        self._open_for = open_for
        self._clock = clock
        self._in_a_row = 0
        self._until: float | None = None
        """When the next trial may begin; None while closed."""
        self._era = 0

    @property
    def open(self) -> bool:
        """Whether calls are kept away, but for a trial."""
        return self._until is not None

    def wait(self) -> float:
        """Seconds until a call may go through; 0 when it may now."""
        return 0.0 if self._until is None else max(0.0, self._until - self._clock.monotonic())

    def begin(self) -> int:
        """The ticket of a call that goes through."""
        if self._until is not None:
            # A trial that never ends must not keep everybody out: another one follows.
            self._era += 1
            self._until = self._clock.monotonic() + self._open_for
        return self._era

    def end(self, ticket: int, *, failed: bool | None) -> bool:
        """How a call ended; None when nothing can be told from it. True when it opened."""
        if ticket != self._era:
            return False
        if failed is None:
            if self._until is not None:
                self._until = self._clock.monotonic()
            return False
        if not failed:
            self._in_a_row, self._until = 0, None
            return False
        self._in_a_row += 1
        if self._until is None and self._in_a_row < self._most:
            return False
        opened = self._until is None
        self._era += 1
        self._until = self._clock.monotonic() + self._open_for
        return opened

    def reset(self) -> None:
        """Close it: the provider was started anew."""
        self._era += 1
        self._in_a_row, self._until = 0, None
