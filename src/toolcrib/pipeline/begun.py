"""What a writer's run has begun and not ended, as its trail tells."""

from __future__ import annotations

from typing import Protocol

import msgspec

from toolcrib.core.chain import Block
from toolcrib.core.events import OpenRecord, decode_record

_HALVES = (b'["begin",', b'["open",', b'["start",', b'["done",', b'["close",')
"""How the records of calls begin that are written in two; the others are whole."""
_AT_ONCE = 20
"""Blocks read in one go: reading lets others have their turn in between."""


class Blocks(Protocol):
    """Where the blocks of a trail are read."""

    async def blocks(
        self, *, after: int = 0, limit: int = 100, run: str | None = None
    ) -> list[tuple[int, Block]]: ...


class _Half(msgspec.Struct, array_like=True, gc=False):
    """The beginning of such a record; the rest is not looked at."""

    tag: str
    time: float
    call_id: str


class Begun:
    """Reads one run's trail, and on from there when asked again."""

    def __init__(self, store: Blocks, run: str) -> None:
        self._store = store
        self._run = run
        self._position = 0
        self._openings: dict[str, bytes] = {}
        self._started: set[str] = set()

    async def read(self) -> None:
        """Read what has come since the last time."""
        while found := await self._store.blocks(
            after=self._position, limit=_AT_ONCE, run=self._run
        ):
            self._position = found[-1][0]
            for _, block in found:
                for line in block.lines.split(b"\n"):
                    if line.startswith(_HALVES):
                        self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            half = msgspec.json.decode(line, type=_Half)
        except msgspec.DecodeError:
            return  # somebody edited the trail: verifying it says more
        if half.tag in ("begin", "open"):
            self._openings[half.call_id] = line
        elif half.tag == "start":
            self._started.add(half.call_id)
        else:
            self._openings.pop(half.call_id, None)

    def running(self) -> list[OpenRecord]:
        """The calls that began to run and have no ending; those that wait for a person do not
        run."""
        found: list[OpenRecord] = []
        for call_id, line in self._openings.items():
            try:
                record = decode_record(line)
            except msgspec.DecodeError:
                continue
            started = call_id in self._started
            if isinstance(record, OpenRecord) and (started or record.verdict == "allow"):
                found.append(record)
        return found
