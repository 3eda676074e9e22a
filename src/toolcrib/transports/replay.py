"""What happened before: the trail from some place on, as one viewer may see it.

Events of this host's own run are told before they are stored, those of other writers when they
are. So a viewer's place has two parts, `OWN@OTHERS`: the last event of one run, and how far the
other runs were told, by an event's id or a block's position. A plain event id means both. Without
its last number, an event's id means all events of its record.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from toolcrib.core.events import Event, decode_record, events_of
from toolcrib.core.protocols import Store
from toolcrib.errors import NotFound
from toolcrib.host.history import CallPlace, History, Place
from toolcrib.transports.viewing import ENDINGS, Sight

_AT_ONCE = 32
"""Records that are read without letting others have their turn."""
_BLOCKS = 2
LOOK_BACK = 64
"""Blocks before the place in which the callers of calls are looked for that had begun there."""
_OPENINGS = (b'["open",', b'["begin",')
_NAMING = (*_OPENINGS, b'["call",', b'["ok",', b'["close",', b'["done",')
"""How records begin that name the principal of their call."""

_LAST = 1 << 30
"""Stands for the last event of a record, whatever its number is."""

encode = msgspec.json.Encoder().encode


class Seen(msgspec.Struct, frozen=True):
    """One event as it goes to a viewer."""

    id: str
    """Where to resume behind it; empty for what is not stored."""
    type: str
    data: bytes
    """The event as JSON."""


def encoded(event: Event) -> bytes:
    """An event as JSON, whatever a tool has put into it."""
    try:
        return encode(event)
    except (TypeError, ValueError, OverflowError, RecursionError):
        fields = {name: getattr(event, name) for name in event.__struct_fields__}
        text = json.dumps(fields, default=str, ensure_ascii=False)
        return text.encode("utf-8", "replace")


class Replay:
    """Reads the trail for one viewer; `more` gives what comes next."""

    def __init__(
        self,
        store: Store,
        run: str,
        sight: Sight,
        form_of: Callable[[Event, Sight], Event | None],
        *,
        principal: str | None,
    ) -> None:
        """`principal` is the only one whose calls the viewer may see; None: it sees all."""
        self.position = 0
        """Everything up to this block has been read."""
        self.own: str = ""
        """The last event of this host's run among it."""
        self.own_place = (0, 0)
        """Its number in the run and in its record."""
        self.ended = False
        """Whether the last event of the one call was read that is looked at."""
        self._store = store
        self._history = History(store)
        self._run = run
        self._sight = sight
        self._form_of = form_of
        self._principal = None if principal is None else encode(principal)
        self._call: tuple[str, bytes] | None = None
        self._mine: Place | None = None
        """The last event of its run that was seen."""
        self._others = Place(0, "", 0, 0)
        """How far the other runs were seen; without a run, up to the end of that block."""
        self._start = 0
        self._lines: deque[tuple[int, str, int, bytes]] = deque()

    async def begin(self, after: str) -> None:
        """Start behind a place; the beginning, for an empty one. Raises `NotFound`."""
        own, at, others = after.partition("@")
        if own:
            self._mine = await self._find(own)
            self._others = Place(self._mine.position, "", 0, 0)
        if at:
            self._others = await self._find_others(others)
        positions = [self._others.position]
        if self._mine is not None:
            positions.append(self._mine.position)
        # The block itself is read again: the place may be in the middle of it.
        self._start = self.position = max(0, min(positions) - 1)
        if self._principal is not None:
            self.position = max(0, self._start - LOOK_BACK)

    async def _find(self, text: str) -> Place:
        if text.count(".") == 1:
            return replace(await self._history.find(f"{text}.0"), index=_LAST)
        return await self._history.find(text)

    async def _find_others(self, text: str) -> Place:
        if not text.isdecimal():
            return await self._history.find(text)
        position = int(text) if len(text) < 18 else -1  # more than a store can count to
        if position < 0 or (position and not await self._store.blocks(after=position - 1, limit=1)):
            raise NotFound(f"the trail has no place {text[:100]!r}")
        return Place(position, "", 0, 0)

    def only(self, call_id: str, place: CallPlace | None) -> bool:
        """Read one call only. False when nothing of it is left behind the start."""
        self._call = (call_id, encode(call_id))
        if place is None:
            return True
        if place.principal is not None:
            self._sight.know(call_id, place.principal)
        self.position = max(self.position, place.position - 1)
        end = place.ended
        return end is None or self._behind(end.position, end.run, end.seq, end.index)

    async def more(self) -> list[Seen] | None:
        """The next events, perhaps none among so many records; None when all that is stored has
        been read."""
        if not self._lines:
            found = await self._store.blocks(after=self.position, limit=_BLOCKS)
            if not found:
                return None
            for position, block in found:
                lines = enumerate(block.lines.split(b"\n"), block.first)
                self._lines.extend((position, block.run, seq, line) for seq, line in lines)
        await asyncio.sleep(0)
        seen: list[Seen] = []
        for _ in range(min(_AT_ONCE, len(self._lines))):
            position, run, seq, line = self._lines.popleft()
            self._read(position, run, seq, line, seen)
            self.position = position
        return seen

    def _read(self, position: int, run: str, seq: int, line: bytes, seen: list[Seen]) -> None:
        if self._call is not None and self._call[1] not in line:
            return
        if position <= self._start and not line.startswith(_OPENINGS):
            return
        named = self._principal
        if named is not None and named not in line and line.startswith(_NAMING):
            return  # a call of somebody else
        try:
            record = decode_record(line)
        except msgspec.DecodeError:
            return  # somebody edited the trail: verifying it says more
        for index, event in enumerate(events_of(record, run, seq)):
            form = self._form_of(event, self._sight)
            if run == self._run:
                self.own, self.own_place = event.id, (seq, index)
            if position <= self._start or not self._behind(position, run, seq, index):
                continue
            if self._call is not None:
                if event.call_id != self._call[0]:
                    continue
                self.ended = self.ended or event.type in ENDINGS
            cursor = self._reached(position, run, seq, index, event.id)
            if form is not None:
                seen.append(Seen(cursor, form.type, encoded(form)))

    def _behind(self, position: int, run: str, seq: int, index: int) -> bool:
        mine, others = self._mine, self._others
        if mine is not None and run == mine.run:
            return (seq, index) > (mine.seq, mine.index)
        if position != others.position:
            return position > others.position
        return run == others.run and (seq, index) > (others.seq, others.index)

    def _reached(self, position: int, run: str, seq: int, index: int, event_id: str) -> str:
        """The place behind an event."""
        mine, others = self._mine, self._others
        if mine is None or (position > mine.position and position > others.position):
            return event_id  # all runs were read up to here
        if run == mine.run:
            text = others.position if not others.run else _id(others)
            self._mine = Place(position, run, seq, index)
            return f"{event_id}@{text}"
        self._others = Place(position, run, seq, index)
        return f"{_id(mine)}@{event_id}"


def _id(place: Place) -> str:
    record = f"{place.run}.{place.seq}"
    return record if place.index == _LAST else f"{record}.{place.index}"
