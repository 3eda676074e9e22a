"""Which calls a run's trail leaves open."""

from __future__ import annotations

from typing import Any

import msgspec

from toolcrib.core.chain import START, Block, seal
from toolcrib.core.events import (
    NOTHING,
    BeginRecord,
    CloseRecord,
    DoneRecord,
    FactRecord,
    OpenRecord,
    Record,
    StartRecord,
    encode_record,
)
from toolcrib.pipeline.begun import Begun

ABOUT = msgspec.Raw(b'["t","me","s1",null,"python","profile",null,null]')


def begin(call_id: str) -> Record:
    return BeginRecord(1, call_id, ABOUT, NOTHING, 1, 1)


def done(call_id: str) -> Record:
    return DoneRecord(2, call_id, ABOUT, 3, 1, 1)


def opened(call_id: str, verdict: str) -> Record:
    return OpenRecord(
        1.0, call_id, "t", "me", None, None, "python", None, verdict, "profile", None, None,
        NOTHING, 0, None, 0.0,
    )  # fmt: skip


def closed(call_id: str) -> Record:
    return CloseRecord(
        2.0, call_id, "t", "me", None, "error", "tool_error", "no", NOTHING, 0, None, 1,
        0.0, 0.0, 0.0, 0.0,
    )  # fmt: skip


class Kept:
    """Blocks, as a store gives them."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, Block]] = []

    def add(self, run: str, *lines: bytes | Record) -> None:
        """Keep a block."""
        texts = [line if isinstance(line, bytes) else encode_record(line) for line in lines]
        block = seal(run, 1, texts, START, b"key", 0.0)
        self.kept.append((len(self.kept) + 1, block))

    async def blocks(self, *, after: int = 0, limit: int = 100, run: str | None = None) -> Any:
        """Those behind a position."""
        return [b for b in self.kept if b[0] > after and run in (None, b[1].run)][:limit]


async def left(begun: Begun) -> list[str]:
    await begun.read()
    return [record.call_id for record in begun.running()]


async def test_what_began_is_open_until_it_ends() -> None:
    kept = Kept()
    kept.add("r", begin("a"), begin("b"), opened("c", "allow"), done("a"))
    begun = Begun(kept, "r")
    assert await left(begun) == ["b", "c"]
    kept.add("r", closed("c"), begin("d"))
    assert await left(begun) == ["b", "d"]


async def test_who_waits_for_a_person_has_not_begun() -> None:
    kept = Kept()
    kept.add("r", opened("a", "ask"), opened("b", "ask"), StartRecord(1.0, "b", 0.0, 0.0))
    assert await left(Begun(kept, "r")) == ["b"]


async def test_a_run_is_read_to_its_end_and_no_other_one_is() -> None:
    kept = Kept()
    for number in range(50):
        kept.add("r", begin(f"a{number}"))
        kept.add("other", begin(f"b{number}"))
    assert await left(Begun(kept, "r")) == [f"a{number}" for number in range(50)]


async def test_other_and_damaged_records_are_passed_over() -> None:
    kept = Kept()
    fact = FactRecord(1.0, "tool.emitted", "a", {})
    kept.add("r", b"", b"nonsense", b'["begin",', b'["begin",1,2]', b'["open",1,"x"]', fact)
    kept.add("r", begin("a"))
    assert await left(Begun(kept, "r")) == ["a"]


async def test_the_one_who_called_is_known() -> None:
    kept = Kept()
    kept.add("r", begin("a"))
    begun = Begun(kept, "r")
    await begun.read()
    (record,) = begun.running()
    assert (record.tool, record.principal, record.session) == ("t", "me", "s1")
