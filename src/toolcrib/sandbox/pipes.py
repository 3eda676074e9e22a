"""Pipes between the host and a process that it starts."""

from __future__ import annotations

import os
from types import TracebackType


class Pipes:
    """Makes pipes for one start; on leaving closes every end that was not kept."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        self.given: list[int] = []
        """The ends that the started process gets."""

    def __enter__(self) -> Pipes:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for descriptor in self._open:
            os.close(descriptor)

    def to_process(self) -> tuple[int, int]:
        """A pipe that it reads: its end and ours."""
        reading, writing = self._pipe()
        self.given.append(reading)
        return reading, writing

    def from_process(self) -> tuple[int, int]:
        """A pipe that it writes: its end and ours."""
        reading, writing = self._pipe()
        self.given.append(writing)
        return writing, reading

    def keep(self, descriptor: int) -> int:
        """Leave an end of ours open; whoever keeps it closes it."""
        self._open.discard(descriptor)
        return descriptor

    def send(self, descriptor: int, data: bytes) -> None:
        """Write all of it and close the pipe."""
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        self._open.discard(descriptor)
        os.close(descriptor)

    def _pipe(self) -> tuple[int, int]:
        reading, writing = os.pipe()
        self._open |= {reading, writing}
        return reading, writing
