"""What a store promises about durable calls."""

from __future__ import annotations

from typing import Any

from toolcrib.core.ledger import Delivery, Finish
from toolcrib.core.protocols import Store
from toolcrib.errors import StoreError
from toolcrib.testing.contracts.material import NOW, Records, call, in_threads, replace
from toolcrib.testing.contracts.promise import promise


async def entered_once(store: Store) -> None:
    """An id or an idempotency key enters one call."""
    first = call("c1", idempotency_key="k", request="r1", result=b"\0\xff")
    promise(await store.put_call(first), "a new call is entered")
    promise(not await store.put_call(call("c1")), "an id is entered once")
    again = await store.put_call(call("c2", idempotency_key="k"))
    promise(not again, "an idempotency key is entered once for a principal")
    other = await store.put_call(call("c3", idempotency_key="k", principal="bob"))
    promise(other, "an idempotency key belongs to its principal")
    kept = await store.get_call("c1")
    promise(kept == first, "a call comes back as it was", kept)
    promise(await store.get_call("c2") is None, "a call that was not entered is unknown")
    ids = [each.id for each in await store.calls(state="ready")]
    promise(ids == ["c1", "c3"], "calls can be listed by state", ids)
    promise(len(await store.calls(limit=1)) == 1, "no more are listed than the limit")


async def from_ready_to_end(store: Store) -> None:
    """Claim, renew, finish; with the newest fence only."""
    await store.put_call(call())
    fence = await store.claim_call("c1", lease_until=NOW + 30, now=NOW + 1)
    promise(fence == 1, "the first claim gives fence 1", fence)
    running = call(state="running", fence=1, attempt=1, lease_until=NOW + 30, updated=NOW + 1)
    kept = await store.get_call("c1")
    promise(kept == running, "a claimed call is running under its lease", kept)
    promise(
        await store.renew_call("c1", fence=1, lease_until=NOW + 60), "the claimant renews its lease"
    )
    promise(
        not await store.renew_call("c1", fence=2, lease_until=NOW + 90),
        "a lease is renewed with its own fence only",
    )
    finish: dict[str, Any] = {"state": "done", "result": b"{}", "now": NOW + 2}
    promise(not await store.finish_call("c1", fence=0, **finish), "an old fence finishes nothing")
    promise(await store.finish_call("c1", fence=1, **finish), "the claimant finishes its call")
    promise(not await store.finish_call("c1", fence=1, **finish), "a call is finished once")
    ended = replace(running, lease_until=None, state="done", result=b"{}", updated=NOW + 2)
    kept = await store.get_call("c1")
    promise(kept == ended, "a finished call has its result and no lease", kept)
    await _refused(
        store.finish_call("c1", fence=1, state="ready", result=None, now=NOW),
        "a call ends in an ending",
    )


async def steps_come_with_records(store: Store) -> None:
    """A block's steps are made in the transaction that keeps the block."""
    trail = Records()
    store.attach(trail)
    running = {"state": "running", "fence": 1, "attempt": 1, "lease_until": NOW + 30}
    trail.add(b"1", steps=(call("c1", **running), call("c2", **running)))
    store.poke(now=True)
    promise(await trail.arrived(), "a poke carries the waiting records")
    kept = await store.get_call("c1")
    promise(kept == call("c1", **running), "a call enters with the record of it", kept)
    await store.sweep_calls(NOW + 31)
    ends = Finish("c1", 1), Finish("c2", 1)
    trail.add(b"2", steps=(call("c3", **running), *ends, Finish("c3", 1), call("c4", **running)))
    store.poke(now=True)
    promise(await trail.arrived(), "a poke carries the waiting records")
    states = {each.id: each.state for each in await store.calls()}
    wanted = {"c1": "outcome_unknown", "c2": "outcome_unknown", "c4": "running"}
    promise(states == wanted, "what was written off stays; who ended is taken out", states)


async def claimed_by_one(store: Store) -> None:
    """A ready call belongs to the first who takes it."""
    await store.put_call(call())

    async def claim(_: int) -> int | None:
        return await store.claim_call("c1", lease_until=NOW + 30, now=NOW)

    fences = await in_threads(20, claim)
    taken = [fence for fence in fences if fence is not None]
    promise(taken == [1], "of concurrent claims one gets the call", taken)
    for state in ("requested", "awaiting_approval", "done"):
        await store.put_call(call(state, state=state))
        claimed = await store.claim_call(state, lease_until=NOW, now=NOW)
        promise(claimed is None, f"a call that is {state} cannot be claimed", claimed)
    claimed = await store.claim_call("other", lease_until=NOW, now=NOW)
    promise(claimed is None, "an unknown call cannot be claimed", claimed)


async def moves(store: Store) -> None:
    """A call changes state from where it is, along the ways there are."""
    await store.put_call(call(state="requested"))
    step: dict[str, Any] = {"old": "requested", "new": "awaiting_approval"}
    promise(await store.move_call("c1", **step, now=NOW + 1), "a call moves from where it is")
    promise(not await store.move_call("c1", **step, now=NOW + 2), "and from nowhere else")
    promise(not await store.move_call("x", **step, now=NOW + 2), "an unknown call does not move")
    kept = await store.get_call("c1")
    promise(kept == call(state="awaiting_approval", updated=NOW + 1), "a moved call says so", kept)
    for old, new in (("done", "ready"), ("ready", "running"), ("ready", "finished")):
        await _refused(
            store.move_call("c1", old=old, new=new, now=NOW), f"there is no way from {old} to {new}"
        )


async def swept(store: Store) -> None:
    """A runner that vanished leaves its calls to others, or to doubt."""
    cases: tuple[tuple[str, Delivery], ...] = (
        ("again", "idempotent"),
        ("once", "once"),
        ("alive", "once"),
    )
    for name, delivery in cases:
        await store.put_call(call(name, delivery=delivery))
        lease = NOW + (60 if name == "alive" else 10)
        await store.claim_call(name, lease_until=lease, now=NOW)
    promise(await store.sweep_calls(NOW + 10) == [], "a lease holds until its time is over")
    states = {each.id: each.state for each in await store.sweep_calls(NOW + 11)}
    wanted = {"again": "ready", "once": "outcome_unknown"}
    promise(states == wanted, "an idempotent call runs again, any other is unknown", states)
    promise(await store.sweep_calls(NOW + 11) == [], "a call is swept once")
    fence = await store.claim_call("again", lease_until=NOW + 30, now=NOW + 12)
    promise(fence == 2, "the fence grows with each claim", fence)
    late: dict[str, Any] = {"state": "done", "result": None, "now": NOW + 13}
    promise(
        not await store.finish_call("again", fence=1, **late),
        "a runner that comes back late finishes nothing",
    )
    promise(await store.finish_call("again", fence=2, **late), "the new runner does")


async def _refused(change: Any, words: str) -> None:
    try:
        await change
    except StoreError:
        return
    promise(False, f"{words}: StoreError")
