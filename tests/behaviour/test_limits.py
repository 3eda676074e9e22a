"""Rates, quotas, budgets, places to run and loops, as a caller meets them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support import Counted, allowing, asked

from toolcrib import Principal, ToolHost, ToolResult, tool
from toolcrib.testing import ApprovalSimulator, FakeClock

DAY = 86_400.0


def at_noon() -> FakeClock:
    """A clock in the middle of a day, of an hour and of a minute."""
    return FakeClock(1000 * DAY + DAY / 2 + 1830)


async def outcomes(host: ToolHost, times: int, *args: Any, **options: Any) -> list[str | None]:
    return [(await host.call(*args, **options)).reason for _ in range(times)]


async def test_a_rate_allows_a_burst_and_then_a_drop_at_a_time() -> None:
    work, clock = Counted(), at_noon()
    config = allowing("work", limits={"calls": "6/min"})
    async with ToolHost([work.tool], config=config, clock=clock) as host:
        assert await outcomes(host, 7, "work") == [None] * 6 + ["rate_limited"]
        refused = await host.call("work")
        assert refused.error.retry_after == pytest.approx(10.0)
        assert refused.error.retryable is True
        clock.advance(9.9)
        assert await outcomes(host, 1, "work") == ["rate_limited"]
        clock.advance(0.2)
        assert await outcomes(host, 2, "work") == [None, "rate_limited"]
        clock.advance(3600)
        assert await outcomes(host, 7, "work") == [None] * 6 + ["rate_limited"]
        assert work.runs == 6 + 1 + 6


async def test_the_limit_names_itself_and_its_place() -> None:
    async with ToolHost([Counted().tool], config=allowing("work", limits={"budget": 1})) as host:
        await host.call("work")
        refused = await host.call("work")
        assert refused.error.details["gate"] == "limit"
        assert refused.error.details["rule"] == "limit per principal"
        assert host.explain("work").reason == "quota_exceeded"


async def test_a_quota_is_whole_again_in_the_next_period() -> None:
    work, clock = Counted(), at_noon()
    config = allowing("work", limits={"quota": "3/h"})
    async with ToolHost([work.tool], config=config, clock=clock) as host:
        assert await outcomes(host, 4, "work") == [None] * 3 + ["quota_exceeded"]
        clock.advance(1760)  # still the same hour
        assert await outcomes(host, 1, "work") == ["quota_exceeded"]
        clock.advance(20)
        assert await outcomes(host, 4, "work") == [None] * 3 + ["quota_exceeded"]


async def test_a_budget_is_for_good() -> None:
    work, clock = Counted(), at_noon()
    config = allowing("work", limits={"budget": 2})
    async with ToolHost([work.tool], config=config, clock=clock) as host:
        assert await outcomes(host, 3, "work") == [None, None, "quota_exceeded"]
        clock.advance(400 * DAY)
        assert await outcomes(host, 1, "work") == ["quota_exceeded"]


async def test_whose_use_is_counted_each_principals() -> None:
    config = allowing("*", limits={"budget": 1, "per": "principal"})
    async with ToolHost([Counted("a").tool, Counted("b").tool], config=config) as host:
        assert await outcomes(host, 1, "a", principal="ann") == [None]
        assert await outcomes(host, 1, "b", principal="ann") == ["quota_exceeded"]
        assert await outcomes(host, 1, "b", principal="bob") == [None]
        # Another object of the same name is the same principal.
        again = Principal("ann", roles=["other"])
        assert await outcomes(host, 1, "a", principal=again) == ["quota_exceeded"]


async def test_whose_use_is_counted_each_sessions() -> None:
    config = allowing("*", limits={"budget": 1, "per": "session"})
    async with ToolHost([Counted("a").tool], config=config) as host:
        async with host.session(principal="ann") as one, host.session(principal="ann") as two:
            assert (await one.call("a")).success
            assert (await one.call("a")).reason == "quota_exceeded"
            assert (await two.call("a")).success
        assert await outcomes(host, 2, "a", principal="ann") == [None, "quota_exceeded"]


async def test_whose_use_is_counted_the_whole_profiles() -> None:
    config = {
        "profiles": {
            name: {"default": "allow", "limits": {"budget": 1, "per": "profile"}} for name in "pq"
        }
    }
    async with ToolHost([Counted("a").tool, Counted("b").tool], config=config) as host:
        assert await outcomes(host, 1, "a", principal="ann", profile="p") == [None]
        assert await outcomes(host, 1, "b", principal="bob", profile="p") == ["quota_exceeded"]
        assert await outcomes(host, 1, "b", principal="bob", profile="q") == [None]


async def test_whose_use_is_counted_each_tools() -> None:
    config = allowing("*", limits={"budget": 1, "per": "tool"})
    async with ToolHost([Counted("a").tool, Counted("b").tool], config=config) as host:
        assert await outcomes(host, 1, "a", principal="ann") == [None]
        assert await outcomes(host, 1, "a", principal="bob") == ["quota_exceeded"]
        assert await outcomes(host, 1, "b", principal="bob") == [None]


async def test_a_limit_may_be_about_some_tools_only() -> None:
    config = allowing("*", limits=[{"budget": 1, "tools": "slow_*"}])
    async with ToolHost([Counted("slow_a").tool, Counted("quick").tool], config=config) as host:
        assert await outcomes(host, 2, "slow_a") == [None, "quota_exceeded"]
        assert await outcomes(host, 3, "quick") == [None] * 3


async def test_a_refused_call_uses_no_other_limit() -> None:
    limits = [{"budget": 5, "per": "profile"}, {"budget": 1, "per": "tool"}]
    work, other = Counted("work"), Counted("other")
    async with ToolHost([work.tool, other.tool], config=allowing("*", limits=limits)) as host:
        assert await outcomes(host, 10, "work") == [None] + ["quota_exceeded"] * 9
        assert await outcomes(host, 1, "other") == [None]
        steps = [s for s in host.explain("other").steps if s.gate == "limit"]
        assert steps[0].message == "2 of a budget of 5"


@pytest.mark.parametrize("arguments", [{"n": "x"}, {"m": 1}])
async def test_a_call_that_is_not_valid_uses_nothing(arguments: Any) -> None:
    async with ToolHost([Counted().tool], config=allowing("work", limits={"budget": 1})) as host:
        assert await outcomes(host, 3, "work", arguments) == ["invalid_arguments"] * 3
        assert host.explain("work").verdict == "allow"
        assert await outcomes(host, 1, "work") == [None]


USES: list[dict[str, Any]] = [{"calls": "1/h"}, {"quota": "1/h"}, {"budget": 1}]


def kind(limits: dict[str, Any]) -> str:
    return next(iter(limits))


@pytest.mark.parametrize("limits", USES, ids=kind)
async def test_a_rejected_approval_gives_the_use_back(limits: dict[str, Any]) -> None:
    work = Counted(requires_approval=True)
    approver = ApprovalSimulator({"work": ["deny", "deny", "allow"]})
    async with ToolHost(
        [work.tool], config=allowing("work", limits=limits), approver=approver, clock=at_noon()
    ) as host:
        assert await outcomes(host, 2, "work") == ["approval_rejected"] * 2
        assert await outcomes(host, 1, "work") == [None]
        assert (await host.call("work")).reason in ("rate_limited", "quota_exceeded")


@pytest.mark.parametrize("limits", USES, ids=kind)
@pytest.mark.parametrize("who", ["host", "caller"])
async def test_a_call_cancelled_before_it_starts_gives_the_use_back(
    limits: dict[str, Any], who: str
) -> None:
    work = Counted(requires_approval=True)
    async with ToolHost([work.tool], config=allowing("work", limits=limits)) as host:
        waiting = asyncio.ensure_future(host.call("work", call_id="c1"))
        await asked(host)
        assert host.explain("work").verdict == "deny"
        if who == "host":
            host.cancel("c1")
        else:
            waiting.cancel()
        await asyncio.wait({waiting})
        assert host.explain("work").verdict == "ask"


class Crowd:
    """A tool that counts who is inside, and lets them go one by one."""

    def __init__(self) -> None:
        self.inside = self.most = self.ran = 0
        self.order: list[int] = []
        self.leave = asyncio.Semaphore(0)
        self.entered = asyncio.Event()

        @tool(effects={"read"}, name="crowd")
        async def crowd(n: int = 0) -> int:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.order.append(n)
            self.entered.set()
            try:
                await self.leave.acquire()
            finally:
                self.inside -= 1
            self.ran += 1
            return n

        self.tool = crowd

    def let_go(self, many: int = 1) -> None:
        for _ in range(many):
            self.leave.release()


def start(host: ToolHost, n: int, **options: Any) -> asyncio.Task[ToolResult]:
    return asyncio.ensure_future(host.call("crowd", {"n": n}, **options))


@pytest.mark.parametrize("more", [{}, {"calls": "100000/min"}], ids=["places", "places and rate"])
async def test_no_more_run_than_there_are_places(more: dict[str, Any]) -> None:
    crowd = Crowd()
    limits = {"concurrent": 7, "queue": 1000, **more}
    async with ToolHost([crowd.tool], config=allowing("crowd", limits=limits)) as host:
        calls = [start(host, n) for n in range(200)]
        await asyncio.sleep(0.05)
        assert crowd.inside == 7
        crowd.let_go(200)
        results = await asyncio.gather(*calls)
        assert [r.output for r in results] == list(range(200))
        assert crowd.most == 7
        assert crowd.order == list(range(200))  # in order of arrival


async def test_a_full_queue_refuses_at_once() -> None:
    crowd = Crowd()
    limits = {"concurrent": 1, "queue": 2}
    async with ToolHost([crowd.tool], config=allowing("crowd", limits=limits)) as host:
        held = [start(host, n) for n in range(3)]
        await crowd.entered.wait()
        refused = await host.call("crowd", {"n": 9})
        assert (refused.status, refused.reason) == ("denied", "too_many_calls")
        assert refused.error.retry_after is not None
        crowd.let_go(3)
        assert [(await call).output for call in held] == [0, 1, 2]


async def test_waiting_for_a_place_has_an_end() -> None:
    crowd = Crowd()
    limits = {"concurrent": 1, "queue": 5, "queue_timeout": "30ms", "budget": 2}
    async with ToolHost([crowd.tool], config=allowing("crowd", limits=limits)) as host:
        held = start(host, 0)
        await crowd.entered.wait()
        late = await host.call("crowd", {"n": 1})
        assert (late.status, late.reason) == ("denied", "too_many_calls")
        assert late.error.retry_after == pytest.approx(0.03)
        crowd.let_go(2)
        assert (await held).success
        assert (await host.call("crowd", {"n": 2})).output == 2  # nothing was used up
        assert crowd.order == [0, 2]


@pytest.mark.parametrize("who", ["host", "caller"])
async def test_who_leaves_the_queue_gives_the_place_on(who: str) -> None:
    crowd = Crowd()
    limits = {"concurrent": 1, "queue": 5}
    async with ToolHost([crowd.tool], config=allowing("crowd", limits=limits)) as host:
        first, second, third = (start(host, n, call_id=f"c{n}") for n in range(3))
        await crowd.entered.wait()
        await asyncio.sleep(0.01)
        if who == "host":
            host.cancel("c1")
            assert (await second).reason == "cancelled"
        else:
            second.cancel()
            await asyncio.wait({second})
        crowd.let_go(2)
        assert (await first).output == 0
        assert (await third).output == 2
        assert crowd.order == [0, 2]
        crowd.let_go()
        assert (await host.call("crowd", {"n": 5})).output == 5


async def test_a_place_handed_over_in_the_moment_of_the_cancel_is_not_lost() -> None:
    crowd = Crowd()
    limits = {"concurrent": 1, "queue": 5}
    async with ToolHost([crowd.tool], config=allowing("crowd", limits=limits)) as host:
        first, second = start(host, 0), start(host, 1)
        await crowd.entered.wait()
        await asyncio.sleep(0.01)
        crowd.let_go()
        await first
        second.cancel()
        await asyncio.wait({second})
        crowd.let_go()
        assert (await asyncio.wait_for(host.call("crowd", {"n": 5}), 2)).output == 5


async def test_a_failed_call_gives_its_place_back() -> None:
    @tool(effects={"read"}, name="fails", timeout=0.02)
    async def fails(how: str) -> int:
        if how == "raises":
            raise RuntimeError("broken")
        await asyncio.Event().wait()
        return 1

    config = allowing("fails", limits={"concurrent": 1, "queue": 0})
    async with ToolHost([fails], config=config) as host:
        reasons = [
            (await host.call("fails", {"how": how})).reason
            for how in ("raises", "hangs", "raises", "hangs")
        ]
        assert reasons == ["unexpected_failure", "timeout"] * 2


async def test_places_are_not_held_while_a_person_thinks() -> None:
    ask, quick = Counted("ask", requires_approval=True), Counted("quick")
    limits = {"concurrent": 1, "queue": 0}
    async with ToolHost([ask.tool, quick.tool], config=allowing("*", limits=limits)) as host:
        waiting = asyncio.ensure_future(host.call("ask"))
        request = await asked(host)
        assert (await host.call("quick")).success
        await host.approvals.decide(request.id, allow=True)
        assert (await waiting).success


async def test_the_same_call_over_and_over_is_a_loop() -> None:
    work, clock = Counted(), at_noon()
    config = allowing("work", limits={"repeat": "3/min"})
    async with ToolHost([work.tool], config=config, clock=clock) as host:
        assert await outcomes(host, 4, "work", {"n": 1}) == [None] * 3 + ["loop_detected"]
        assert await outcomes(host, 1, "work", {}) == ["loop_detected"]  # the default is 1
        assert await outcomes(host, 3, "work", {"n": 2}) == [None] * 3
        clock.advance(61)
        assert await outcomes(host, 1, "work", {"n": 1}) == [None]
        refused = (await outcomes(host, 3, "work", {"n": 1}))[-1]
        assert refused == "loop_detected"


async def test_looking_uses_nothing() -> None:
    async with ToolHost([Counted().tool], config=allowing("work", limits={"calls": "1/h"})) as host:
        for _ in range(5):
            assert host.explain("work").verdict == "allow"
        assert (await host.call("work")).success
        assert host.explain("work").reason == "rate_limited"
