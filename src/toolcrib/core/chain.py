"""The chain that makes a trail tamper-evident.

Records are numbered from 1 within a writer's run. Each record's hash covers everything before
it, so an edit shows at the exact record; a block's HMAC covers run, position and the last
hash, so only the holder of the key can write a block that fits. What the chain alone cannot
show is a missing tail: an anchor (position and head, kept elsewhere) does.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Any

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
    hashes: bytes
    """32 bytes a record."""
    before: bytes
    """The hash that the first record builds on."""
    mac: bytes
    steps: tuple[LedgerStep, ...] = ()
    """What happens to the ledger with these records: never without them, nor they without it.
    Done in the same transaction, and not part of what is kept of the block."""

    @property
    def last(self) -> int:
        """The number of the last record."""
        return self.first + self.count - 1

    @property
    def head(self) -> bytes:
        """The hash of the last record."""
        return self.hashes[-32:]


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
    hashes = _hashes(before, lines)
    head = hashes[-1]
    return Block(
        run=run,
        first=first,
        count=len(lines),
        time=time,
        lines=b"\n".join(lines),
        hashes=b"".join(hashes),
        before=before,
        mac=_mac(key, run, first, len(lines), time, head),
        steps=steps,
    )


def _hashes(before: bytes, lines: list[bytes]) -> list[bytes]:
    """The hash of each record: over the head before the block and all lines up to its own."""
    state = hashlib.sha256(before)
    update, digest = state.update, state.digest
    hashes: list[bytes] = []
    put = hashes.append
    for line in lines:
        update(line)
        put(digest())
    return hashes


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
        for index in range(block.count):
            heads[block.first + index] = block.hashes[32 * index : 32 * index + 32]
        head, following = block.head, block.last + 1
    anchored = 0
    for anchor in anchors:
        if anchor.run != run:
            continue
        kept = heads.get(anchor.seq)
        if kept is None and not findings:
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
    if len(lines) != block.count or len(block.hashes) != 32 * block.count:
        return following, "the number of records in the block is wrong"
    for index, found in enumerate(_hashes(head, lines)):
        if found != block.hashes[32 * index : 32 * index + 32]:
            return following + index, "the record was changed"
    mac = _mac(key, block.run, block.first, block.count, block.time, block.head)
    if not hmac.compare_digest(mac, block.mac):
        return following, "the signature does not fit: another key, or a forged block"
    return None
