"""Reading the trail: recent calls, searches, and whether it is what was written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
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

_BLOCKS = 100


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
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

    def call(self, found: CallSummary) -> bool:
        """Whether this is one of the calls looked for."""
        return (
            self.tool in (None, found.tool)
            and self.principal in (None, found.principal)
            and self.status in (None, found.status)
            and self.reason in (None, found.reason)
            and self.call_id in (None, found.id)
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


def _words(event: Event) -> str:
    return f"{event.type} {event.call_id} {msgspec.json.encode(event.data).decode()}".casefold()


@dataclass(slots=True)
class History:
    """Reads one store's trail from its beginning."""

    store: Store
    unreadable: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """Run and number of the records that are no records: verify says more."""

    async def records(self) -> AsyncIterator[tuple[str, int, LongRecord]]:
        """Every record with its run and number, in writing order."""
        position = 0
        while blocks := await self.store.blocks(after=position, limit=_BLOCKS):
            position = blocks[-1][0]
            for _, block in blocks:
                for index, line in enumerate(block.lines.split(b"\n")):
                    number = block.first + index
                    try:
                        yield block.run, number, decode_record(line)
                    except msgspec.DecodeError:
                        self.unreadable.append((block.run, number))

    async def events(self, wanted: Wanted | None = None) -> AsyncIterator[Event]:
        """The events looked for, oldest first."""
        async for run, seq, record in self.records():
            for event in events_of(record, run, seq):
                if wanted is None or wanted.event(event):
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
        self, *, limit: int = 20, wanted: Wanted | None = None
    ) -> list[CallSummary]:
        """The newest of the calls looked for, oldest first."""
        looked_for = wanted or Wanted()
        waiting: dict[str, CallSummary] = {}
        ended: list[CallSummary] = []
        async for _, _, record in self.records():
            if isinstance(record, FactRecord | StartRecord):
                continue
            if isinstance(record, OpenRecord):
                waiting[record.call_id] = _opened(record)
                continue
            done = waiting.pop(record.call_id, None) or _opened(record)
            done.status, done.reason, done.message = record.status, record.reason, record.message
            done.seconds = record.total_s
            if looked_for.call(done):
                ended.append(done)
                if len(ended) > 2 * limit:
                    del ended[:-limit]
        found = [*ended, *filter(looked_for.call, waiting.values())]
        return sorted(found, key=lambda call: call.time)[-limit:]


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
