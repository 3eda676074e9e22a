"""Asking, waiting, merging, expiring, redeeming."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolcrib.approvals.inbox import Backlog
from toolcrib.core.approval import ApprovalRequest
from toolcrib.stores.memory import MemoryStore
from toolcrib.stores.sqlite import SqliteStore


async def test_a_call_waits_until_it_is_allowed_and_uses_the_answer_once(
    desk: Any, make_request: Any
) -> None:
    inbox = desk.inbox()
    request = make_request()
    waiting = asyncio.create_task(inbox.ask(request))
    [found] = await desk.pending(inbox)
    assert found == request
    answer = await inbox.decide(found.id, allow=True, note="fine", by="ana")
    final = await waiting
    assert final == answer
    assert (final.state, final.note, final.by, final.reach) == ("allowed", "fine", "ana", "once")
    assert await inbox.redeem(final, "c1")
    assert not await inbox.redeem(final, "c1")
    assert (await inbox.get(final.id)).state == "used"
    assert desk.types() == ["approval.requested", "approval.decided", "approval.used"]
    decided = desk.data("approval.decided")
    assert (decided["answer"], decided["by"], decided["via"]) == ("allow", "ana", "host")
    used = desk.data("approval.used")
    assert used == {"request": final.id, "by": "ana", "note": "fine"}
    assert await inbox.grants() == []


async def test_a_refusal_reaches_the_caller_with_its_note(desk: Any, make_request: Any) -> None:
    inbox = desk.inbox()
    waiting = asyncio.create_task(inbox.ask(make_request()))
    [found] = await desk.pending(inbox)
    desk.clock.now += 12.5
    await inbox.decide(found.id, allow=False, note="not on a Friday", by="ana")
    final = await waiting
    assert (final.state, final.note, final.reach) == ("denied", "not on a Friday", None)
    assert not await inbox.redeem(final, "c1")
    assert desk.data("approval.decided")["wait_s"] == 12.5


async def test_expiry_is_not_a_rejection(desk: Any, make_request: Any) -> None:
    inbox = desk.inbox()
    waiting = asyncio.create_task(inbox.ask(make_request()))
    [found] = await desk.pending(inbox)
    desk.clock.now += 300.0
    assert await inbox.list() == []
    final = await waiting
    assert (final.state, final.by) == ("expired", None)
    assert desk.data("approval.decided")["answer"] == "expired"
    with pytest.raises(ValueError, match="has expired"):
        await inbox.decide(found.id, allow=True)
    assert not await inbox.redeem(final, "c1")


async def test_a_request_expires_on_time_when_nobody_looks(desk: Any, make_request: Any) -> None:
    inbox = desk.inbox()
    request = make_request(expires=desk.clock.now + 0.02)
    asyncio.get_running_loop().call_later(0.03, lambda: setattr(desk.clock, "now", 2000.0))
    assert (await inbox.ask(request)).state == "expired"
    assert desk.types() == ["approval.requested", "approval.decided"]


async def test_leaving_cancels_neither_the_request_nor_the_approver(
    desk: Any, make_request: Any
) -> None:
    may_answer = asyncio.Event()

    class Slow:
        async def ask(self, request: ApprovalRequest) -> bool:
            await may_answer.wait()
            return True

    inbox = desk.inbox(Slow())
    request = make_request()
    waiting = asyncio.create_task(inbox.ask(request))
    await desk.pending(inbox)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await inbox.get(request.id)).state == "pending"
    may_answer.set()
    again = await inbox.ask(msgspec.structs.replace(request, id="r-again", call_id="c-again"))
    assert (again.id, again.state) == (request.id, "allowed")
    assert desk.types().count("approval.requested") == 1


async def test_leaving_at_once_still_announces_what_was_asked(desk: Any, make_request: Any) -> None:
    inbox = desk.inbox()
    waiting = asyncio.create_task(inbox.ask(make_request()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await desk.pending(inbox)
    await asyncio.sleep(0.01)
    assert desk.types() == ["approval.requested"]


async def test_equal_requests_are_one_question_with_one_use(desk: Any, make_request: Any) -> None:
    inbox = desk.inbox()
    asks = [asyncio.create_task(inbox.ask(make_request(key="same"))) for _ in range(30)]
    [found] = await desk.pending(inbox)
    await inbox.decide(found.id, allow=True)
    finals = await asyncio.gather(*asks)
    assert {final.id for final in finals} == {found.id}
    used = [await inbox.redeem(final, f"c{n}") for n, final in enumerate(finals)]
    assert used.count(True) == 1
    assert desk.types().count("approval.requested") == 1


async def test_a_hundred_redeemers_in_threads_and_tasks_get_one_use(
    desk: Any, make_request: Any
) -> None:
    inbox = desk.inbox()
    waiting = asyncio.create_task(inbox.ask(make_request()))
    [found] = await desk.pending(inbox)
    await inbox.decide(found.id, allow=True)
    final = await waiting
    won: list[bool] = []

    def from_a_thread() -> None:
        async def ten() -> list[bool]:
            return await asyncio.gather(*(inbox.redeem(final, f"t{n}") for n in range(10)))

        won.extend(asyncio.run(ten()))

    threads = [threading.Thread(target=from_a_thread) for _ in range(5)]
    for thread in threads:
        thread.start()
    won.extend(await asyncio.gather(*(inbox.redeem(final, f"l{n}") for n in range(50))))
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert len(won) == 100
    assert won.count(True) == 1


async def test_a_foreign_key_redeems_nothing(desk: Any, make_request: Any) -> None:
    inbox = desk.inbox()
    waiting = asyncio.create_task(inbox.ask(make_request()))
    [found] = await desk.pending(inbox)
    await inbox.decide(found.id, allow=True)
    final = await waiting
    for part in ("key", "id"):
        assert not await inbox.redeem(msgspec.structs.replace(final, **{part: "other"}), "c1")
    desk.clock.now += 301
    assert not await inbox.redeem(final, "c1")


class SlowStore(MemoryStore):
    """Lets others in between every look and every write, as a store on disk does."""

    async def put_request(self, request: ApprovalRequest) -> ApprovalRequest:
        await asyncio.sleep(0)
        kept = await super().put_request(request)
        await asyncio.sleep(0)
        return kept

    async def requests(self, **wanted: Any) -> list[ApprovalRequest]:
        found = await super().requests(**wanted)
        await asyncio.sleep(0)
        return found


async def test_a_thousand_requests_leave_no_more_than_the_cap_waiting(
    desk: Any, make_request: Any
) -> None:
    store = SlowStore(clock=desk.clock)
    await store.open()
    inbox = desk.inbox(store=store)
    asks = [asyncio.create_task(inbox.ask(make_request(), max_pending=20)) for _ in range(1000)]
    done, waiting = await asyncio.wait(asks, timeout=0.1)
    for _ in range(50):
        if len(waiting) > 20:
            done, waiting = await asyncio.wait(asks, timeout=0.1)
    assert len(await inbox.list()) == len(waiting) == 20
    errors = [task.exception() for task in done]
    assert all(isinstance(error, Backlog) for error in errors)
    assert isinstance(errors[0], Backlog)
    assert errors[0].reason == "approval_backlog"
    other = asyncio.create_task(inbox.ask(make_request(principal="somebody else")))
    assert len(await desk.pending(inbox, 21)) == 21
    for task in (*waiting, other):
        task.cancel()
    await asyncio.gather(*waiting, other, return_exceptions=True)
    await inbox.close()
    await store.close()


async def test_a_full_inbox_still_merges_gives_out_answers_and_empties(
    desk: Any, make_request: Any
) -> None:
    inbox = desk.inbox()
    first, second = make_request(key="a"), make_request(key="b")
    waits = [asyncio.create_task(inbox.ask(r, max_pending=2)) for r in (first, second)]
    await desk.pending(inbox, 2)
    twin = asyncio.create_task(inbox.ask(make_request(key="a"), max_pending=2))
    await asyncio.sleep(0.01)
    assert not twin.done()
    with pytest.raises(Backlog, match="2 approvals of 'claude-code' wait already"):
        await inbox.ask(make_request(key="c"), max_pending=2)
    await inbox.decide(first.id, allow=True)
    assert (await twin).state == "allowed"
    third = asyncio.create_task(inbox.ask(make_request(key="c"), max_pending=2))
    await desk.pending(inbox, 2)
    # `a` was allowed and not used yet: asking again finds it although two others wait.
    assert (await inbox.ask(make_request(key="a"), max_pending=2)).state == "allowed"
    await inbox.decide_many([r.id for r in await inbox.list()], allow=False)
    assert {task.state for task in await asyncio.gather(*waits, third)} == {"allowed", "denied"}


async def test_callers_in_other_loops_are_woken(
    desk: Any, make_request: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.approvals.waiting.TICK", 60.0)
    inbox = desk.inbox()
    request = make_request()
    finals: list[ApprovalRequest] = []
    thread = threading.Thread(target=lambda: finals.append(asyncio.run(inbox.ask(request))))
    thread.start()
    [found] = await desk.pending(inbox)
    await inbox.decide(found.id, allow=True)
    await asyncio.to_thread(thread.join, 10)
    assert [final.state for final in finals] == ["allowed"]


async def test_an_answer_given_through_another_store_object_arrives(
    desk: Any, make_request: Any, tmp_path: Path
) -> None:
    here, there = SqliteStore(tmp_path / "t.db"), SqliteStore(tmp_path / "t.db")
    await here.open()
    await there.open()
    inbox, other = desk.inbox(store=here), desk.inbox(store=there)
    waiting = asyncio.create_task(inbox.ask(make_request()))
    [found] = await desk.pending(other)
    await other.decide(found.id, allow=True, reach="session", by="cli", via="cli")
    final = await asyncio.wait_for(waiting, 10)
    assert (final.state, final.by) == ("allowed", "cli")
    [grant] = await inbox.grants()
    assert grant.reach == "session"
    await inbox.close()
    await other.close()
    await here.close()
    await there.close()


async def test_what_is_pending_outlives_the_process_and_is_asked_again(
    desk: Any, make_request: Any, tmp_path: Path
) -> None:
    first = SqliteStore(tmp_path / "t.db")
    await first.open()
    inbox = desk.inbox(store=first)
    request = make_request()
    waiting = asyncio.create_task(inbox.ask(request))
    await desk.pending(inbox)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await inbox.close()
    await first.close()

    asked: list[str] = []

    class Notes:
        async def ask(self, request: ApprovalRequest) -> bool:
            asked.append(request.id)
            return True

    second = SqliteStore(tmp_path / "t.db")
    await second.open()
    reopened = desk.inbox(Notes(), store=second)
    [kept] = await reopened.list()
    assert kept == request
    final = await reopened.ask(msgspec.structs.replace(request, id="new", call_id="new"))
    assert (final.id, final.state) == (request.id, "allowed")
    assert asked == [request.id]
    assert desk.types().count("approval.requested") == 1
    await reopened.close()
    await second.close()


async def test_a_store_that_fails_refuses_and_keeps_no_place(desk: Any, make_request: Any) -> None:
    from toolcrib.errors import StoreError

    class Broken(MemoryStore):
        broken = True

        async def put_request(self, request: ApprovalRequest) -> ApprovalRequest:
            if self.broken:
                raise StoreError("the disk is full")
            return await super().put_request(request)

    store = Broken()
    await store.open()
    inbox = desk.inbox(store=store)
    for _ in range(3):
        with pytest.raises(StoreError, match="disk is full"):
            await inbox.ask(make_request(), max_pending=1)
    assert desk.types() == []
    store.broken = False
    waiting = asyncio.create_task(inbox.ask(make_request(), max_pending=1))
    [found] = await desk.pending(inbox)
    await inbox.decide(found.id, allow=False)
    assert (await waiting).state == "denied"
    await inbox.close()
    await store.close()
