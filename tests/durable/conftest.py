"""A store's file in a folder of its own, and ways to look at it from outside."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from toolcrib.core.chain import Anchor, RunReport
from toolcrib.core.events import Event, Record, events_of
from toolcrib.host.history import History, verify_store
from toolcrib.stores.keys import load_key
from toolcrib.stores.sqlite import SqliteStore

HERE = Path(__file__).parent


@dataclass
class Look:
    """What stands in a store's file."""

    records: list[tuple[str, int, Record]]
    reports: list[RunReport]
    events: list[Event] = field(default_factory=list)

    def ids(self, *types: str) -> set[str | None]:
        """The calls that have an event of one of these types."""
        return {event.call_id for event in self.events if event.type in types}

    def of(self, call_id: str) -> list[str]:
        """The types of one call's events, in order."""
        return [event.type for event in self.events if event.call_id == call_id]

    def one(self, call_id: str, type: str) -> Event:
        """The one event of a type that a call has."""
        found = [e for e in self.events if e.call_id == call_id and e.type == type]
        assert len(found) == 1, (type, self.of(call_id))
        return found[0]

    def assert_whole(self) -> None:
        """The chains hold, and each call that was received has exactly one ending."""
        assert [r.findings for r in self.reports if not r.ok] == []
        for report in self.reports:
            numbers = [seq for run, seq, _ in self.records if run == report.run]
            assert numbers == [*range(1, len(numbers) + 1)]
        received = Counter(e.call_id for e in self.events if e.type == "call.received")
        ended = Counter(
            e.call_id for e in self.events if e.type in ("call.finished", "call.denied")
        )
        assert set(received.values()) <= {1}
        assert received == ended


@dataclass
class Place:
    """One store's file, with its key beside it."""

    folder: Path

    @property
    def db(self) -> Path:
        """The file."""
        return self.folder / "crib.db"

    @property
    def key(self) -> Path:
        """The file of the key."""
        return self.folder / "crib.db.key"

    def config(self, **parts: Any) -> dict[str, Any]:
        """A configuration that keeps everything here."""
        host = dict(parts.pop("host", {}))
        audit = {"key": str(self.key), **host.pop("audit", {})}
        host = {"store": f"sqlite:{self.db}", "audit": audit, **host}
        return {"version": 1, "host": host, **parts}

    async def look(self, anchors: list[Anchor] | None = None, key: bytes | None = None) -> Look:
        """Read and verify the file, through a store of its own."""
        store = SqliteStore(self.db)
        await store.open()
        try:
            history = History(store)
            records = [found async for found in history.records()]
            assert history.unreadable == []
            reports = await verify_store(store, key or load_key(self.key), anchors or ())
        finally:
            await store.close()
        events = [e for run, seq, record in records for e in events_of(record, run, seq)]
        return Look(records, reports, events)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """An empty folder for a store."""
    return Place(tmp_path)


class Scripts:
    """Starts the scripts of this folder as processes, and ends what is left of them."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, *arguments: object, **variables: str) -> subprocess.Popen[bytes]:
        """Run `name` with the same Python and the same sources."""
        source = HERE.parent.parent / "src"
        process = subprocess.Popen(
            [sys.executable, str(HERE / name), *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(source), **variables},
        )
        self._started.append(process)
        return process

    def close(self) -> None:
        """Kill what still runs."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


@pytest.fixture
def scripts() -> Iterator[Scripts]:
    """Processes that end with the test."""
    running = Scripts()
    yield running
    running.close()


async def _until(condition: Callable[[], Any], seconds: float = 10.0) -> Any:
    for _ in range(int(seconds / 0.005)):
        found = condition()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return found
        await asyncio.sleep(0.005)
    raise AssertionError(f"it did not happen within {seconds:g} seconds")


@pytest.fixture
def until() -> Any:
    """Waits until a condition, plain or awaitable, gives something true."""
    return _until
