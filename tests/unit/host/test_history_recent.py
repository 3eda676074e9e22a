"""The newest calls are found from the end of a long trail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from toolcrib import ToolHost, tool
from toolcrib.host.history import History, Wanted

gate = asyncio.Event()


@tool(effects=["read"])
async def look(n: int) -> int:
    """Give back a number."""
    return n


@tool(effects=["write"])
async def change() -> str:
    """Wait until it may go on."""
    await gate.wait()
    return "changed"


@pytest.fixture
async def host() -> AsyncIterator[ToolHost]:
    gate.clear()
    async with ToolHost([look, change]) as made:
        yield made


async def many(host: ToolHost, count: int) -> list[str]:
    """So many calls, each in a block of its own."""
    store = (await host.start()).store
    ids: list[str] = []
    for number in range(count):
        ids.append((await host.call("look", {"n": number})).call_id)
        await store.flush()
    return ids


class Counting(History):
    """Counts the records that were read."""

    read = 0

    async def records(self, **given: int | bytes) -> AsyncIterator[tuple[str, int, object]]:  # type: ignore[override]
        async for record in super().records(**given):  # type: ignore[arg-type]
            Counting.read += 1
            yield record


async def test_only_the_end_is_read(host: ToolHost) -> None:
    ids = await many(host, 300)
    Counting.read = 0
    history = Counting((await host.start()).store)
    assert [call.id for call in await history.recent_calls(limit=5)] == ids[-5:]
    assert Counting.read < 100
    assert [call.id for call in await history.recent_calls(limit=1000)] == ids


async def test_a_call_that_began_long_ago_is_whole(host: ToolHost) -> None:
    calling = asyncio.ensure_future(host.call("change"))
    await many(host, 150)
    gate.set()
    result = await calling
    store = (await host.start()).store
    await store.flush()
    found = await History(store).recent_calls(limit=2)
    mine = next(call for call in found if call.id == result.call_id)
    assert (mine.door, mine.status) == ("python", "ok")


async def test_one_call_far_back_is_found_by_its_id(host: ToolHost) -> None:
    ids = await many(host, 200)
    store = (await host.start()).store
    found = await History(store).recent_calls(limit=1, wanted=Wanted(call_id=ids[0]))
    assert [call.id for call in found] == [ids[0]]
