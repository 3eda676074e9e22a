"""Events of one run in the order of their numbers, although several threads tell them."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

from toolcrib.core.events import Event

_LONGEST = 0.2
Place = tuple[int, int]
"""An event's number in the run, and in its record."""


class InOrder:
    """Holds an event back until the record before its own was told.

    A thread takes a record's number before it tells of it, so another one can be faster. What is
    missing for too long was told before anybody listened, and is waited for no more.
    """

    pause = 0.02
    """Seconds after which to look again while something is held back."""

    def __init__(self) -> None:
        self.held: list[tuple[Place, Event]] = []
        self._reached = 0
        self._since = 0.0

    def sorted(self, fresh: list[Event]) -> Iterator[tuple[Place, Event]]:
        """What can be told now; what is not stored has no number and is not held back."""
        for event in fresh:
            if not event.id:
                yield (0, 0), event
                continue
            _, seq, index = event.id.rsplit(".", 2)
            place = int(seq), int(index)
            if self._reached == 0 or place[0] <= self._reached + 1:
                self._reached = max(self._reached, place[0])
                yield place, event
            else:
                if not self.held:
                    self._since = monotonic()
                self.held.append((place, event))
        if self.held:
            yield from self.released(monotonic() - self._since > _LONGEST)

    def released(self, given_up: bool) -> Iterator[tuple[Place, Event]]:
        """What was held back and can be told now; all of it when what is missing is given up."""
        self.held.sort(key=_place)
        count = 0
        for place, _ in self.held:
            if not given_up and place[0] > self._reached + 1:
                break
            self._reached = max(self._reached, place[0])
            count += 1
        free, self.held = self.held[:count], self.held[count:]
        self._since = monotonic() if count else self._since
        yield from free


def _place(held: tuple[Place, Event]) -> Place:
    return held[0]
