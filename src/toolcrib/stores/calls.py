"""The ledger of durable calls in SQL. Each function runs inside a transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

import msgspec

from toolcrib.core.ledger import Finish, LedgerCall, LedgerStep
from toolcrib.stores.transitions import swept

_FIELDS = LedgerCall.__struct_fields__
_COLUMNS = ", ".join(_FIELDS)
_ROW = ", ".join(f":{field}" for field in _FIELDS)
_MARKS = ", ".join("?" for _ in _FIELDS)


def put(db: sqlite3.Connection, call: LedgerCall) -> bool:
    """Enter a call; False when its id or idempotency key is known already."""
    added = db.execute(
        f"INSERT INTO calls({_COLUMNS}) VALUES ({_ROW}) ON CONFLICT DO NOTHING",  # noqa: S608
        msgspec.structs.asdict(call),
    )
    return added.rowcount == 1


def take_steps(db: sqlite3.Connection, steps: Iterable[LedgerStep]) -> None:
    """Enter calls that begin to run, and take out those that ended."""
    begun: list[LedgerCall] = []
    ended: list[Finish] = []
    for step in steps:
        if isinstance(step, Finish):
            ended.append(step)
        else:
            begun.append(step)
    db.executemany(
        f"INSERT INTO calls({_COLUMNS}) VALUES ({_MARKS}) ON CONFLICT DO NOTHING",  # noqa: S608
        map(msgspec.structs.astuple, begun),
    )
    db.executemany(
        "DELETE FROM calls WHERE id = ? AND fence = ? AND state = 'running'",
        [(step.id, step.fence) for step in ended],
    )


def get(db: sqlite3.Connection, id: str) -> LedgerCall | None:
    """The call `id`."""
    found = _select(db, "id = ?", id)
    return found[0] if found else None


def find(db: sqlite3.Connection, *, state: str | None, limit: int) -> list[LedgerCall]:
    """Calls, oldest first."""
    return _select(db, "?1 IS NULL OR state = ?1 ORDER BY created, id LIMIT ?2", state, limit)


def claim(db: sqlite3.Connection, id: str, *, lease_until: float, now: float) -> int | None:
    """Take a ready call; the fence to end it with."""
    claimed = db.execute(
        "UPDATE calls SET state = 'running', fence = fence + 1, attempt = attempt + 1, "
        "lease_until = ?, updated = ? WHERE id = ? AND state = 'ready'",
        (lease_until, now, id),
    )
    if claimed.rowcount != 1:
        return None
    return db.execute("SELECT fence FROM calls WHERE id = ?", (id,)).fetchone()[0]


def renew(db: sqlite3.Connection, id: str, *, fence: int, lease_until: float) -> bool:
    """Prolong the newest claim."""
    renewed = db.execute(
        "UPDATE calls SET lease_until = ? WHERE id = ? AND fence = ? AND state = 'running'",
        (lease_until, id, fence),
    )
    return renewed.rowcount == 1


def finish(
    db: sqlite3.Connection, id: str, *, fence: int, state: str, result: bytes | None, now: float
) -> bool:
    """End a running call that the newest claimant holds."""
    finished = db.execute(
        "UPDATE calls SET state = ?, result = ?, updated = ?, lease_until = NULL "
        "WHERE id = ? AND fence = ? AND state = 'running'",
        (state, result, now, id, fence),
    )
    return finished.rowcount == 1


def move(db: sqlite3.Connection, id: str, *, old: str, new: str, now: float) -> bool:
    """Change the state of a call that is in `old`."""
    moved = db.execute(
        "UPDATE calls SET state = ?, updated = ?, lease_until = NULL WHERE id = ? AND state = ?",
        (new, now, id, old),
    )
    return moved.rowcount == 1


def sweep(db: sqlite3.Connection, now: float) -> list[LedgerCall]:
    """Put calls whose lease ran out where their delivery says."""
    late = _select(db, "state = 'running' AND lease_until < ?", now)
    db.execute(
        "UPDATE calls SET updated = ?1, lease_until = NULL, state = "
        "CASE delivery WHEN 'idempotent' THEN 'ready' ELSE 'outcome_unknown' END "
        "WHERE state = 'running' AND lease_until < ?1",
        (now,),
    )
    return [swept(call, now) for call in late]


def _select(db: sqlite3.Connection, condition: str, *values: object) -> list[LedgerCall]:
    rows = db.execute(f"SELECT {_COLUMNS} FROM calls WHERE {condition}", values)  # noqa: S608
    return [LedgerCall(**dict(zip(_FIELDS, row, strict=True))) for row in rows]
