"""Tasks that stand by for the next work: nothing of one call gets into another."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest

from executing import until
from toolcrib.transports.eager import Starter

VAR: ContextVar[str] = ContextVar("a_call_of_a_test", default="nothing")


def meddle() -> None:
    """Cancel the own task and take it back, all in one step."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    task.uncancel()


class Calls:
    """Work that waits, and how each of it ended."""

    def __init__(self) -> None:
        self.starter = Starter(again=True)
        self.ended: list[str] = []

    async def wait(self, seconds: float = 0.01) -> None:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        self.ended.append("done")

    async def all(self, count: int) -> list[str]:
        await until(lambda: len(self.ended) == count)
        self.starter.close()
        return self.ended


@pytest.mark.parametrize("rested", [False, True], ids=["new", "rested"])
@pytest.mark.parametrize("turns", [0, 1, 3])
async def test_a_cancel_that_was_taken_back_hits_no_other_work(rested: bool, turns: int) -> None:
    calls = Calls()
    if rested:  # the task that stands by waits already
        await asyncio.sleep(0)

    async def meddler() -> None:
        meddle()

    calls.starter.start(meddler())
    for _ in range(turns):
        await asyncio.sleep(0)
    for _ in range(3):
        calls.starter.start(calls.wait())
    assert await calls.all(3) == ["done"] * 3


async def test_nor_does_one_in_the_last_step_of_work_that_waited() -> None:
    calls = Calls()

    async def meddler() -> None:
        await asyncio.sleep(0)
        meddle()
        # Before the loop turns again, somebody else takes the task that has become free.
        asyncio.get_running_loop().call_soon(others)

    def others() -> None:
        for _ in range(3):
            calls.starter.start(calls.wait())

    calls.starter.start(meddler())
    assert await calls.all(3) == ["done"] * 3


async def test_work_that_is_cancelled_ends_alone() -> None:
    calls = Calls()
    for _ in range(3):  # so that some stand by
        calls.starter.start(calls.wait(0))
    await until(lambda: len(calls.ended) == 3)
    calls.ended.clear()
    task = calls.starter.start(calls.wait(60))
    calls.starter.start(calls.wait())
    assert task is not None
    task.cancel()
    calls.starter.start(calls.wait())
    assert sorted(await calls.all(3)) == ["cancelled", "done", "done"]


async def test_a_time_limit_ends_with_its_work() -> None:
    calls = Calls()

    async def limited() -> None:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(60)
        except TimeoutError:
            calls.ended.append("late")

    for _ in range(2):
        calls.starter.start(limited())
    await until(lambda: len(calls.ended) == 2)
    for _ in range(4):
        calls.starter.start(calls.wait(0.03))
    assert await calls.all(6) == ["late"] * 2 + ["done"] * 4


async def test_work_does_not_see_what_other_work_set() -> None:
    seen: list[str] = []
    starter = Starter(again=True)

    async def sets(name: str) -> None:
        seen.append(VAR.get())
        VAR.set(name)
        await asyncio.sleep(0)
        seen.append(VAR.get())

    for name in ("a", "b", "c"):
        count = len(seen) + 2
        starter.start(sets(name))
        await until(lambda count=count: len(seen) == count)
    starter.close()
    assert seen == ["nothing", "a", "nothing", "b", "nothing", "c"]
    assert VAR.get() == "nothing"
