"""What the chain shows, and at which record."""

from __future__ import annotations

import json

import msgspec
import pytest

from toolcrib.core.chain import START, Anchor, Block, RunReport, seal, verify_run

KEY = b"k" * 32
RUN = "run-1"


def chain(*sizes: int, key: bytes = KEY, run: str = RUN) -> list[Block]:
    """Blocks of the given sizes; record n says n."""
    blocks: list[Block] = []
    head, first = START, 1
    for size in sizes:
        lines = [b'{"n":%d}' % number for number in range(first, first + size)]
        blocks.append(seal(run, first, lines, head, key, 0.0))
        head, first = blocks[-1].head, first + size
    return blocks


def anchor(blocks: list[Block]) -> Anchor:
    last = blocks[-1]
    return Anchor(run=last.run, seq=last.last, head=last.head.hex(), time=0.0)


def change(block: Block, **changes: object) -> Block:
    return msgspec.structs.replace(block, **changes)


def lines(block: Block) -> list[bytes]:
    return block.lines.split(b"\n")


def sums_of(block: Block) -> list[bytes]:
    return [block.sums[at : at + 4] for at in range(0, len(block.sums), 4)]


def found(report: RunReport) -> list[int]:
    assert report.ok == (not report.findings)
    return [finding.seq for finding in report.findings]


def test_an_untouched_chain_verifies() -> None:
    blocks = chain(3, 1, 5)
    report = verify_run(RUN, blocks, KEY, [anchor(blocks[:2])])
    assert (report.records, report.anchored, report.findings) == (9, 4, ())
    assert json.loads(json.dumps(report.to_dict())) == {
        "run": RUN,
        "records": 9,
        "anchored": 4,
        "findings": [],
        "ok": True,
    }


def test_an_empty_run_verifies() -> None:
    assert verify_run(RUN, [], KEY).records == 0


@pytest.mark.parametrize("number", [1, 3, 4, 5, 9])
def test_an_edited_record_is_named(number: int) -> None:
    blocks = chain(3, 1, 5)
    index = next(i for i, block in enumerate(blocks) if block.first <= number <= block.last)
    text = lines(blocks[index])
    text[number - blocks[index].first] = b'{"n":0}'
    blocks[index] = change(blocks[index], lines=b"\n".join(text))
    report = verify_run(RUN, blocks, KEY)
    assert found(report) == [number]
    assert report.findings[0].problem == "the record was changed"


def test_an_edit_with_hashes_made_to_fit_fails_the_signature() -> None:
    blocks = chain(2, 2)
    forged = seal(RUN, 3, [b'{"n":0}', b'{"n":4}'], blocks[0].head, b"guess" * 7, 0.0)
    report = verify_run(RUN, [blocks[0], change(forged, mac=blocks[1].mac)], KEY)
    assert found(report) == [3]
    assert "signature" in report.findings[0].problem


@pytest.mark.parametrize("number", [4, 6])
def test_a_record_deleted_with_its_hash_is_named(number: int) -> None:
    blocks = chain(3, 5)
    text, sums = lines(blocks[1]), sums_of(blocks[1])
    del text[number - 4], sums[number - 4]
    blocks[1] = change(blocks[1], count=4, lines=b"\n".join(text), sums=b"".join(sums))
    assert found(verify_run(RUN, blocks, KEY)) == [number]


def test_the_last_record_of_a_block_deleted_fails_the_signature() -> None:
    blocks = chain(3, 5)
    blocks[1] = change(
        blocks[1],
        count=4,
        lines=b"\n".join(lines(blocks[1])[:-1]),
        sums=b"".join(sums_of(blocks[1])[:-1]),
    )
    assert found(verify_run(RUN, blocks, KEY)) == [4]


def test_a_line_deleted_alone_is_found_in_its_block() -> None:
    blocks = chain(3, 5)
    blocks[1] = change(blocks[1], lines=b"\n".join(lines(blocks[1])[:-1]))
    report = verify_run(RUN, blocks, KEY)
    assert found(report) == [4]
    assert "number of records" in report.findings[0].problem


def test_a_deleted_block_is_named_by_its_records() -> None:
    blocks = chain(3, 2, 5)
    report = verify_run(RUN, [blocks[0], blocks[2]], KEY)
    assert found(report) == [4]
    assert report.findings[0].problem == "records 4 to 5 are missing"


def test_the_first_block_deleted_is_found() -> None:
    assert found(verify_run(RUN, chain(3, 2)[1:], KEY)) == [1]


@pytest.mark.parametrize("number", [4, 6, 8])
def test_an_inserted_record_is_named(number: int) -> None:
    blocks = chain(3, 5)
    text, sums = lines(blocks[1]), sums_of(blocks[1])
    text.insert(number - 4, b'{"n":"new"}')
    sums.insert(number - 4, b"gues")
    blocks[1] = change(blocks[1], count=6, lines=b"\n".join(text), sums=b"".join(sums))
    assert found(verify_run(RUN, blocks, KEY)) == [number]


def test_an_inserted_block_is_found_where_it_stands() -> None:
    blocks = chain(3, 2)
    forged = seal(RUN, 4, [b'{"n":"new"}'], blocks[0].head, b"guess" * 7, 0.0)
    assert found(verify_run(RUN, [blocks[0], forged, blocks[1]], KEY)) == [4]


def test_a_block_written_twice_is_found() -> None:
    blocks = chain(3, 2)
    assert found(verify_run(RUN, [blocks[0], blocks[1], blocks[1]], KEY)) == [6]


def test_swapped_records_are_named() -> None:
    blocks = chain(2, 5)
    text, sums = lines(blocks[1]), sums_of(blocks[1])
    text[2], text[3] = text[3], text[2]
    sums[2], sums[3] = sums[3], sums[2]
    blocks[1] = change(blocks[1], lines=b"\n".join(text), sums=b"".join(sums))
    assert found(verify_run(RUN, blocks, KEY)) == [5]


def test_swapped_blocks_are_found_at_the_first_of_them() -> None:
    blocks = chain(2, 2, 2)
    assert found(verify_run(RUN, [blocks[0], blocks[2], blocks[1]], KEY)) == [3]


def test_swapped_blocks_with_exchanged_numbers_are_found() -> None:
    blocks = chain(2, 2, 2)
    blocks[1], blocks[2] = change(blocks[2], first=3), change(blocks[1], first=5)
    assert found(verify_run(RUN, blocks, KEY)) == [3]


def test_a_cut_tail_does_not_show_without_an_anchor() -> None:
    report = verify_run(RUN, chain(3, 2, 5)[:2], KEY)
    assert report.ok
    assert (report.records, report.anchored) == (5, 0)


def test_a_cut_tail_shows_against_an_anchor() -> None:
    blocks = chain(3, 2, 5)
    report = verify_run(RUN, blocks[:2], KEY, [anchor(blocks[:1]), anchor(blocks)])
    assert found(report) == [6]
    assert report.anchored == 3
    assert report.findings[0].problem == "the anchor knows 10 records, the store has 5"


def test_a_chain_written_anew_with_the_key_differs_from_its_anchor() -> None:
    blocks = chain(3, 2)
    rewritten = [seal(RUN, 1, [b'{"n":0}'] * 5, START, KEY, 0.0)]
    report = verify_run(RUN, rewritten, KEY, [anchor(blocks)])
    assert found(report) == [5]
    assert "anchor" in report.findings[0].problem


def test_anchors_of_other_runs_say_nothing() -> None:
    other = Anchor(run="run-2", seq=99, head="00", time=0.0)
    assert verify_run(RUN, chain(2), KEY, [other]).ok


def test_another_key_is_found_at_the_first_record() -> None:
    report = verify_run(RUN, chain(3, 2), b"x" * 32)
    assert found(report) == [1]
    assert "another key" in report.findings[0].problem


def test_a_block_of_another_run_does_not_fit() -> None:
    blocks = [change(block, run="run-2") for block in chain(3)]
    assert found(verify_run("run-2", blocks, KEY)) == [1]
