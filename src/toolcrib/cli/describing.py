"""Effects and trails as people read them."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from toolcrib.cli.output import clock, put, took
from toolcrib.core.events import Event


def effects(known: Collection[str] | None) -> str:
    """`read, write`; what is not known is treated as the worst."""
    return "unknown" if known is None else ", ".join(sorted(known)) or "none"


def show_trail(id: str, events: Sequence[Event]) -> None:
    """What happened to one call, event by event."""
    start = events[0].time
    put(f"{id}   {clock(start)}")
    put("")
    for event in events:
        put(f"  {took(event.time - start):>10}   {event.type}")
        for key, value in event.data.items():
            if value is None or value == [] or value == {}:
                continue
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            put(f"  {'':>10}     {key:<14} {text}")
