"""Calls and sessions as the store keeps them, and the states a durable call goes through."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

CallState = Literal[
    "requested",
    "awaiting_approval",
    "ready",
    "running",
    "done",
    "failed",
    "denied",
    "outcome_unknown",
    "cancelled",
]
"""requested → awaiting_approval → ready → running → done | failed | denied | outcome_unknown |
cancelled."""

Delivery = Literal["idempotent", "once"]
"""What becomes of a call whose runner vanished: run again, or `outcome_unknown`."""

ENDED: frozenset[str] = frozenset({"done", "failed", "denied", "outcome_unknown", "cancelled"})


class LedgerCall(msgspec.Struct, frozen=True, kw_only=True):
    """A durable call."""

    id: str
    tool: str
    principal: str
    session: str | None
    state: CallState
    delivery: Delivery
    created: float
    updated: float
    fence: int = 0
    """Grows with each claim; only the newest claimant can finish the call."""
    attempt: int = 0
    lease_until: float | None = None
    idempotency_key: str | None = None
    request: str | None = None
    """The approval it waits for."""
    result: bytes | None = None


_LEASE = "run/"
"""How the ids of leases begin. No call can be given such an id."""


def run_lease(run: str, number: int, *, now: float, lease_until: float) -> LedgerCall:
    """The lease under which all durable calls run that one writer's run has begun: one entry that
    is kept alive, in place of one for each call."""
    return LedgerCall(
        id=f"{_LEASE}{run}/{number}",
        tool="",
        principal="",
        session=None,
        state="running",
        delivery="once",
        created=now,
        updated=now,
        fence=1,
        attempt=1,
        lease_until=lease_until,
    )


def leased_run(id: str) -> str | None:
    """The writer's run whose calls a lease covers; None for the id of a call."""
    return id.split("/")[1] if id.startswith(_LEASE) else None


class Finish(msgspec.Struct, frozen=True, gc=False):
    """That a running call has ended. It leaves the ledger: its ending is on the trail, in the same
    transaction. One that was written off meanwhile stays as it is."""

    id: str
    fence: int


LedgerStep = LedgerCall | Finish
"""What a trail's block brings for the ledger: calls that begin to run, and calls that ended."""


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A session as kept."""

    id: str
    principal: str
    profile: str | None
    cwd: str
    metadata: dict[str, Any] = {}
    created: float
    expires: float | None = None
    ended: float | None = None
