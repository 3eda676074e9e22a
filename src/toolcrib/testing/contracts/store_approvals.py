"""What a store promises about requests and grants."""

from __future__ import annotations

import asyncio
from typing import Any

from toolcrib.core.protocols import Store
from toolcrib.errors import StoreError
from toolcrib.testing.contracts.material import NOW, answered, grant, in_threads, replace, request
from toolcrib.testing.contracts.promise import promise


async def comes_back_as_it_was(store: Store) -> None:
    """What is put can be got."""
    given = await store.put_request(request())
    promise(given == request(), "a new request is given back", given)
    kept = await store.get_request("r1")
    promise(kept == request(), "a request comes back as it was", kept)
    promise(await store.get_request("other") is None, "an unknown request is None")
    try:
        await store.put_request(request("r1", key="other"))
    except StoreError:
        return
    promise(False, "an id that is in use is refused with StoreError")


async def become_one(store: Store) -> None:
    """Equal questions that wait are one question."""
    kept = await asyncio.gather(*(store.put_request(request(f"r{n}")) for n in range(20)))
    ids = {each.id for each in kept}
    promise(len(ids) == 1, "concurrent requests with one key become one", ids)
    promise(len(await store.requests()) == 1, "only the one request is kept")
    asked = kept[0]
    answer = answered(asked)
    promise(await store.answer_request(answer), "a pending request can be answered")
    again = await store.put_request(request("again"))
    promise(again == answer, "an answered, unused request is given to an equal question", again)
    other = await store.put_request(request("other", key="key-2"))
    promise(other.id == "other", "another key is another request", other.id)


async def make_room(store: Store) -> None:
    """What is settled is not given again."""
    for number, state in enumerate(("denied", "withdrawn")):
        asked = request(f"r{number}", key=state)
        await store.put_request(asked)
        await store.answer_request(answered(asked, state=state))
        fresh = await store.put_request(request(f"new{number}", key=state))
        promise(fresh.id == f"new{number}", f"a {state} request makes room for a new one")
    await store.put_request(request("old", key="late"))
    late = request("late", key="late", created=NOW + 300, expires=NOW + 600)
    promise(await store.put_request(late) == late, "an expired request makes room for a new one")
    old = await store.get_request("old")
    promise(old is not None and old.state == "expired", "the one that made room is expired", old)


async def listed_by_expiry(store: Store) -> None:
    """Who has least time comes first."""
    for name, seconds in (("a", 30), ("b", 10), ("c", 20)):
        await store.put_request(request(name, key=name, expires=NOW + seconds))
    asked = request("c", key="c", expires=NOW + 20)
    await store.answer_request(answered(asked, state="denied"))
    ids = [each.id for each in await store.requests()]
    promise(ids == ["b", "c", "a"], "requests that expire first come first", ids)
    pending = [each.id for each in await store.requests(state="pending")]
    promise(pending == ["b", "a"], "requests can be listed by state", pending)
    promise(len(await store.requests(limit=1)) == 1, "no more are listed than the limit")


async def one_answer_counts(store: Store) -> None:
    """The first answer stands, and its grant with it."""
    await store.put_request(request())
    answers = [
        answered(request(), state="denied" if n % 2 else "allowed", by=str(n)) for n in range(20)
    ]
    outcomes = await asyncio.gather(
        *(store.answer_request(answer, grant=grant(f"g{n}")) for n, answer in enumerate(answers))
    )
    promise(outcomes.count(True) == 1, "of concurrent answers one counts", outcomes.count(True))
    first = outcomes.index(True)
    kept = await store.get_request("r1")
    promise(kept == answers[first], "the answer that counted is the one that is kept", kept)
    ids = [each.id for each in await store.grants()]
    promise(ids == [f"g{first}"], "an answer and its grant are kept together", ids)


async def unfit_answers(store: Store) -> None:
    """Answers that are late, strange or malformed."""
    await store.put_request(request())
    late = await store.answer_request(answered(request(), decided=NOW + 300), grant=grant())
    promise(late is False, "an answer after the expiry does not count")
    promise(await store.grants() == [], "an answer that does not count leaves no grant")
    strange = await store.answer_request(answered(request(), key="other"))
    promise(strange is False, "an answer to another question does not count")
    unknown = await store.answer_request(answered(request("r2")))
    promise(unknown is False, "an answer to no question does not count")
    wrong: tuple[dict[str, Any], ...] = ({"state": "pending"}, {"state": "used"}, {"decided": None})
    for changes in wrong:
        try:
            await store.answer_request(answered(request(), **changes))
        except StoreError:
            continue
        promise(False, "what is no answer is refused with StoreError", changes)
    promise(await store.get_request("r1") == request(), "unfit answers change nothing")


async def used_once(store: Store) -> None:
    """An answer is good for one call, the right one, in time."""

    async def redeem(id: str = "r1", key: str = "key-1", now: float = NOW) -> bool:
        return await store.redeem_request(id, key=key, call_id="c1", now=now)

    await store.put_request(request())
    promise(not await redeem(), "a pending request cannot be used")
    await store.answer_request(answered(request()))
    promise(not await redeem(key="other"), "a request cannot be used with another key")
    promise(not await redeem(id="r2"), "an unknown request cannot be used")
    promise(not await redeem(now=NOW + 300), "an expired request cannot be used")
    promise(await redeem(now=NOW + 20), "an allowed request can be used")
    promise(not await redeem(now=NOW + 20), "a used request cannot be used again")
    kept = await store.get_request("r1")
    promise(kept is not None and kept.state == "used", "a used request says so", kept)
    fresh = await store.put_request(request("r2"))
    promise(fresh.id == "r2", "a used request makes room for a new one", fresh.id)


async def redeemed_once(store: Store) -> None:
    """Whoever comes at the same time, from tasks or threads."""
    for name in ("r1", "r2"):
        asked = request(name, key=name)
        await store.put_request(asked)
        await store.answer_request(answered(asked))
    tasks = await asyncio.gather(
        *(store.redeem_request("r1", key="r1", call_id=f"c{n}", now=NOW) for n in range(100))
    )
    promise(tasks.count(True) == 1, "of a hundred tasks one uses a request", tasks.count(True))

    async def redeem(n: int) -> bool:
        return await store.redeem_request("r2", key="r2", call_id=f"c{n}", now=NOW)

    threads = await in_threads(20, redeem)
    promise(threads.count(True) == 1, "of many threads one uses a request", threads.count(True))


async def expires(store: Store) -> None:
    """Time ends a pending request, and only that."""
    await store.put_request(request())
    promise(not await store.expire_request("r1", NOW + 299), "no request expires before its time")
    promise(await store.expire_request("r1", NOW + 300), "a pending request expires in time")
    promise(not await store.expire_request("r1", NOW + 301), "a request expires once")
    promise(not await store.expire_request("other", NOW), "an unknown request does not expire")
    kept = await store.get_request("r1")
    wanted = request(state="expired", decided=NOW + 300)
    promise(kept == wanted, "an expired request says so, and when", kept)
    promise(not await store.answer_request(answered(request())), "too late is too late")
    asked = request("r2", key="other")
    await store.put_request(asked)
    await store.answer_request(answered(asked, state="denied"))
    promise(not await store.expire_request("r2", NOW + 300), "an answered request does not expire")


async def live_grants(store: Store) -> None:
    """A grant lives until it is revoked or its time is over."""
    everything = [
        grant("lasting", created=NOW - 4),
        grant("limited", created=NOW - 3, expires=NOW + 1),
        grant("over", created=NOW - 2, expires=NOW),
        grant("back", created=NOW - 1),
    ]
    for each in everything:
        await store.put_grant(each)
    promise(await store.revoke_grant("back", NOW + 5), "a live grant can be revoked")
    promise(not await store.revoke_grant("back", NOW + 6), "a grant is revoked once")
    promise(not await store.revoke_grant("other", NOW), "an unknown grant cannot be revoked")
    live = await store.grants()
    promise(live == everything[:2], "live grants are neither revoked nor over", live)
    everything[3] = replace(everything[3], revoked=NOW + 5)
    kept = await store.grants(live=False)
    promise(kept == everything, "the others are kept too, oldest first", kept)
    try:
        await store.put_grant(grant("back"))
    except StoreError:
        return
    promise(False, "a revoked grant cannot be put again")
