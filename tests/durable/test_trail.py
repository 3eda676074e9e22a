"""The trail in a real host's file: what tampering shows, and what an anchor adds."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib import ToolHost, tool
from toolcrib.core.chain import Block, seal
from toolcrib.observe.trail import read_anchors
from toolcrib.stores import tables
from toolcrib.stores.keys import load_key


class Tally:
    """A tool that counts."""

    def __init__(self) -> None:
        self.ran = 0

        @tool(name="count", effects=["write"])
        async def count(n: int) -> int:
            self.ran += 1
            return n

        self.tool = count


async def _write(place: Any, calls: int = 6, **audit: Any) -> None:
    """One run of a host: each call of a writing tool is at least two blocks. The last ones come
    together, so that some records share a block."""
    tally = Tally()
    config = place.config(host={"audit": audit} if audit else {})
    async with ToolHost([tally.tool], config=config) as host:
        for n in range(calls):
            assert (await host.call("count", {"n": n})).success
        parts = await host.start()
        for n in range(2):
            parts.trail.fact("tool.emitted", None, {"n": n})


def _blocks(db: Path) -> list[tuple[int, Block]]:
    file = sqlite3.connect(db)
    try:
        return tables.blocks(file, after=0, limit=10_000, run=None)
    finally:
        file.close()


def _sql(db: Path, statement: str, *values: object) -> int:
    file = sqlite3.connect(db, isolation_level=None)
    try:
        return file.execute(statement, values).rowcount
    finally:
        file.close()


def _edit_record(db: Path) -> int:
    """One byte of the record that stands last in the third block."""
    position, block = _blocks(db)[2]
    lines = block.lines[:-3] + bytes([block.lines[-3] ^ 1]) + block.lines[-2:]
    _sql(db, "UPDATE blocks SET lines = ? WHERE pos = ?", lines, position)
    return block.last


def _edit_sums(db: Path) -> int:
    position, block = _blocks(db)[2]
    sums = bytes([block.sums[0] ^ 1]) + block.sums[1:]
    _sql(db, "UPDATE blocks SET sums = ? WHERE pos = ?", sums, position)
    return block.first


def _edit_head(db: Path) -> int:
    position, block = _blocks(db)[2]
    head = bytes([block.head[0] ^ 1]) + block.head[1:]
    _sql(db, "UPDATE blocks SET head = ? WHERE pos = ?", head, position)
    return block.first


def _edit_with_its_sums(db: Path) -> int:
    """An edit by somebody who also made the checksums fit: the block is named."""
    position, block = _blocks(db)[2]
    lines = [line.replace(b"count", b"cOunt") for line in block.lines.split(b"\n")]
    forged = seal(block.run, block.first, lines, block.before, b"k" * 32, block.time)
    _sql(
        db,
        "UPDATE blocks SET lines = ?, sums = ? WHERE pos = ?",
        forged.lines, forged.sums, position,
    )  # fmt: skip
    return block.first


def _edit_mac(db: Path) -> int:
    position, block = _blocks(db)[2]
    _sql(db, "UPDATE blocks SET mac = ? WHERE pos = ?", bytes(32), position)
    return block.first


def _delete(db: Path) -> int:
    position, block = _blocks(db)[2]
    _sql(db, "DELETE FROM blocks WHERE pos = ?", position)
    return block.first


def _delete_first(db: Path) -> int:
    position, block = _blocks(db)[0]
    _sql(db, "DELETE FROM blocks WHERE pos = ?", position)
    return block.first


def _swap(db: Path) -> int:
    (a, first), (b, _) = _blocks(db)[2:4]
    for old, new in ((a, -1), (b, a), (-1, b)):
        _sql(db, "UPDATE blocks SET pos = ? WHERE pos = ?", new, old)
    return first.first


def _renumber(db: Path) -> int:
    (_, block), (position, following) = _blocks(db)[2:4]
    _sql(
        db,
        "UPDATE blocks SET first = first + 1 WHERE pos >= ? AND run = ?", position, block.run,
    )  # fmt: skip
    assert following.first == block.last + 1
    return following.first


def _reseal(db: Path) -> int:
    """Everything done right, but with another key."""
    position, block = _blocks(db)[2]
    lines = [line.replace(b"count", b"cOunt") for line in block.lines.split(b"\n")]
    forged = seal(block.run, block.first, lines, block.before, b"k" * 32, block.time)
    _sql(
        db,
        "UPDATE blocks SET lines = ?, sums = ?, head = ?, mac = ? WHERE pos = ?",
        forged.lines, forged.sums, forged.head, forged.mac, position,
    )  # fmt: skip
    return block.first


def _drop_a_line(db: Path) -> int:
    """A record that shares its block with others, taken out together with its checksum."""
    for position, block in _blocks(db):
        if block.count > 1:
            lines = b"\n".join(block.lines.split(b"\n")[:-1])
            _sql(
                db,
                "UPDATE blocks SET lines = ?, sums = ?, count = count - 1 WHERE pos = ?",
                lines, block.sums[:-4], position,
            )  # fmt: skip
            return block.first
    raise AssertionError("no block holds two records")


TAMPER = [
    _edit_record, _edit_sums, _edit_head, _edit_with_its_sums, _edit_mac,
    _delete, _delete_first, _swap, _renumber, _reseal, _drop_a_line,
]  # fmt: skip


@pytest.mark.parametrize("tamper", TAMPER, ids=lambda f: f.__name__.strip("_"))
async def test_tampering_shows_at_the_first_broken_record(
    tamper: Callable[[Path], int], place: Any
) -> None:
    await _write(place)
    await _write(place, 2)
    before = await place.look()
    before.assert_whole()
    assert len(before.reports) == 2
    broken = tamper(place.db)
    reports = await _reports(place)
    assert [(f.run, f.seq) for f in reports[0].findings] == [(before.reports[0].run, broken)]
    assert reports[0].findings[0].problem
    assert reports[0].records < broken
    # The other writer's run is not drawn into it.
    assert reports[1].ok


async def _reports(place: Any, **options: Any) -> list[Any]:
    """Verify without reading the records: they may be none any more."""
    from toolcrib.host.history import verify_store
    from toolcrib.stores.sqlite import SqliteStore

    store = SqliteStore(place.db)
    await store.open()
    try:
        key = options.get("key") or load_key(place.key)
        return await verify_store(store, key, options.get("anchors", ()))
    finally:
        await store.close()


async def test_cut_tail_shows_by_the_anchor_and_only_by_it(place: Any) -> None:
    anchor = place.folder / "elsewhere" / "anchor"
    anchor.parent.mkdir()
    await _write(place, anchor=str(anchor))
    anchors = read_anchors(str(anchor))
    (report,) = await _reports(place, anchors=anchors)
    assert report.ok
    assert report.anchored == report.records > 12

    last = _blocks(place.db)[-1][1]
    _sql(place.db, "DELETE FROM blocks WHERE first = ?", last.first)
    (unaware,) = await _reports(place)
    assert unaware.ok
    assert (unaware.anchored, unaware.records) == (0, last.first - 1)
    (aware,) = await _reports(place, anchors=anchors)
    assert [f.seq for f in aware.findings] == [last.first]
    assert "anchor" in aware.findings[0].problem


async def test_run_that_vanished_altogether_shows_by_the_anchor(place: Any) -> None:
    anchor = place.folder / "anchor"
    await _write(place, anchor=str(anchor))
    _sql(place.db, "DELETE FROM blocks")
    assert await _reports(place) == []
    (report,) = await _reports(place, anchors=read_anchors(str(anchor)))
    assert [f.seq for f in report.findings] == [1]


async def test_whole_chain_forged_by_a_key_holder_shows_by_the_anchor(place: Any) -> None:
    anchor = place.folder / "anchor"
    await _write(place, anchor=str(anchor))
    key, head = load_key(place.key), bytes(32)
    for position, block in _blocks(place.db):
        lines = [line.replace(b"count", b"cOunt") for line in block.lines.split(b"\n")]
        forged = seal(block.run, block.first, lines, head, key, block.time)
        head = forged.head
        _sql(
            place.db,
            "UPDATE blocks SET lines = ?, sums = ?, before = ?, head = ?, mac = ? WHERE pos = ?",
            forged.lines, forged.sums, forged.before, forged.head, forged.mac, position,
        )  # fmt: skip
    (unaware,) = await _reports(place)
    assert unaware.ok  # said plainly: who has the key can do this
    (aware,) = await _reports(place, anchors=read_anchors(str(anchor)))
    assert "anchor" in aware.findings[0].problem


async def test_anchored_and_unanchored_ranges_are_told_apart(place: Any) -> None:
    anchor = place.folder / "anchor"
    await _write(place, 50, anchor=str(anchor))
    anchors = read_anchors(str(anchor))
    assert len(anchors) > 1
    (early,) = await _reports(place, anchors=anchors[:1])
    assert early.ok
    assert 0 < early.anchored < early.records
    (full,) = await _reports(place, anchors=anchors)
    assert full.anchored == full.records
    # A torn last line, as a crash leaves it, takes nothing from the others.
    with anchor.open("ab") as file:
        file.write(b'{"run":"x","se')
    assert len(read_anchors(str(anchor))) == len(anchors)


async def test_another_key_verifies_nothing(place: Any) -> None:
    await _write(place, 1)
    (report,) = await _reports(place, key=b"x" * 32)
    assert [f.seq for f in report.findings] == [1]


async def test_key_stands_beside_the_store_and_nobody_else_reads_it(
    place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = place.folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    async with ToolHost([Tally().tool], store=f"sqlite:{place.db}") as host:
        assert (await host.call("count", {"n": 1})).success
    assert list(elsewhere.iterdir()) == []
    assert stat.S_IMODE(place.key.stat().st_mode) == 0o600
    (await place.look()).assert_whole()


async def test_two_stores_have_two_keys(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.folder)
    for name in ("a.db", "b.db"):
        async with ToolHost([Tally().tool], store=f"sqlite:{place.folder / name}") as host:
            await host.call("count", {"n": 1})
    keys = {path.read_bytes() for path in place.folder.glob("*.key")}
    assert len(keys) == 2


async def test_key_that_others_can_read_is_refused(place: Any) -> None:
    await _write(place, 1)
    place.key.chmod(0o644)
    tally = Tally()
    host = ToolHost([tally.tool], config=place.config())
    with pytest.raises(Exception, match="chmod 600"):
        await host.start()
    await host.stop()
    assert tally.ran == 0


async def test_anchor_that_cannot_be_written_refuses_calls(place: Any, until: Any) -> None:
    folder = place.folder / "elsewhere"
    folder.mkdir()
    anchor = folder / "anchor"
    anchor.mkdir()  # a folder stands in the way; root may write anywhere else
    tally = Tally()
    config = place.config(host={"audit": {"anchor": str(anchor)}})
    async with ToolHost([tally.tool], config=config) as host:

        async def refused() -> bool:
            return (await host.call("count", {"n": 0})).reason == "audit_unavailable"

        await until(refused)
        before = tally.ran
        for _ in range(20):
            many = await asyncio.gather(*(host.call("count", {"n": n}) for n in range(10)))
            assert {result.reason for result in many} == {"audit_unavailable"}
            await asyncio.sleep(0.005)
        assert tally.ran == before
        result = many[0]
        assert result.error is not None
        assert str(anchor) in result.error.message

        shutil.rmtree(anchor)

        async def works() -> bool:
            return (await host.call("count", {"n": 1})).success

        await until(works)
    (report,) = await _reports(place, anchors=read_anchors(str(anchor)))
    assert report.ok
    assert report.anchored == report.records


async def test_no_call_runs_before_the_first_anchor_is_written(place: Any) -> None:
    anchor = place.folder / "anchor"
    anchor.mkdir()
    tally = Tally()
    config = place.config(host={"audit": {"anchor": str(anchor)}})
    async with ToolHost([tally.tool], config=config) as host:
        result = await host.call("count", {"n": 0})
    assert result.reason == "audit_unavailable"
    assert tally.ran == 0
