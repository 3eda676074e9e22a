"""Reading the trail of a store, and saying what of it cannot be read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TextIO

from toolcrib.cli.output import many, reader_may_leave, say
from toolcrib.host.history import CallSummary, History, Wanted

if TYPE_CHECKING:
    from toolcrib.core.events import Event
    from toolcrib.core.protocols import Store

NO_CALL = " on the trail. `toolcrib calls` lists them"


async def read_calls(store: Store, wanted: Wanted, limit: int) -> list[CallSummary]:
    """The newest calls that fit, oldest first."""
    history = History(store)
    found = await history.recent_calls(limit=limit, wanted=wanted)
    _warn_unreadable(history)
    return found


async def read_events(store: Store, wanted: Wanted, limit: int) -> list[Event]:
    """The newest events that fit, oldest first."""
    history = History(store)
    found = await history.search(wanted, limit=limit)
    _warn_unreadable(history)
    return found


async def write_events(store: Store, wanted: Wanted, stream: TextIO) -> int:
    """All events that fit, one a line; how many there were."""
    history, count = History(store), 0
    with reader_may_leave():
        async for event in history.events(wanted):
            write_event(event, stream)
            count += 1
        stream.flush()
    _warn_unreadable(history)
    return count


def write_event(event: Event, stream: TextIO) -> None:
    """One event as one line of JSON."""
    stream.write(json.dumps(event.to_dict(), ensure_ascii=False) + "\n")


def _warn_unreadable(history: History) -> None:
    """Say that records were passed over."""
    if history.unreadable:
        run, seq = history.unreadable[0]
        say(
            f"{many(len(history.unreadable), 'record')} cannot be read, the first is record {seq} "
            f"of run {run}. `toolcrib audit verify` says more."
        )
