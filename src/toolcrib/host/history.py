"""Reading the trail: recent calls, searches, and whether it is what was written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import msgspec

from toolcrib.core.chain import Anchor, Block, RunReport, verify_run
from toolcrib.core.events import (
    CallRecord,
    CloseRecord,
    Event,
    FactRecord,
    LongRecord,
    OpenRecord,
    StartRecord,
    decode_record,
    events_of,
)
from toolcrib.core.protocols import Store
from toolcrib.errors import NotFound

_BLOCKS = 100
_RECENT = 64
"""Blocks that are read first for the newest calls; most lists need no more."""
_LOOKED_BACK = 20_000
"""Blocks in which a call is looked for, from the newest back."""


class CallSummary(msgspec.Struct, kw_only=True):
    """One call, as a list of calls shows it."""

    id: str
    time: float
    tool: str
    principal: str
    session: str | None
    profile: str | None = None
    door: str | None = None
    parent: str | None = None
    status: str | None = None
    """None while no ending is on the trail: the call waits, runs, or its host was killed."""
    reason: str | None = None
    message: str | None = None
    seconds: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return msgspec.to_builtins(self)


Shown = Callable[[CallSummary], CallSummary]
"""Gives the form of a call that somebody may see."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls or events are looked for; what is not given does not matter."""

    tool: str | None = None
    principal: str | None = None
    status: str | None = None
    reason: str | None = None
    since: float | None = None
    """Seconds since 1970."""
    text: str | None = None
    """Stands somewhere in the event, large and small letters alike."""
    call_id: str | None = None
    type: str | None = None
    prefix: str | None = None
    """How the call's id begins."""

    def call(self, found: CallSummary) -> bool:
        """Whether this is one of the calls looked for."""
        return (
            self.tool in (None, found.tool)
            and self.principal in (None, found.principal)
            and self.status in (None, found.status)
            and self.reason in (None, found.reason)
            and self.call_id in (None, found.id)
            and (self.prefix is None or found.id.startswith(self.prefix))
            and (self.since is None or found.time >= self.since)
        )

    def event(self, found: Event) -> bool:
        """Whether this is one of the events looked for."""
        said = found.data
        return (
            self.call_id in (None, found.call_id)
            and self.type in (None, found.type)
            and (self.since is None or found.time >= self.since)
            and self.tool in (None, said.get("tool"))
            and self.principal in (None, said.get("principal"))
            and self.status in (None, said.get("status"))
            and self.reason in (None, said.get("reason"))
            and (self.text is None or self.text.casefold() in _words(found))
        )


class Place(msgspec.Struct, frozen=True):
    """Where an event stands."""

    position: int
    """Of its block in the store."""
    run: str
    seq: int
    index: int


class CallPlace(msgspec.Struct, frozen=True):
    """Where a call stands."""

    position: int
    """Of the block with its first record."""
    principal: str | None
    """Who called; None when its beginning was not found."""
    ended: Place | None


def _words(event: Event) -> str:
    return f"{event.type} {event.call_id} {msgspec.json.encode(event.data).decode()}".casefold()


class History:
    """Reads one store's trail from its beginning."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.unreadable: list[tuple[str, int]] = []
        """Run and number of the records that are no records: verify says more."""

    async def records(
        self, *, after: int = 0, holding: bytes = b""
    ) -> AsyncIterator[tuple[str, int, LongRecord]]:
        """Every record with its run and number, in writing order, beginning behind a position;
        only those whose line holds some bytes."""
        position = after
        while blocks := await self.store.blocks(after=position, limit=_BLOCKS):
            position = blocks[-1][0]
            for _, block in blocks:
                if holding not in block.lines:
                    continue
                for index, line in enumerate(block.lines.split(b"\n")):
                    if holding not in line:
                        continue
                    number = block.first + index
                    try:
                        yield block.run, number, decode_record(line)
                    except msgspec.DecodeError:
                        self.unreadable.append((block.run, number))

    async def events(self, wanted: Wanted | None = None) -> AsyncIterator[Event]:
        """The events looked for, oldest first."""
        async for run, seq, record in self.records(holding=_name(wanted)):
            for event in events_of(record, run, seq):
                if wanted is None or wanted.event(event):
                    yield event

    async def behind(self, place: Place) -> AsyncIterator[Event]:
        """The events behind a place, in writing order."""
        async for run, seq, record in self.records(after=place.position - 1):
            if run == place.run and seq < place.seq:
                continue
            for index, event in enumerate(events_of(record, run, seq)):
                if run != place.run or (seq, index) > (place.seq, place.index):
                    yield event

    async def search(self, wanted: Wanted, *, limit: int = 1000) -> list[Event]:
        """The newest of the events looked for, oldest first."""
        found: list[Event] = []
        async for event in self.events(wanted):
            found.append(event)
            if len(found) > 2 * limit:
                del found[:-limit]
        return found[-limit:]

    async def recent_calls(
        self, *, limit: int = 20, wanted: Wanted | None = None, shown: Shown | None = None
    ) -> list[CallSummary]:
        """The newest of the calls looked for, oldest first. Reads as far back as it has to. With
        `shown`, calls are looked for, and given, in the form in which a reader may know them."""
        looked_for = wanted or Wanted()
        end, width = await self.end(), _RECENT
        while True:
            start = max(0, end - width)
            found = await self._calls_behind(start, limit, looked_for, shown)
            # Of a call that began before, only the ending was seen; farther back is the rest.
            whole = len(found) >= limit and all(call.door is not None for call in found)
            if whole or not start:
                return found
            width *= 8

    async def _calls_behind(
        self, start: int, limit: int, wanted: Wanted, shown: Shown | None
    ) -> list[CallSummary]:
        waiting: dict[str, CallSummary] = {}
        ended: list[CallSummary] = []
        async for _, _, record in self.records(after=start, holding=_name(wanted)):
            if isinstance(record, FactRecord | StartRecord):
                continue
            if isinstance(record, OpenRecord):
                waiting[record.call_id] = _opened(record)
                continue
            done = waiting.pop(record.call_id, None) or _opened(record)
            done.status, done.reason, done.message = record.status, record.reason, record.message
            done.seconds = record.total_s
            if shown is not None:
                done = shown(done)
            if wanted.call(done):
                ended.append(done)
                if len(ended) > 2 * limit:
                    del ended[:-limit]
        found = [*ended[-limit:], *filter(wanted.call, waiting.values())]
        return sorted(found, key=lambda call: call.time)[-limit:]

    # Places. A store gives blocks forward only; what is far in is found in steps that double.

    async def end(self) -> int:
        """The position of the newest block; 0 when there is none."""
        reached, _ = await self._farthest(None, None)
        return reached

    async def find(self, event_id: str) -> Place:
        """Where an event stands. Raises `NotFound`."""
        run, number, index = _parts(event_id)
        position, block = await self._farthest(run, number)
        if block is not None and block.first <= number <= block.last:
            line = block.lines.split(b"\n")[number - block.first]
            try:
                count = sum(1 for _ in events_of(decode_record(line), run, number))
            except msgspec.DecodeError:
                count = 0
            if index < count:
                return Place(position, run, number, index)
        raise _unknown(event_id)

    async def _farthest(self, run: str | None, number: int | None) -> tuple[int, Block | None]:
        """The last block, of a run and up to a record's number where they are given."""
        reached, block, stride, growing = 0, None, 1, True
        while stride:
            found = await self.store.blocks(after=reached + stride - 1, limit=1, run=run)
            if found and (number is None or found[0][1].first <= number):
                reached, block = found[0]
                stride = stride * 2 if growing else stride
            else:
                growing, stride = False, stride // 2
        return reached, block

    async def find_call(self, call_id: str) -> CallPlace | None:
        """Where a call stands, among the newest blocks."""
        holding = msgspec.json.encode(call_id)
        end = high = await self.end()
        width, found = 8, None
        while high > max(0, end - _LOOKED_BACK):
            low = max(0, high - width)
            for position, block in reversed(await self.store.blocks(after=low, limit=width)):
                if position <= high and holding in block.lines:
                    found = _call_in(block, position, call_id, holding, found)
                    if found is not None and found.principal is not None:
                        return found
            high, width = low, min(64, width * 2)
        return found


def _call_in(
    block: Block, position: int, call_id: str, holding: bytes, known: CallPlace | None
) -> CallPlace | None:
    """What is known of a call from the blocks behind this one, and from this one."""
    for number, line in enumerate(block.lines.split(b"\n"), block.first):
        if holding not in line:
            continue
        try:
            record = decode_record(line)
        except msgspec.DecodeError:
            continue
        if record.call_id != call_id:
            continue
        principal = record.principal if isinstance(record, CallRecord | OpenRecord) else None
        ended = None if known is None else known.ended
        if isinstance(record, CallRecord | CloseRecord):
            last = sum(1 for _ in events_of(record, block.run, number)) - 1
            ended = Place(position, block.run, number, last)
        before = None if known is None else known.principal
        known = CallPlace(position, principal or before, ended)
    return known


def _name(wanted: Wanted | None) -> bytes:
    """What stands in every line of the call that is looked for."""
    if wanted is None or wanted.call_id is None:
        return b""
    return msgspec.json.encode(wanted.call_id)


def _parts(event_id: str) -> tuple[str, int, int]:
    run, _, rest = event_id.partition(".")
    number, _, index = rest.partition(".")
    if not (run and number.isdecimal() and index.isdecimal() and len(event_id) <= 100):
        raise _unknown(event_id)
    return run, int(number), int(index)


def _unknown(event_id: str) -> NotFound:
    return NotFound(f"no event {event_id[:100]!r} is on the trail")


def _opened(record: CallRecord | OpenRecord | CloseRecord) -> CallSummary:
    summary = CallSummary(
        id=record.call_id,
        time=record.time,
        tool=record.tool,
        principal=record.principal,
        session=record.session,
    )
    if not isinstance(record, CloseRecord):
        summary.profile, summary.door, summary.parent = record.profile, record.door, record.parent
    return summary


async def verify_store(store: Store, key: bytes, anchors: Iterable[Anchor] = ()) -> list[RunReport]:
    """Check every run in the store, and those that only an anchor knows of."""
    known = list(anchors)
    runs = await store.runs()
    gone = dict.fromkeys(anchor.run for anchor in known if anchor.run not in runs)
    reports: list[RunReport] = []
    for run in (*runs, *gone):
        blocks: list[Block] = []
        position = 0
        while found := await store.blocks(after=position, limit=_BLOCKS, run=run):
            position = found[-1][0]
            blocks += [block for _, block in found]
        reports.append(verify_run(run, blocks, key, known))
    return reports
