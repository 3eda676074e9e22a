"""A provider that fails again and again is left alone for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from toolcrib import ToolSpec
from toolcrib.core.context import ToolContext
from toolcrib.errors import Denial, ToolFailure
from toolcrib.host.breaker import Breaker
from toolcrib.host.provider_settings import ProviderSettings
from toolcrib.host.publishing import Publisher
from toolcrib.host.supervisor import Supervisor
from toolcrib.testing import FakeClock, make_host


class TestBreaker:
    def make(self) -> tuple[Breaker, FakeClock]:
        clock = FakeClock(1000.0)
        return Breaker(failures=3, open_for=15.0, clock=clock), clock

    def fail(self, breaker: Breaker, times: int) -> None:
        for _ in range(times):
            breaker.end(breaker.begin(), failed=True)

    def test_failures_in_a_row_open_it(self) -> None:
        breaker, _ = self.make()
        self.fail(breaker, 2)
        breaker.end(breaker.begin(), failed=False)
        self.fail(breaker, 2)
        assert not breaker.open
        assert breaker.wait() == 0
        self.fail(breaker, 1)
        assert breaker.open
        assert breaker.wait() == 15

    def test_after_its_time_one_call_is_the_trial(self) -> None:
        breaker, clock = self.make()
        self.fail(breaker, 3)
        clock.advance(14)
        assert breaker.wait() == 1
        clock.advance(1)
        assert breaker.wait() == 0
        trial = breaker.begin()
        assert breaker.wait() == 15  # the others wait for it
        breaker.end(trial, failed=False)
        assert not breaker.open
        self.fail(breaker, 2)
        assert not breaker.open  # it counts from the beginning

    def test_a_trial_that_fails_opens_it_again(self) -> None:
        breaker, clock = self.make()
        self.fail(breaker, 3)
        clock.advance(20)
        trial = breaker.begin()
        clock.advance(5)
        breaker.end(trial, failed=True)
        assert breaker.wait() == 15

    def test_a_trial_that_nobody_waited_for_leaves_room_for_the_next(self) -> None:
        breaker, clock = self.make()
        self.fail(breaker, 3)
        clock.advance(15)
        breaker.end(breaker.begin(), failed=None)
        assert breaker.open
        assert breaker.wait() == 0

    def test_a_trial_that_never_ends_keeps_nobody_out_for_ever(self) -> None:
        breaker, clock = self.make()
        self.fail(breaker, 3)
        clock.advance(15)
        lost = breaker.begin()
        clock.advance(15)
        assert breaker.wait() == 0
        breaker.end(breaker.begin(), failed=True)
        breaker.end(lost, failed=False)  # too late to count
        assert breaker.open

    def test_what_began_before_it_opened_does_not_close_it(self) -> None:
        breaker, _ = self.make()
        slow = breaker.begin()
        self.fail(breaker, 3)
        breaker.end(slow, failed=False)
        assert breaker.open

    def test_a_new_start_closes_it(self) -> None:
        breaker, _ = self.make()
        old = breaker.begin()
        self.fail(breaker, 3)
        breaker.reset()
        assert not breaker.open
        for _ in range(5):
            breaker.end(old, failed=True)
        assert not breaker.open


class Far:
    """A provider whose one tool does what the test says."""

    name = "far"
    kind = "far"

    def __init__(self) -> None:
        self.calls = 0
        self.begun = asyncio.Event()
        self.act: Callable[[ToolContext], Any] = self.well

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *exc: object) -> None:
        return None

    async def list_tools(self) -> Any:
        return [ToolSpec(name="far-away", kind="far", effects=frozenset({"read"}))]

    async def execute(self, ctx: ToolContext) -> Any:
        self.calls += 1
        self.begun.set()
        return await self.act(ctx)

    async def well(self, ctx: ToolContext) -> str:
        return "well"

    async def fails(self, ctx: ToolContext) -> None:
        raise ToolFailure("the far side fails", reason="upstream_error")

    async def says_so(self, ctx: ToolContext) -> Any:
        return ctx.error("the far side fails", reason="upstream_error")

    async def hangs(self, ctx: ToolContext) -> None:
        await asyncio.Event().wait()

    async def loses(self, ctx: ToolContext) -> None:
        raise ConnectionResetError

    async def objects(self, ctx: ToolContext) -> None:
        raise ToolFailure("there is no such row")

    async def refuses(self, ctx: ToolContext) -> None:
        raise Denial("action_not_allowed")

    async def breaks(self, ctx: ToolContext) -> None:
        raise KeyError("oops")


@asynccontextmanager
async def far_away() -> AsyncIterator[tuple[Far, Any, FakeClock, Supervisor]]:
    far, clock = Far(), FakeClock(1000.0)
    async with make_host() as host:
        supervisor = Supervisor(
            "far",
            lambda: far,
            publish=Publisher(host.catalog),
            announce=lambda event, data: None,
            settings=ProviderSettings(breaker_failures=3, breaker_open=15.0, stop_timeout=1.0),
            clock=clock,
        )
        supervisor.start()
        assert await supervisor.first()
        yield far, host, clock, supervisor
        await supervisor.stop()


@pytest.mark.parametrize("how", ["fails", "says_so", "hangs", "loses"])
async def test_an_open_breaker_ends_calls_at_once(how: str) -> None:
    async with far_away() as (far, host, clock, supervisor):
        far.act = getattr(far, how)
        for _ in range(3):
            reason = (await host.call("far-away", timeout=0.02)).reason
            assert reason == ("timeout" if how == "hangs" else "upstream_error")
        assert supervisor.status().state == "open"
        far.act = far.well
        ended = await host.call("far-away")
        assert (ended.reason, ended.error.retry_after) == ("tool_unavailable", 15.0)
        assert ended.error.retryable
        assert far.calls == 3  # it was left alone
        clock.advance(15)
        assert (await host.call("far-away")).output == "well"
        assert supervisor.status().state == "up"


async def test_half_open_lets_one_call_through() -> None:
    async with far_away() as (far, host, clock, _):
        far.act = far.fails
        for _ in range(3):
            await host.call("far-away")
        clock.advance(15)
        go = asyncio.Event()

        async def slow(ctx: ToolContext) -> str:
            await go.wait()
            return "well"

        far.act = slow
        calls = [asyncio.create_task(host.call("far-away")) for _ in range(5)]
        done, waiting = await asyncio.wait(calls, return_when="FIRST_COMPLETED")
        while len(done) < 4:
            more, waiting = await asyncio.wait(waiting, return_when="FIRST_COMPLETED")
            done |= more
        assert {task.result().reason for task in done} == {"tool_unavailable"}
        go.set()
        [trial] = waiting
        assert (await trial).output == "well"
        assert far.calls == 4


@pytest.mark.parametrize("how", ["objects", "refuses", "breaks"])
async def test_endings_of_a_provider_that_answers_do_not_count(how: str) -> None:
    async with far_away() as (far, host, _, supervisor):
        far.act = getattr(far, how)
        for _ in range(6):
            await host.call("far-away")
        assert far.calls == 6
        assert supervisor.status().state == "up"


async def test_a_cancelled_call_does_not_count() -> None:
    async with far_away() as (far, host, _, supervisor):
        far.act = far.hangs
        for _ in range(6):
            far.begun.clear()
            task = asyncio.create_task(host.call("far-away", call_id="c1"))
            await far.begun.wait()
            host.cancel("c1")
            assert (await task).reason == "cancelled"
        assert supervisor.status().state == "up"


async def test_a_restart_closes_it() -> None:
    async with far_away() as (far, host, _, supervisor):
        far.act = far.fails
        for _ in range(3):
            await host.call("far-away")
        far.act = far.well
        await supervisor.restart()
        assert (await host.call("far-away")).output == "well"
