"""Work that is started at once: done on the spot, or a task like any other from where it waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextvars import ContextVar

import pytest

from toolcrib.transports.eager import Starter

VAR: ContextVar[str] = ContextVar("VAR", default="nobody")


@pytest.fixture
async def starter() -> AsyncIterator[Starter]:
    made = Starter()
    yield made
    made.close()
    for _ in range(2):
        await asyncio.sleep(0)
    kinds = {type(task.get_coro()).__name__ for task in asyncio.all_tasks()}
    assert kinds <= {"coroutine"}


async def test_work_that_never_waits_is_done_on_the_spot(starter: Starter) -> None:
    done: list[int] = []

    async def work(n: int) -> None:
        done.append(n)

    for n in range(3):
        assert starter.start(work(n)) is None
    assert done == [0, 1, 2]


async def test_work_that_waits_goes_on_as_the_task_it_began_as(starter: Starter) -> None:
    seen: list[object] = []

    async def work() -> None:
        seen.append(asyncio.current_task())
        await asyncio.sleep(0)
        seen.append(asyncio.current_task())
        await asyncio.sleep(0.001)
        seen.append(asyncio.current_task())

    mine = asyncio.current_task()
    task = starter.start(work())
    assert asyncio.current_task() is mine
    assert task is not None
    await task
    assert seen == [task] * 3


async def test_from_a_callback_there_is_no_current_task_afterwards(starter: Starter) -> None:
    seen: list[object] = []
    over = asyncio.get_running_loop().create_future()

    async def work() -> None:
        seen.append(asyncio.current_task())

    def called() -> None:
        seen.append(starter.start(work()))
        seen.append(asyncio.current_task())
        over.set_result(None)

    asyncio.get_running_loop().call_soon(called)
    await over
    assert isinstance(seen[0], asyncio.Task)
    assert seen[1:] == [None, None]


@pytest.mark.parametrize("turns", range(4))
async def test_it_is_cancelled_at_any_moment(starter: Starter, turns: int) -> None:
    ended: list[bool] = []

    async def work() -> None:
        inner = asyncio.ensure_future(asyncio.sleep(60))
        try:
            await inner
        finally:
            ended.append(inner.cancelled())  # as what any task waits for

    for _ in range(2):  # with a fresh stand-in, and with one that stood by for a while
        task = starter.start(work())
        assert task is not None
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        starter.start(_nothing())
        await asyncio.sleep(0)
    assert ended == [True, True]


async def _nothing() -> None:
    pass


async def test_work_that_cancels_itself_spoils_nothing(starter: Starter) -> None:
    done: list[str] = []

    async def rash() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    async def work() -> None:
        await asyncio.sleep(0.001)
        done.append("worked")

    for _ in range(2):
        assert starter.start(rash()) is None
        task = starter.start(work())
        assert task is not None
        await task
        starter.start(_nothing())
        await asyncio.sleep(0)
    assert done == ["worked", "worked"]


async def test_a_time_limit_that_begins_on_the_spot_holds_later(starter: Starter) -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(60)
        except TimeoutError:
            ended.append("late")
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    task = starter.start(work())
    assert task is not None
    await task
    assert ended == ["late"]


async def test_each_has_variables_of_its_own(starter: Starter) -> None:
    seen: list[str] = []

    async def work(name: str, wait: bool) -> None:
        seen.append(VAR.get())
        token = VAR.set(name)
        if wait:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            seen.append(VAR.get())
            VAR.reset(token)

    starter.start(work("a", False))
    first = starter.start(work("b", True))
    second = starter.start(work("c", True))
    assert first is not None
    assert second is not None
    await asyncio.gather(first, second)
    assert seen[:3] == ["nobody", "nobody", "nobody"]
    assert sorted(seen[3:]) == ["b", "c"]
    assert VAR.get() == "nobody"


async def test_an_exception_is_the_tasks(starter: Starter) -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        raise ValueError("wrong")

    task = starter.start(work())
    assert task is not None
    with pytest.raises(ValueError, match="wrong"):
        await task
