"""Which steps requests and calls may take; the same for every store."""

from __future__ import annotations

from typing import get_args

import msgspec

from toolcrib.core.approval import ApprovalRequest
from toolcrib.core.ledger import ENDED, CallState, LedgerCall
from toolcrib.errors import StoreError

STATES: frozenset[str] = frozenset(get_args(CallState))


def check_answer(request: ApprovalRequest) -> None:
    """Refuse an answer that answers nothing, or does not say when it was given."""
    if request.state not in ("allowed", "denied", "withdrawn") or request.decided is None:
        raise StoreError(
            f"the request {request.id!r} is not answered by the state {request.state!r}, decided "
            f"at {request.decided!r}. Set state to allowed, denied or withdrawn, and decided to "
            "the time of the answer."
        )


def check_ending(state: str) -> None:
    """Refuse a state that ends nothing."""
    if state not in ENDED:
        raise StoreError(f"{state!r} does not end a call. Use one of {', '.join(sorted(ENDED))}.")


def check_move(old: str, new: str) -> None:
    """Refuse a step that the ledger does not know: ended calls stay ended, claims start calls."""
    if old not in STATES or new not in STATES:
        unknown = old if old not in STATES else new
        raise StoreError(f"{unknown!r} is no state. Use one of {', '.join(sorted(STATES))}.")
    if old in ENDED:
        raise StoreError(f"a call that is {old!r} has ended and does not change any more.")
    if new == "running":
        raise StoreError("a call starts to run by claim_call(), which gives the fence to end it.")


def swept(call: LedgerCall, now: float) -> LedgerCall:
    """The call as it is after its runner has vanished and the lease ran out."""
    state: CallState = "ready" if call.delivery == "idempotent" else "outcome_unknown"
    return msgspec.structs.replace(call, state=state, updated=now, lease_until=None)
