"""The chain that makes a trail tamper-evident.

Records are numbered from 1 within a writer's run. A block's head is a hash over everything
before it and its own records, and its HMAC covers run, position and head, so only the holder of
the key can write a block that fits. Each record also has a running checksum: it proves nothing,
it names the record that somebody edited. What the chain alone cannot show is a missing tail: an
anchor (position and head, kept elsewhere) does.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Iterable
from typing import Any
from zlib import crc32

import msgspec

from toolcrib.core.ledger import LedgerStep

START = b"\0" * 32


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """The records of one group commit, as stored."""

    run: str
    first: int
    count: int
    time: float
    lines: bytes
    """One JSON record a line."""
    sums: bytes
    """The running checksum, 4 bytes a record."""
    before: bytes
    """The head of the block before this one."""
    head: bytes
    """The hash over `before` and the lines."""
    mac: bytes
    steps: tuple[LedgerStep, ...] = ()
    """What happens to the ledger with these records: never without them, nor they without it.
    Done in the same transaction, and not part of what is kept of the block."""

    @property
    def last(self) -> int:
        """The number of the last record."""
        return self.first + self.count - 1


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run's chain had come, written down in another place."""

    run: str
    seq: int
    head: str
    time: float


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a chain."""

    run: str
    seq: int
    """The first record concerned."""
    problem: str


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """What verification can say about one writer's run."""

    run: str
    records: int
    anchored: int
    """Records up to here are covered by an anchor; later ones could have been cut off."""
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing wrong was found."""
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**msgspec.to_builtins(self), "ok": self.ok}


def seal(
    run: str,
    first: int,
    lines: list[bytes],
    before: bytes,
    key: bytes,
    time: float,
    steps: tuple[LedgerStep, ...] = (),
) -> Block:
    """The block of `lines`, chained to the hash `before` and signed."""
    text = b"\n".join(lines)
    head = _head(before, text)
    return Block(
        run=run,
        first=first,
        count=len(lines),
        time=time,
        lines=text,
        sums=_sums(before, lines),
        before=before,
        head=head,
        mac=_mac(key, run, first, len(lines), time, head),
        steps=steps,
    )


def _head(before: bytes, text: bytes) -> bytes:
    return hashlib.sha256(before + text).digest()


def _sums(before: bytes, lines: list[bytes]) -> bytes:
    """The checksum of each record: over the head before the block and all lines up to its own."""
    total = crc32(before)
    sums = [total := crc32(line, total) for line in lines]
    return struct.pack(f"<{len(sums)}I", *sums)


def _mac(key: bytes, run: str, first: int, count: int, time: float, head: bytes) -> bytes:
    return hmac.digest(key, f"{run}:{first}:{count}:{time!r}:".encode() + head, "sha256")


def verify_run(
    run: str, blocks: Iterable[Block], key: bytes, anchors: Iterable[Anchor] = ()
) -> RunReport:
    """Check one run's blocks, given in order, and hold them against its anchors."""
    findings: list[Finding] = []
    head, following, heads = START, 1, dict[int, bytes]()
    for block in blocks:
        problem = _check(block, following, head, key)
        if problem is not None:
            findings.append(Finding(run=run, seq=problem[0], problem=problem[1]))
            break
        heads[block.last] = block.head
        head, following = block.head, block.last + 1
    anchored = 0
    for anchor in anchors:
        if anchor.run != run:
            continue
        kept = heads.get(anchor.seq)
        if kept is None and not findings and anchor.seq < following:
            text = "the records were not written together with their anchor"
            findings.append(Finding(run=run, seq=anchor.seq, problem=text))
        elif kept is None and not findings:
            text = f"the anchor knows {anchor.seq} records, the store has {following - 1}"
            findings.append(Finding(run=run, seq=following, problem=text))
        elif kept is not None and kept.hex() != anchor.head:
            text = "the record differs from its anchor"
            findings.append(Finding(run=run, seq=anchor.seq, problem=text))
        elif kept is not None:
            anchored = max(anchored, anchor.seq)
    return RunReport(run=run, records=following - 1, anchored=anchored, findings=tuple(findings))


def _check(block: Block, following: int, head: bytes, key: bytes) -> tuple[int, str] | None:
    if block.first != following:
        return following, f"records {following} to {block.first - 1} are missing"
    if block.before != head:
        return following, "the record does not follow the one before it"
    lines = block.lines.split(b"\n")
    if len(lines) != block.count or len(block.sums) != 4 * block.count:
        return following, "the number of records in the block is wrong"
    sums = _sums(head, lines)
    if sums != block.sums:
        wrong = next(at for at in range(len(sums)) if sums[at] != block.sums[at])
        return following + wrong // 4, "the record was changed"
    if _head(head, block.lines) != block.head:
        return following, "the records of the block are not those it was made of"
    mac = _mac(key, block.run, block.first, block.count, block.time, block.head)
    if not hmac.compare_digest(mac, block.mac):
        return following, "the signature does not fit: another key, or a forged block"
    return None
