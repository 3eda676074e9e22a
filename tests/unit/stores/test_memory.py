"""What only the memory store does."""

from __future__ import annotations

import logging

import pytest

from toolcrib.core.chain import START, Block, seal
from toolcrib.core.events import FactRecord
from toolcrib.errors import StoreError
from toolcrib.observe.trail import Trail
from toolcrib.stores.memory import TAKE_POKES, MemoryStore


class Counted:
    """A trail that always has one more record."""

    def __init__(self) -> None:
        self.taken = 0

    def take(self) -> Block | None:
        self.taken += 1
        return seal("run", self.taken, [b"x"], START, b"k", 0.0)

    def done(self, block: Block) -> None:
        assert block.first == self.taken

    def failed(self, block: Block, error: BaseException) -> None:
        raise AssertionError(error)


class Broken(Counted):
    """A trail that cannot give its records."""

    def take(self) -> Block | None:
        raise RuntimeError("no ink")


async def test_the_oldest_records_are_dropped() -> None:
    store, trail = MemoryStore(keep=10), Counted()
    store.attach(trail)
    for _ in range(25):
        store.poke(now=True)
    kept = await store.blocks()
    assert [block.first for _, block in kept] == list(range(17, 27))
    assert [position for position, _ in kept] == list(range(17, 27))


def test_gentle_pokes_are_gathered() -> None:
    store, trail = MemoryStore(), Counted()
    store.attach(trail)
    store.poke(now=True)
    for _ in range(TAKE_POKES):
        store.poke(now=False)
    # Once for the first poke, once for the many; and now and then when the machine is slow.
    assert 2 <= trail.taken < TAKE_POKES // 4


async def test_a_trail_that_fails_does_not_break_the_poke(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore()
    store.attach(Broken())
    with caplog.at_level(logging.ERROR, "toolcrib"):
        store.poke(now=True)
    assert "no ink" in caplog.text
    with pytest.raises(StoreError, match="no ink"):
        await store.runs()


async def test_the_real_trail_is_read_back_in_order() -> None:
    store = MemoryStore()
    trail = Trail(store, b"k" * 32, run="run")
    for number in range(50):
        trail.append(FactRecord(0.0, "host.started", None, {"n": number}))
    lines = b"\n".join(block.lines for _, block in await store.blocks()).split(b"\n")
    assert len(lines) == 50
    assert b'"n":49' in lines[-1]
