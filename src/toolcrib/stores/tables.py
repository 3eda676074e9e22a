"""Blocks, approvals, grants and sessions in SQL. Each function runs inside a transaction."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec

from toolcrib.core.approval import ApprovalRequest, Grant
from toolcrib.core.chain import Block
from toolcrib.core.ledger import SessionRow
from toolcrib.errors import StoreError
from toolcrib.stores import calls


def _text(value: msgspec.Struct) -> str:
    return msgspec.json.encode(value).decode()


def add_block(db: sqlite3.Connection, block: Block) -> None:
    """Append one block of the trail."""
    db.execute(
        "INSERT INTO blocks(run, first, count, time, lines, sums, before, head, mac) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            block.run,
            block.first,
            block.count,
            block.time,
            block.lines,
            block.sums,
            block.before,
            block.head,
            block.mac,
        ),
    )
    if block.steps:
        calls.take_steps(db, block.steps)


def blocks(
    db: sqlite3.Connection, *, after: int, limit: int, run: str | None
) -> list[tuple[int, Block]]:
    """Blocks behind position `after`, in writing order."""
    condition, values = "pos > ?", [after, limit]
    if run is not None:
        condition, values = "run = ? AND pos > ?", [run, after, limit]
    rows = db.execute(
        "SELECT pos, run, first, count, time, lines, sums, before, head, mac FROM blocks "  # noqa: S608
        f"WHERE {condition} ORDER BY pos LIMIT ?",
        values,
    )
    return [
        (
            pos,
            Block(
                run=run_,
                first=first,
                count=count,
                time=time,
                lines=lines,
                sums=sums,
                before=before,
                head=head,
                mac=mac,
            ),
        )
        for pos, run_, first, count, time, lines, sums, before, head, mac in rows
    ]


def runs(db: sqlite3.Connection) -> list[str]:
    """The writers' runs, oldest first."""
    rows = db.execute("SELECT run FROM blocks GROUP BY run ORDER BY min(pos)")
    return [row[0] for row in rows]


def put_request(db: sqlite3.Connection, request: ApprovalRequest) -> ApprovalRequest:
    """Keep `request`, unless an open one with its key is there: then give that one."""
    db.execute(
        "UPDATE requests SET state = 'expired', decided = ?2 "
        "WHERE key = ?1 AND state IN ('pending', 'allowed') AND expires <= ?2",
        (request.key, request.created),
    )
    row = db.execute(
        "SELECT body, state, decided FROM requests "
        "WHERE key = ? AND state IN ('pending', 'allowed')",
        (request.key,),
    ).fetchone()
    if row is not None:
        return _as_request(row)
    db.execute(
        "INSERT INTO requests(id, key, state, expires, principal, session, decided, body) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            request.id,
            request.key,
            request.state,
            request.expires,
            request.principal,
            request.session,
            request.decided,
            _text(request),
        ),
    )
    return request


def get_request(db: sqlite3.Connection, id: str) -> ApprovalRequest | None:
    """The request `id`."""
    row = db.execute("SELECT body, state, decided FROM requests WHERE id = ?", (id,)).fetchone()
    return None if row is None else _as_request(row)


def requests(db: sqlite3.Connection, *, state: str | None, limit: int) -> list[ApprovalRequest]:
    """Requests, those that expire first in front."""
    rows = db.execute(
        "SELECT body, state, decided FROM requests WHERE ?1 IS NULL OR state = ?1 "
        "ORDER BY expires, rowid LIMIT ?2",
        (state, limit),
    )
    return [_as_request(row) for row in rows]


def _as_request(row: tuple[Any, ...]) -> ApprovalRequest:
    """The body as it was written, brought to the state that later updates gave it."""
    request = msgspec.json.decode(row[0], type=ApprovalRequest)
    if request.state == row[1]:
        return request
    return msgspec.structs.replace(request, state=row[1], decided=row[2])


def answer_request(db: sqlite3.Connection, request: ApprovalRequest, grant: Grant | None) -> bool:
    """Replace a pending, unexpired request by its answered form, and keep the grant with it."""
    answered = db.execute(
        "UPDATE requests SET state = ?, decided = ?, body = ? "
        "WHERE id = ? AND key = ? AND state = 'pending' AND expires > ?",
        (
            request.state,
            request.decided,
            _text(request),
            request.id,
            request.key,
            request.decided,
        ),
    )
    if answered.rowcount != 1:
        return False
    if grant is not None:
        put_grant(db, grant)
    return True


def redeem_request(db: sqlite3.Connection, id: str, *, key: str, call_id: str, now: float) -> bool:
    """Use an allowed request; exactly one caller finds it allowed."""
    redeemed = db.execute(
        "UPDATE requests SET state = 'used', used = ?4, used_by = ?3 "
        "WHERE id = ?1 AND key = ?2 AND state = 'allowed' AND expires > ?4",
        (id, key, call_id, now),
    )
    return redeemed.rowcount == 1


def expire_request(db: sqlite3.Connection, id: str, now: float) -> bool:
    """Mark a pending request whose time is over as expired."""
    expired = db.execute(
        "UPDATE requests SET state = 'expired', decided = ?2 "
        "WHERE id = ?1 AND state = 'pending' AND expires <= ?2",
        (id, now),
    )
    return expired.rowcount == 1


def put_grant(db: sqlite3.Connection, grant: Grant) -> None:
    """Keep a new grant; an id is never used twice, so a revoked one cannot come back."""
    added = db.execute(
        "INSERT INTO grants(id, created, expires, revoked, body) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT(id) DO NOTHING",
        (grant.id, grant.created, grant.expires, grant.revoked, _text(grant)),
    )
    if added.rowcount != 1:
        raise StoreError(f"a grant with the id {grant.id!r} exists already. Use a new id.")


def grants(db: sqlite3.Connection, *, live_at: float | None) -> list[Grant]:
    """Grants, oldest first; only those in force at `live_at` when it is given."""
    rows = db.execute(
        "SELECT body, revoked FROM grants WHERE ?1 IS NULL "
        "OR (revoked IS NULL AND (expires IS NULL OR expires > ?1)) ORDER BY created, rowid",
        (live_at,),
    )
    return [
        grant if grant.revoked == revoked else msgspec.structs.replace(grant, revoked=revoked)
        for grant, revoked in ((msgspec.json.decode(row[0], type=Grant), row[1]) for row in rows)
    ]


def revoke_grant(db: sqlite3.Connection, id: str, now: float) -> bool:
    """Take a grant back."""
    revoked = db.execute(
        "UPDATE grants SET revoked = ? WHERE id = ? AND revoked IS NULL", (now, id)
    )
    return revoked.rowcount == 1


def put_session(db: sqlite3.Connection, session: SessionRow) -> None:
    """Keep a session, in place of an older form of it."""
    db.execute(
        "INSERT INTO sessions(id, created, ended, body) VALUES (?, ?, ?, ?) ON CONFLICT(id) "
        "DO UPDATE SET created = excluded.created, ended = excluded.ended, body = excluded.body",
        (session.id, session.created, session.ended, _text(session)),
    )


def end_session(db: sqlite3.Connection, id: str, now: float) -> bool:
    """Mark an open session as ended."""
    ended = db.execute("UPDATE sessions SET ended = ? WHERE id = ? AND ended IS NULL", (now, id))
    return ended.rowcount == 1


def sessions(db: sqlite3.Connection, *, open_only: bool) -> list[SessionRow]:
    """Sessions, oldest first."""
    rows = db.execute(
        "SELECT body, ended FROM sessions WHERE NOT ? OR ended IS NULL ORDER BY created, rowid",
        (open_only,),
    )
    return [
        msgspec.structs.replace(msgspec.json.decode(row[0], type=SessionRow), ended=row[1])
        for row in rows
    ]
