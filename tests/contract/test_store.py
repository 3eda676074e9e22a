"""What every store does, run on each of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolcrib.core.approval import ApprovalRequest, Grant
from toolcrib.core.chain import START, Block, seal, verify_run
from toolcrib.core.ledger import LedgerCall, SessionRow
from toolcrib.core.protocols import Store
from toolcrib.errors import StoreError
from toolcrib.stores.memory import MemoryStore
from toolcrib.stores.sqlite import SqliteStore

KEY = b"k" * 32
NOW = 1000.0

replace = msgspec.structs.replace


class Records:
    """A trail of numbered lines."""

    def __init__(self, run: str = "run-1") -> None:
        self.run = run
        self.written = threading.Event()
        self._lock = threading.Lock()
        self._waiting: list[bytes] = []
        self._head, self._count = START, 0

    def add(self, *lines: bytes) -> None:
        with self._lock:
            self._waiting.extend(lines)
            self.written.clear()

    def take(self) -> Block | None:
        with self._lock:
            if not self._waiting:
                return None
            return seal(self.run, self._count + 1, self._waiting, self._head, KEY, NOW)

    def done(self, block: Block) -> None:
        with self._lock:
            del self._waiting[: block.count]
            self._head, self._count = block.head, block.last
            if not self._waiting:
                self.written.set()

    def failed(self, block: Block, error: BaseException) -> None:
        raise AssertionError(f"{block.first}: {error}")


def request(id: str = "r1", **changes: Any) -> ApprovalRequest:
    made = ApprovalRequest(
        id=id,
        call_id="c1",
        key="key-1",
        tool="deploy",
        digest="d1",
        arguments={"env": "staging", "n": [1, 2.5, None]},
        effects=("write", "egress"),
        principal="ann",
        session="s1",
        profile="reviewer",
        door="process",
        revision="v1",
        gate="profile",
        message="May it?",
        rule="ask",
        source="toolcrib.yaml:3",
        offered=("once", "session"),
        via=("cli",),
        edit=False,
        created=NOW,
        expires=NOW + 300,
    )
    return replace(made, **changes)


def allowed(asked: ApprovalRequest, **changes: Any) -> ApprovalRequest:
    answer: dict[str, Any] = {"state": "allowed", "by": "bob", "decided": NOW + 10}
    return replace(asked, **(answer | changes))


def grant(id: str = "g1", **changes: Any) -> Grant:
    made = Grant(
        id=id,
        tool="deploy",
        digest="d1",
        principal="ann",
        session="s1",
        revision="v1",
        reach="session",
        by="bob",
        created=NOW,
        expires=None,
        request="r1",
    )
    return replace(made, **changes)


def call(id: str = "c1", **changes: Any) -> LedgerCall:
    made = LedgerCall(
        id=id,
        tool="deploy",
        principal="ann",
        session="s1",
        state="ready",
        delivery="once",
        created=NOW,
        updated=NOW,
    )
    return replace(made, **changes)


def session(id: str = "s1", **changes: Any) -> SessionRow:
    made = SessionRow(
        id=id, principal="ann", profile=None, cwd="/", metadata={"a": [1]}, created=NOW
    )
    return replace(made, **changes)


def memory(_: Path) -> Store:
    return MemoryStore(clock=lambda: NOW)


def sqlite(folder: Path) -> Store:
    return SqliteStore(folder / "data" / "store.db", clock=lambda: NOW)


@pytest.fixture(params=[memory, sqlite])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    return lambda: request.param(tmp_path)


@pytest.fixture
async def store(make: Callable[[], Store]) -> AsyncIterator[Store]:
    made = make()
    await made.open()
    yield made
    await made.close()


async def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """The outcomes of `work`, done in as many threads, each with a loop of its own."""
    start = threading.Barrier(count)
    outcomes: list[Any] = [None] * count

    def main(index: int) -> None:
        start.wait()
        outcomes[index] = asyncio.run(work(index))

    threads = [threading.Thread(target=main, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    return outcomes


# Life


async def test_open_and_close_may_be_repeated(make: Callable[[], Store]) -> None:
    store = make()
    await store.open()
    await asyncio.gather(store.open(), store.open())
    await store.put_call(call())
    await asyncio.gather(store.close(), store.close())
    await store.close()


async def test_what_was_kept_is_there_after_opening_again(make: Callable[[], Store]) -> None:
    store = make()
    await store.open()
    await store.put_call(call())
    await store.close()
    await store.open()
    assert await store.get_call("c1") == call()
    await store.close()


USES: dict[str, Callable[[Store], Any]] = {
    "blocks": lambda store: store.blocks(),
    "runs": lambda store: store.runs(),
    "put_request": lambda store: store.put_request(request()),
    "get_request": lambda store: store.get_request("r1"),
    "requests": lambda store: store.requests(),
    "answer_request": lambda store: store.answer_request(allowed(request())),
    "redeem_request": lambda s: s.redeem_request("r1", key="k", call_id="c", now=NOW),
    "expire_request": lambda store: store.expire_request("r1", NOW),
    "put_grant": lambda store: store.put_grant(grant()),
    "grants": lambda store: store.grants(),
    "revoke_grant": lambda store: store.revoke_grant("g1", NOW),
    "put_session": lambda store: store.put_session(session()),
    "end_session": lambda store: store.end_session("s1", NOW),
    "sessions": lambda store: store.sessions(),
    "put_call": lambda store: store.put_call(call()),
    "get_call": lambda store: store.get_call("c1"),
    "calls": lambda store: store.calls(),
    "claim_call": lambda store: store.claim_call("c1", lease_until=NOW, now=NOW),
    "renew_call": lambda store: store.renew_call("c1", fence=1, lease_until=NOW),
    "finish_call": lambda s: s.finish_call("c1", fence=1, state="done", result=None, now=NOW),
    "move_call": lambda store: store.move_call("c1", old="ready", new="cancelled", now=NOW),
    "sweep_calls": lambda store: store.sweep_calls(NOW),
    "wait": lambda store: store.wait(timeout=0),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
async def test_a_closed_store_says_so(make: Callable[[], Store], use: Callable[..., Any]) -> None:
    store = make()
    await store.open()
    await store.close()
    with pytest.raises(StoreError, match="open"):
        await use(store)


async def test_poking_is_harmless_at_any_time(make: Callable[[], Store]) -> None:
    store = make()
    store.poke(now=True)
    store.poke(now=False)
    await store.open()
    await store.close()
    store.poke(now=True)
    store.poke(now=False)


# The trail


async def test_a_poke_carries_the_records(store: Store) -> None:
    trail = Records()
    store.attach(trail)
    trail.add(b"1", b"2")
    store.poke(now=True)
    assert await asyncio.to_thread(trail.written.wait, 5)
    trail.add(b"3")
    store.poke(now=True)
    assert await asyncio.to_thread(trail.written.wait, 5)
    kept = await store.blocks()
    assert [(block.first, block.lines) for _, block in kept] == [(1, b"1\n2"), (3, b"3")]
    assert verify_run("run-1", [block for _, block in kept], KEY).ok


async def test_every_change_carries_the_records(store: Store) -> None:
    trail = Records()
    store.attach(trail)
    trail.add(b"1")
    await store.put_call(call())
    assert trail.written.is_set()
    assert await store.runs() == ["run-1"]


async def test_records_from_before_the_opening_are_carried(make: Callable[[], Store]) -> None:
    store, trail = make(), Records()
    store.attach(trail)
    trail.add(b"1")
    store.poke(now=False)
    await store.open()
    assert await asyncio.to_thread(trail.written.wait, 5)
    await store.close()


async def test_closing_carries_the_records(make: Callable[[], Store]) -> None:
    store, trail = make(), Records()
    store.attach(trail)
    await store.open()
    trail.add(b"1", b"2")
    await store.close()
    assert trail.written.is_set()
    await store.open()
    assert [block.lines for _, block in await store.blocks()] == [b"1\n2"]
    await store.close()


async def test_blocks_are_read_in_pages_and_by_run(store: Store) -> None:
    one, two = Records("one"), Records("two")
    for number in range(3):
        for trail in (one, two):
            store.attach(trail)
            trail.add(b"%d" % number)
            store.poke(now=True)
            assert await asyncio.to_thread(trail.written.wait, 5)
    everything = await store.blocks()
    assert [block.run for _, block in everything] == ["one", "two"] * 3
    positions = [position for position, _ in everything]
    assert positions == sorted(set(positions))
    assert await store.blocks(after=positions[1], limit=3) == everything[2:5]
    assert await store.blocks(run="two", after=positions[1]) == everything[3::2]
    assert await store.blocks(run="two", limit=2) == everything[1:4:2]
    assert await store.blocks(after=positions[-1]) == []
    assert await store.runs() == ["one", "two"]


async def test_no_poke_is_lost_between_threads(store: Store) -> None:
    trail = Records()
    store.attach(trail)

    def write() -> None:
        for _ in range(200):
            trail.add(b"x")
            store.poke(now=True)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert await asyncio.to_thread(trail.written.wait, 5)
    kept = [block for _, block in await store.blocks(limit=1000)]
    assert verify_run("run-1", kept, KEY).records == 800


# Approvals


async def test_a_request_comes_back_as_it_was(store: Store) -> None:
    assert await store.put_request(request()) == request()
    assert await store.get_request("r1") == request()
    assert await store.get_request("other") is None


async def test_an_open_request_with_the_same_key_is_given_instead(store: Store) -> None:
    await store.put_request(request("r1"))
    assert (await store.put_request(request("r2"))).id == "r1"
    assert await store.answer_request(allowed(request("r1")))
    assert await store.put_request(request("r3")) == allowed(request("r1"))
    assert (await store.put_request(request("r4", key="other"))).id == "r4"
    assert await store.get_request("r2") is None


@pytest.mark.parametrize("state", ["denied", "withdrawn"])
async def test_a_refused_request_makes_room_for_a_new_one(store: Store, state: str) -> None:
    await store.put_request(request("r1"))
    assert await store.answer_request(allowed(request("r1"), state=state))
    assert (await store.put_request(request("r2"))).id == "r2"


@pytest.mark.parametrize("answered", [False, True])
async def test_an_expired_request_makes_room_for_a_new_one(store: Store, answered: bool) -> None:
    await store.put_request(request("r1"))
    if answered:
        assert await store.answer_request(allowed(request("r1")))
    late = request("r2", created=NOW + 300, expires=NOW + 600)
    assert await store.put_request(late) == late
    old = await store.get_request("r1")
    assert old is not None
    assert (old.state, old.decided) == ("expired", NOW + 300)


async def test_an_id_is_not_used_twice(store: Store) -> None:
    await store.put_request(request("r1"))
    with pytest.raises(StoreError, match="id"):
        await store.put_request(request("r1", key="other"))
    assert await store.get_request("r1") == request("r1")


async def test_concurrent_requests_with_one_key_become_one(store: Store) -> None:
    kept = await asyncio.gather(*(store.put_request(request(f"r{n}")) for n in range(20)))
    assert len({one.id for one in kept}) == 1
    assert len(await store.requests()) == 1


async def test_requests_are_listed_by_expiry(store: Store) -> None:
    for name, expires in (("a", 30), ("b", 10), ("c", 20)):
        await store.put_request(request(name, key=name, expires=NOW + expires))
    assert await store.answer_request(
        allowed(request("c", key="c", expires=NOW + 20), state="denied")
    )
    assert [one.id for one in await store.requests()] == ["b", "c", "a"]
    assert [one.id for one in await store.requests(state="pending")] == ["b", "a"]
    assert [one.id for one in await store.requests(state="denied")] == ["c"]
    assert [one.id for one in await store.requests(limit=1)] == ["b"]


async def test_an_answer_counts_once_and_keeps_its_grant(store: Store) -> None:
    await store.put_request(request())
    answer = allowed(request(), reach="session", note="fine", edited={"env": "test"})
    assert await store.answer_request(answer, grant=grant())
    assert not await store.answer_request(allowed(request(), state="denied"), grant=grant("g2"))
    assert await store.get_request("r1") == answer
    assert await store.grants() == [grant()]


async def test_concurrent_answers_count_once(store: Store) -> None:
    await store.put_request(request())
    answers = [
        allowed(request(), state="denied" if n % 2 else "allowed", by=str(n)) for n in range(20)
    ]
    outcomes = await asyncio.gather(*(store.answer_request(answer) for answer in answers))
    assert outcomes.count(True) == 1
    assert await store.get_request("r1") == answers[outcomes.index(True)]


async def test_an_answer_that_comes_too_late_does_not_count(store: Store) -> None:
    await store.put_request(request())
    assert not await store.answer_request(allowed(request(), decided=NOW + 300), grant=grant())
    assert await store.get_request("r1") == request()
    assert await store.grants() == []


async def test_an_answer_to_something_else_does_not_count(store: Store) -> None:
    await store.put_request(request())
    assert not await store.answer_request(allowed(request(), key="other"))
    assert not await store.answer_request(allowed(request("r2")))
    assert await store.get_request("r1") == request()


async def test_an_answer_whose_grant_cannot_be_kept_does_not_count(store: Store) -> None:
    await store.put_grant(grant())
    await store.put_request(request())
    with pytest.raises(StoreError, match="g1"):
        await store.answer_request(allowed(request()), grant=grant())
    assert await store.get_request("r1") == request()


@pytest.mark.parametrize("wrong", [{"state": "pending"}, {"state": "used"}, {"decided": None}])
async def test_what_is_no_answer_is_refused(store: Store, wrong: dict[str, Any]) -> None:
    await store.put_request(request())
    with pytest.raises(StoreError, match="decided"):
        await store.answer_request(allowed(request(), **wrong))


async def test_an_allowed_request_is_used_once(store: Store) -> None:
    await store.put_request(request())
    assert not await store.redeem_request("r1", key="key-1", call_id="c1", now=NOW)
    assert await store.answer_request(allowed(request()))
    assert not await store.redeem_request("r1", key="other", call_id="c1", now=NOW)
    assert not await store.redeem_request("r2", key="key-1", call_id="c1", now=NOW)
    assert not await store.redeem_request("r1", key="key-1", call_id="c1", now=NOW + 300)
    assert await store.redeem_request("r1", key="key-1", call_id="c1", now=NOW + 20)
    assert not await store.redeem_request("r1", key="key-1", call_id="c1", now=NOW + 20)
    assert await store.get_request("r1") == allowed(request(), state="used")
    assert (await store.put_request(request("r2"))).id == "r2"


async def test_a_hundred_tasks_redeem_a_request_once(store: Store) -> None:
    await store.put_request(request())
    assert await store.answer_request(allowed(request()))
    outcomes = await asyncio.gather(
        *(store.redeem_request("r1", key="key-1", call_id=f"c{n}", now=NOW) for n in range(100))
    )
    assert outcomes.count(True) == 1


async def test_a_hundred_threads_redeem_a_request_once(store: Store) -> None:
    await store.put_request(request())
    assert await store.answer_request(allowed(request()))
    outcomes = await in_threads(
        100, lambda n: store.redeem_request("r1", key="key-1", call_id=f"c{n}", now=NOW)
    )
    assert outcomes.count(True) == 1
    assert outcomes.count(False) == 99


async def test_a_pending_request_expires_when_its_time_is_over(store: Store) -> None:
    await store.put_request(request())
    assert not await store.expire_request("r1", NOW + 299)
    assert await store.expire_request("r1", NOW + 300)
    assert not await store.expire_request("r1", NOW + 301)
    assert not await store.expire_request("other", NOW + 300)
    assert await store.get_request("r1") == request(state="expired", decided=NOW + 300)
    assert not await store.answer_request(allowed(request()))


async def test_an_answered_request_does_not_expire(store: Store) -> None:
    await store.put_request(request())
    assert await store.answer_request(allowed(request(), state="denied"))
    assert not await store.expire_request("r1", NOW + 300)


# Grants


async def test_live_grants_are_neither_revoked_nor_expired(store: Store) -> None:
    everything = [
        grant("lasting", created=NOW - 4),
        grant("limited", created=NOW - 3, expires=NOW + 1),
        grant("over", created=NOW - 2, expires=NOW),
        grant("back", created=NOW - 1),
    ]
    for one in everything:
        await store.put_grant(one)
    assert await store.revoke_grant("back", NOW + 5)
    assert not await store.revoke_grant("back", NOW + 6)
    assert not await store.revoke_grant("other", NOW)
    assert await store.grants() == everything[:2]
    everything[3] = replace(everything[3], revoked=NOW + 5)
    assert await store.grants(live=False) == everything


async def test_a_revoked_grant_cannot_be_put_again(store: Store) -> None:
    await store.put_grant(grant())
    assert await store.revoke_grant("g1", NOW)
    with pytest.raises(StoreError, match="g1"):
        await store.put_grant(grant())
    assert await store.grants() == []


# Sessions


async def test_sessions_are_kept_until_they_end(store: Store) -> None:
    await store.put_session(session("s2", created=NOW + 1))
    await store.put_session(session("s1"))
    await store.put_session(session("s1", profile="reviewer"))
    assert await store.sessions() == [
        session("s1", profile="reviewer"),
        session("s2", created=NOW + 1),
    ]
    assert await store.end_session("s1", NOW + 5)
    assert not await store.end_session("s1", NOW + 6)
    assert not await store.end_session("other", NOW)
    assert [one.id for one in await store.sessions()] == ["s2"]
    ended = session("s1", profile="reviewer", ended=NOW + 5)
    assert (await store.sessions(open_only=False))[0] == ended


# The ledger


async def test_a_call_is_entered_once(store: Store) -> None:
    first = call("c1", idempotency_key="k", request="r1", result=b"\0\xff")
    assert await store.put_call(first)
    assert not await store.put_call(call("c1"))
    assert not await store.put_call(call("c2", idempotency_key="k"))
    assert await store.put_call(call("c3", idempotency_key="k", principal="bob"))
    assert await store.put_call(call("c4"))
    assert await store.get_call("c1") == first
    assert await store.get_call("c2") is None


async def test_calls_are_listed_by_state(store: Store) -> None:
    await store.put_call(call("c2", created=NOW + 1))
    await store.put_call(call("c1", state="requested"))
    assert [one.id for one in await store.calls()] == ["c1", "c2"]
    assert [one.id for one in await store.calls(state="ready")] == ["c2"]
    assert [one.id for one in await store.calls(limit=1)] == ["c1"]


async def test_a_call_goes_from_ready_to_its_end(store: Store) -> None:
    await store.put_call(call())
    fence = await store.claim_call("c1", lease_until=NOW + 30, now=NOW + 1)
    assert fence == 1
    running = call(state="running", fence=1, attempt=1, lease_until=NOW + 30, updated=NOW + 1)
    assert await store.get_call("c1") == running
    assert await store.renew_call("c1", fence=1, lease_until=NOW + 60)
    assert not await store.renew_call("c1", fence=2, lease_until=NOW + 90)
    assert await store.get_call("c1") == replace(running, lease_until=NOW + 60)
    finish = {"state": "done", "result": b"{}", "now": NOW + 2}
    assert not await store.finish_call("c1", fence=0, **finish)
    assert await store.finish_call("c1", fence=1, **finish)
    assert not await store.finish_call("c1", fence=1, **finish)
    assert not await store.renew_call("c1", fence=1, lease_until=NOW + 90)
    assert await store.get_call("c1") == replace(
        running, lease_until=None, state="done", result=b"{}", updated=NOW + 2
    )


@pytest.mark.parametrize("state", ["requested", "awaiting_approval", "running", "done"])
async def test_only_a_ready_call_can_be_claimed(store: Store, state: Any) -> None:
    await store.put_call(call(state=state))
    assert await store.claim_call("c1", lease_until=NOW, now=NOW) is None
    assert await store.claim_call("other", lease_until=NOW, now=NOW) is None
    assert await store.get_call("c1") == call(state=state)


async def test_concurrent_claims_give_the_call_to_one(store: Store) -> None:
    await store.put_call(call())
    fences = await in_threads(20, lambda _: store.claim_call("c1", lease_until=NOW + 30, now=NOW))
    assert sorted(fences, key=str) == [1] + [None] * 19


async def test_a_call_moves_only_from_where_it_is(store: Store) -> None:
    await store.put_call(call(state="requested"))
    assert await store.move_call("c1", old="requested", new="awaiting_approval", now=NOW + 1)
    assert not await store.move_call("c1", old="requested", new="ready", now=NOW + 2)
    assert not await store.move_call("other", old="requested", new="ready", now=NOW + 2)
    assert await store.get_call("c1") == call(state="awaiting_approval", updated=NOW + 1)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("done", "ready", "has ended"),
        ("ready", "running", "claim_call"),
        ("ready", "finished", "'finished' is no state"),
        ("waiting", "ready", "'waiting' is no state"),
    ],
)
async def test_a_step_that_does_not_exist_is_refused(
    store: Store, old: str, new: str, words: str
) -> None:
    with pytest.raises(StoreError, match=words):
        await store.move_call("c1", old=old, new=new, now=NOW)


async def test_a_call_ends_in_an_ending(store: Store) -> None:
    with pytest.raises(StoreError, match="'ready' does not end a call"):
        await store.finish_call("c1", fence=1, state="ready", result=None, now=NOW)


async def test_calls_whose_runner_vanished_go_where_their_delivery_says(store: Store) -> None:
    for name, delivery in (("again", "idempotent"), ("once", "once"), ("alive", "once")):
        await store.put_call(call(name, delivery=delivery))
        lease = NOW + (60 if name == "alive" else 10)
        assert await store.claim_call(name, lease_until=lease, now=NOW) == 1
    assert await store.sweep_calls(NOW + 10) == []
    swept = {one.id: one for one in await store.sweep_calls(NOW + 11)}
    assert {name: one.state for name, one in swept.items()} == {
        "again": "ready",
        "once": "outcome_unknown",
    }
    for name, one in swept.items():
        assert await store.get_call(name) == one
        assert (one.lease_until, one.updated) == (None, NOW + 11)
    assert await store.sweep_calls(NOW + 11) == []
    assert await store.claim_call("again", lease_until=NOW + 30, now=NOW + 12) == 2
    late = {"state": "done", "result": None, "now": NOW + 13}
    assert not await store.finish_call("again", fence=1, **late)
    assert not await store.finish_call("once", fence=1, **late)
    assert await store.finish_call("again", fence=2, **late)


# Waiting


async def test_waiting_ends_without_a_change(store: Store) -> None:
    assert await store.wait(timeout=0.01) is False


async def test_waiting_ends_with_a_change(store: Store) -> None:
    waiting = [asyncio.create_task(store.wait(timeout=10)) for _ in range(3)]
    await asyncio.sleep(0)
    await store.put_request(request())
    assert await asyncio.gather(*waiting) == [True] * 3


async def test_a_change_between_reading_and_waiting_is_not_missed(store: Store) -> None:
    async def read_then_wait(read: asyncio.Event, go: asyncio.Event) -> bool:
        await store.get_request("r1")
        read.set()
        await go.wait()
        return await store.wait(timeout=10)

    read, go = asyncio.Event(), asyncio.Event()
    waiting = asyncio.create_task(read_then_wait(read, go))
    await read.wait()
    await store.put_request(request())
    go.set()
    assert await waiting is True


async def test_a_change_wakes_other_threads(store: Store) -> None:
    ready = threading.Barrier(2)

    async def read_then_wait(_: int) -> bool:
        await store.calls()
        ready.wait()
        return await store.wait(timeout=10)

    waiting = asyncio.create_task(in_threads(1, read_then_wait))
    await asyncio.to_thread(ready.wait)
    await store.put_call(call())
    assert await waiting == [True]


async def test_closing_wakes_those_who_wait(make: Callable[[], Store]) -> None:
    store = make()
    await store.open()
    waiting = asyncio.create_task(store.wait(timeout=10))
    await asyncio.sleep(0)
    await store.close()
    assert await waiting is True


async def test_a_caller_that_is_cancelled_leaves_the_store_usable(store: Store) -> None:
    putting = asyncio.create_task(store.put_call(call("c1")))
    waiting = asyncio.create_task(store.wait(timeout=10))
    await asyncio.sleep(0)
    putting.cancel()
    waiting.cancel()
    await asyncio.gather(putting, waiting, return_exceptions=True)
    assert await store.put_call(call("c2"))
    assert await store.get_call("c2") == call("c2")
