"""What a store promises."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from toolcrib.core.chain import verify_run
from toolcrib.core.protocols import Store
from toolcrib.errors import StoreError
from toolcrib.testing.clock import FakeClock
from toolcrib.testing.contracts import store_approvals, store_ledger
from toolcrib.testing.contracts.material import (
    KEY,
    NOW,
    Records,
    call,
    grant,
    in_threads,
    request,
    session,
)
from toolcrib.testing.contracts.promise import is_text, promise, undefined

_USES: dict[str, Callable[[Store], Awaitable[Any]]] = {
    "blocks": lambda store: store.blocks(),
    "runs": lambda store: store.runs(),
    "put_request": lambda store: store.put_request(request()),
    "get_request": lambda store: store.get_request("r1"),
    "requests": lambda store: store.requests(),
    "put_grant": lambda store: store.put_grant(grant()),
    "grants": lambda store: store.grants(),
    "put_session": lambda store: store.put_session(session()),
    "sessions": lambda store: store.sessions(),
    "put_call": lambda store: store.put_call(call()),
    "get_call": lambda store: store.get_call("c1"),
    "calls": lambda store: store.calls(),
    "sweep_calls": lambda store: store.sweep_calls(NOW),
    "wait": lambda store: store.wait(timeout=0),
}


class StoreContract:
    """Inherit, and say how to make the store.

    Each test gets a suite of its own and so a place of its own: use `tmp_path` or the like in a
    fixture. Within one test, `make` always means the same place.
    """

    def make(self, clock: FakeClock) -> Store:
        """A store that is not open yet and tells the time by `clock`."""
        undefined(self, "make")

    async def _holds(self, check: Callable[[Store], Awaitable[None]]) -> None:
        store = self._new()
        await store.open()
        try:
            await check(store)
        finally:
            await store.close()

    def _new(self) -> Store:
        return self.make(FakeClock(NOW))

    # Life

    async def test_it_says_what_it_is(self) -> None:
        store = self._new()
        durable: Any = store.durable
        promise(is_text(store.name), "a store has a name", store.name)
        promise(durable is True or durable is False, "a store says whether it is durable", durable)

    async def test_open_and_close_may_be_repeated(self) -> None:
        store = self._new()
        await store.open()
        await asyncio.gather(store.open(), store.open())
        promise(await store.put_call(call()), "a store opened twice takes a call")
        await asyncio.gather(store.close(), store.close())
        await store.close()

    async def test_what_was_kept_is_there_after_opening_again(self) -> None:
        store = self._new()
        await store.open()
        await store.put_call(call())
        await store.put_request(request())
        await store.close()
        if store.durable:
            store = self._new()
        await store.open()
        kept = await store.get_call("c1"), await store.get_request("r1")
        await store.close()
        promise(kept == (call(), request()), "what was kept is there after opening again", kept)

    async def test_a_closed_store_says_so(self) -> None:
        store = self._new()
        await store.open()
        await store.close()
        for name, use in _USES.items():
            try:
                given = await use(store)
            except StoreError:
                continue
            promise(False, f"{name} of a closed store raises StoreError", given)

    async def test_poking_is_harmless_at_any_time(self) -> None:
        store = self._new()
        store.poke(now=True)
        await store.open()
        store.poke(now=False)
        await store.close()
        store.poke(now=True)
        store.poke(now=False)
        await store.close()

    # The trail

    async def test_a_poke_carries_the_records(self) -> None:
        async def check(store: Store) -> None:
            trail = Records()
            store.attach(trail)
            for lines in ((b"1", b"2"), (b"3",)):
                trail.add(*lines)
                store.poke(now=True)
                promise(await trail.arrived(), "a poke carries the waiting records")
            kept = [block for _, block in await store.blocks()]
            lines = [line for block in kept for line in block.lines.split(b"\n")]
            promise(lines == [b"1", b"2", b"3"], "records are kept as they are", lines)
            promise(verify_run("run-1", kept, KEY).ok, "the chain of what is kept verifies")

        await self._holds(check)

    async def test_every_change_carries_the_records(self) -> None:
        async def check(store: Store) -> None:
            trail = Records()
            store.attach(trail)
            trail.add(b"1")
            await store.put_call(call())
            promise(
                trail.written.is_set(),
                "a change and the record of it are kept in one transaction",
            )
            promise(await store.runs() == ["run-1"], "the runs are known", await store.runs())

        await self._holds(check)

    async def test_closing_carries_the_records(self) -> None:
        store, trail = self._new(), Records()
        store.attach(trail)
        await store.open()
        trail.add(b"1", b"2")
        await store.close()
        promise(trail.written.is_set(), "closing carries the waiting records")

    async def test_blocks_are_read_in_pages_and_by_run(self) -> None:
        async def check(store: Store) -> None:
            trails = Records("one"), Records("two")
            for number in range(3):
                for trail in trails:
                    store.attach(trail)
                    trail.add(b"%d" % number)
                    store.poke(now=True)
                    promise(await trail.arrived(), "a poke carries the waiting records")
            everything = await store.blocks()
            places = [place for place, _ in everything]
            runs = [block.run for _, block in everything]
            promise(runs == ["one", "two"] * 3, "blocks come in writing order", runs)
            promise(places == sorted(set(places)), "positions grow", places)
            page = await store.blocks(after=places[1], limit=3)
            promise(page == everything[2:5], "a page begins behind `after` and holds `limit`")
            mine = await store.blocks(run="two", after=places[1])
            promise(mine == everything[3::2], "a run's blocks can be read alone")
            promise(await store.blocks(after=places[-1]) == [], "behind the last block is nothing")
            promise(await store.runs() == ["one", "two"], "runs come oldest first")

        await self._holds(check)

    async def test_no_record_is_lost_between_threads(self) -> None:
        async def check(store: Store) -> None:
            trail = Records()
            store.attach(trail)

            def write() -> None:
                for _ in range(100):
                    trail.add(b"x")
                    store.poke(now=True)

            threads = [threading.Thread(target=write) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                await asyncio.to_thread(thread.join)
            promise(await trail.arrived(), "no poke is lost between threads")
            kept = [block for _, block in await store.blocks(limit=1000)]
            found = verify_run("run-1", kept, KEY)
            promise(found.ok and found.records == 400, "no record is lost or doubled", found)

        await self._holds(check)

    # Sessions

    async def test_sessions_are_kept_until_they_end(self) -> None:
        async def check(store: Store) -> None:
            later = session("s2", created=NOW + 1)
            for each in (later, session("s1"), session("s1", profile="reviewer")):
                await store.put_session(each)
            kept = await store.sessions()
            wanted = [session("s1", profile="reviewer"), later]
            promise(kept == wanted, "open sessions come oldest first, each as put last", kept)
            promise(await store.end_session("s1", NOW + 5), "a session can be ended")
            promise(not await store.end_session("s1", NOW + 6), "a session ends once")
            promise(not await store.end_session("other", NOW), "an unknown session cannot end")
            promise(await store.sessions() == [later], "an ended session is not open")
            ended = (await store.sessions(open_only=False))[0]
            promise(ended.ended == NOW + 5, "an ended session says when it ended", ended)

        await self._holds(check)

    # Approvals and grants

    async def test_a_request_comes_back_as_it_was(self) -> None:
        await self._holds(store_approvals.comes_back_as_it_was)

    async def test_open_requests_with_one_key_become_one(self) -> None:
        await self._holds(store_approvals.become_one)

    async def test_a_settled_request_makes_room(self) -> None:
        await self._holds(store_approvals.make_room)

    async def test_requests_are_listed_by_expiry(self) -> None:
        await self._holds(store_approvals.listed_by_expiry)

    async def test_one_answer_counts(self) -> None:
        await self._holds(store_approvals.one_answer_counts)

    async def test_an_answer_that_does_not_fit_changes_nothing(self) -> None:
        await self._holds(store_approvals.unfit_answers)

    async def test_an_allowed_request_is_used_once(self) -> None:
        await self._holds(store_approvals.used_once)

    async def test_many_redeemers_use_a_request_once(self) -> None:
        await self._holds(store_approvals.redeemed_once)

    async def test_a_pending_request_expires(self) -> None:
        await self._holds(store_approvals.expires)

    async def test_grants_live_until_revoked_or_over(self) -> None:
        await self._holds(store_approvals.live_grants)

    # The ledger

    async def test_a_call_is_entered_once(self) -> None:
        await self._holds(store_ledger.entered_once)

    async def test_a_call_goes_from_ready_to_its_end(self) -> None:
        await self._holds(store_ledger.from_ready_to_end)

    async def test_steps_come_with_their_records(self) -> None:
        await self._holds(store_ledger.steps_come_with_records)

    async def test_a_call_is_claimed_by_one(self) -> None:
        await self._holds(store_ledger.claimed_by_one)

    async def test_a_call_moves_only_from_where_it_is(self) -> None:
        await self._holds(store_ledger.moves)

    async def test_calls_of_vanished_runners_go_where_their_delivery_says(self) -> None:
        await self._holds(store_ledger.swept)

    # Waiting

    async def test_waiting_ends_with_a_change_or_in_time(self) -> None:
        async def check(store: Store) -> None:
            promise(await store.wait(timeout=0.01) is False, "a wait without a change gives False")
            waiting = [asyncio.ensure_future(_wait(store)) for _ in range(3)]
            await asyncio.sleep(0)
            await store.put_request(request())
            woken = await asyncio.gather(*waiting)
            promise(woken == [True] * 3, "a change wakes everybody who waits", woken)

        await self._holds(check)

    async def test_a_change_wakes_other_threads(self) -> None:
        async def check(store: Store) -> None:
            ready = threading.Barrier(2)

            async def read_then_wait(_: int) -> bool:
                await store.calls()
                ready.wait()
                return await _wait(store)

            waiting = asyncio.create_task(in_threads(1, read_then_wait))
            await asyncio.to_thread(ready.wait)
            await store.put_call(call())
            promise(await waiting == [True], "a change wakes who waits in another thread")

        await self._holds(check)

    async def test_a_cancelled_caller_leaves_the_store_usable(self) -> None:
        async def check(store: Store) -> None:
            waiting = asyncio.ensure_future(_wait(store))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            promise(await store.put_call(call()), "a cancelled caller leaves the store usable")

        await self._holds(check)


async def _wait(store: Store) -> bool:
    return await store.wait(timeout=5)
