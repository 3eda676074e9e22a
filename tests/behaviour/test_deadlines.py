"""Time limits and cancellation reach the work itself, and everybody is told the truth."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from support import Counted, assert_one_ending

from toolcrib import ToolContext, ToolFailure, ToolHost, tool


class Slow:
    """An async tool that runs until it is stopped, and knows how it was."""

    def __init__(self, **fields: Any) -> None:
        self.entered = asyncio.Event()
        self.saw: list[str] = []

        @tool(**{"name": "slow", "effects": {"read"}, **fields})
        async def slow(ctx: ToolContext) -> int:
            self.entered.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.saw.append(f"stopped, cancelled={ctx.cancelled}")
                raise
            return 1

        self.tool = slow


@pytest.mark.parametrize("effects", [{"read"}, {"write"}], ids=str)
async def test_an_async_function_is_really_stopped_in_time(effects: Any) -> None:
    slow = Slow(timeout=0.03, effects=effects)
    async with ToolHost([slow.tool]) as host:
        result = await host.call("slow")
        assert (result.status, result.reason) == ("error", "timeout")
        assert slow.saw == ["stopped, cancelled=True"]
        assert result.error.still_running is False
        assert "slow" in result.error.message
        assert asyncio.current_task().cancelling() == 0
        await asyncio.sleep(0.01)  # and the caller lives on


@pytest.mark.parametrize(
    ("own", "given", "words"),
    [
        ({"timeout": 0.03}, None, "slow did not finish in 30ms"),
        ({"timeout": 30}, 0.02, "slow did not finish in 20ms"),
        ({"timeout": 0.02}, 60, "slow did not finish in 20ms"),
        ({"timeout": 0.02, "retry": {"attempts": 2, "backoff": 0}}, 60, "in 20ms"),
        ({"timeout": 30, "retry": {"attempts": 2, "backoff": 0}}, 0.05, "in 50ms"),
    ],
    ids=["own", "given", "shorter", "attempt", "attempts"],
)
async def test_how_long_it_might_take_is_told(own: Any, given: Any, words: str) -> None:
    slow = Slow(**own)
    async with ToolHost([slow.tool]) as host:
        result = await asyncio.wait_for(host.call("slow", timeout=given), 5)
    assert result.reason == "timeout"
    assert result.error.message.endswith(words)


async def test_the_time_that_is_told_is_the_one_chosen_for_all_attempts() -> None:
    @tool(effects={"read"}, timeout=30, retry={"attempts": 2, "backoff": 0})
    async def slow(ctx: ToolContext) -> None:
        if ctx.attempt == 1:
            await asyncio.sleep(0.03)
            raise ToolFailure("not yet", retryable=True)
        await asyncio.Event().wait()

    async with ToolHost([slow]) as host:
        result = await asyncio.wait_for(host.call("slow", timeout=0.1), 5)
    assert result.error.message == "slow did not finish in 100ms"


@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_timeout_may_be_tried_again_if_that_does_no_harm(idempotent: bool) -> None:
    slow = Slow(timeout=0.02, idempotent=idempotent, effects={"write"})
    async with ToolHost([slow.tool]) as host:
        assert (await host.call("slow")).error.retryable is idempotent


async def test_the_callers_limit_counts_when_it_is_shorter() -> None:
    slow = Slow(timeout=30)
    async with ToolHost([slow.tool]) as host:
        assert (await asyncio.wait_for(host.call("slow", timeout=0.03), 5)).reason == "timeout"


async def test_the_callers_limit_does_not_stretch_the_tools_own() -> None:
    slow = Slow(timeout=0.03)
    async with ToolHost([slow.tool]) as host:
        assert (await asyncio.wait_for(host.call("slow", timeout=60), 5)).reason == "timeout"


async def test_the_hosts_limit_counts_where_the_tool_says_nothing() -> None:
    slow = Slow()
    async with ToolHost([slow.tool], config={"host": {"timeout": "30ms"}}) as host:
        assert (await asyncio.wait_for(host.call("slow"), 5)).reason == "timeout"


async def test_the_hosts_deadline_counts_over_all_attempts() -> None:
    slow = Slow(timeout=0.05, retry={"attempts": 100, "backoff": 0})
    async with ToolHost([slow.tool], config={"host": {"deadline": "120ms"}}) as host:
        assert (await asyncio.wait_for(host.call("slow"), 3)).reason == "timeout"
        assert len(slow.saw) < 20


async def test_a_quick_function_is_not_stopped_by_an_old_clock() -> None:
    work = Counted(timeout=0.05)
    async with ToolHost([work.tool]) as host:
        assert (await host.call("work")).success
        await asyncio.sleep(0.15)
        assert asyncio.current_task().cancelling() == 0


async def test_the_context_knows_how_much_time_is_left() -> None:
    left: list[float | None] = []

    @tool(effects={"read"}, timeout=5)
    async def look(ctx: ToolContext) -> int:
        left.append(ctx.remaining)
        return 1

    async with ToolHost([look]) as host:
        await host.call("look")
        await host.call("look", timeout=1)
    assert 4 < left[0] <= 5
    assert 0 < left[1] <= 1


async def test_the_callers_own_cancel_reaches_the_function_and_the_caller() -> None:
    slow = Slow()
    async with ToolHost([slow.tool]) as host:
        call = asyncio.ensure_future(host.call("slow", call_id="c1"))
        await slow.entered.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert len(slow.saw) == 1
        ending = await assert_one_ending(host, "c1")
        assert (ending.data["status"], ending.data["reason"]) == ("error", "cancelled")


async def test_a_timeout_around_the_call_stays_the_callers() -> None:
    slow = Slow()
    async with ToolHost([slow.tool]) as host:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.03):
                await host.call("slow", call_id="c1")
        assert len(slow.saw) == 1
        assert (await assert_one_ending(host, "c1")).data["reason"] == "cancelled"


async def test_cancelling_by_id_ends_the_call_with_a_result() -> None:
    slow = Slow()
    async with ToolHost([slow.tool]) as host:
        call = asyncio.ensure_future(host.call("slow", call_id="c1"))
        await slow.entered.wait()
        assert host.cancel("c1") is True
        result = await call
        assert (result.status, result.reason, result.call_id) == ("error", "cancelled", "c1")
        assert len(slow.saw) == 1
        assert host.cancel("c1") is False
        assert host.cancel("unknown") is False


async def test_cancelling_works_from_another_thread() -> None:
    slow = Slow()
    async with ToolHost([slow.tool]) as host:
        call = asyncio.ensure_future(host.call("slow", call_id="c1"))
        await slow.entered.wait()
        assert await asyncio.to_thread(host.cancel, "c1") is True
        assert (await call).reason == "cancelled"


async def test_a_cancel_that_comes_too_late_hits_nobody() -> None:
    @tool(effects={"read"})
    async def suicidal(ctx: ToolContext) -> int:
        assert host.cancel(ctx.call_id)
        return 1  # before the cancel could reach it

    async with ToolHost([suicidal]) as host:
        result = await host.call("suicidal")
        assert result.reason in (None, "cancelled")
        await asyncio.sleep(0.01)  # the caller goes on with its life
        assert asyncio.current_task().cancelling() == 0


async def test_a_function_that_ends_as_cancelled_does_not_cancel_its_caller() -> None:
    @tool(effects={"read"})
    async def gives_up() -> int:
        inner = asyncio.ensure_future(asyncio.sleep(30))
        await asyncio.sleep(0)
        inner.cancel()
        return await inner

    async with ToolHost([gives_up]) as host:
        result = await host.call("gives_up")
        assert result.status == "error"
        assert result.reason in ("cancelled", "unexpected_failure")
        await assert_one_ending(host, result.call_id)


async def test_two_calls_of_one_id_both_keep_their_time_limit() -> None:
    slow, quick = Slow(), Counted("quick")
    async with ToolHost([slow.tool, quick.tool]) as host:
        call = asyncio.ensure_future(host.call("slow", call_id="same", timeout=0.1))
        await slow.entered.wait()
        await host.call("quick", call_id="same")
        done, _ = await asyncio.wait({call}, timeout=1)
        assert done
        assert (await call).reason == "timeout"


async def test_a_function_that_swallows_the_cancel_is_still_over_time() -> None:
    @tool(effects={"read"}, timeout=0.03)
    async def stubborn() -> int:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return 5
        return 1

    async with ToolHost([stubborn]) as host:
        result = await host.call("stubborn")
        assert result.reason == "timeout"
        assert asyncio.current_task().cancelling() == 0


async def test_a_thread_can_see_that_nobody_waits_any_more() -> None:
    saw = threading.Event()

    @tool(effects={"read"}, timeout=0.03)
    def patient(ctx: ToolContext) -> int:
        until = time.monotonic() + 5
        while time.monotonic() < until:
            if ctx.cancelled:
                saw.set()
                return 0
            time.sleep(0.005)
        return 1

    async with ToolHost([patient]) as host:
        result = await host.call("patient")
        assert (result.reason, result.error.still_running) == ("timeout", True)
        assert await asyncio.to_thread(saw.wait, 2)


async def test_a_thread_that_ends_with_stop_iteration_ends_its_call() -> None:
    @tool(effects={"read"})
    def first() -> int:
        return next(iter(()))

    async with ToolHost([first]) as host:
        result = await host.call("first", timeout=0.5)
        assert result.reason == "unexpected_failure"


@pytest.mark.parametrize("inline", [True, False])
async def test_a_function_that_raises_tells_its_words_to_the_log_only(inline: bool) -> None:
    @tool(effects={"read"}, inline=inline)
    def broken() -> int:
        raise RuntimeError("the inner workings")

    async with ToolHost([broken]) as host:
        result = await host.call("broken")
        assert result.reason == "unexpected_failure"
        assert "inner" not in str(result.to_dict())


async def test_a_call_made_by_a_tool_has_no_more_time_than_the_tool() -> None:
    slow = Slow()
    left: list[float] = []

    @tool(effects={"read"}, timeout=0.05)
    async def outer(ctx: ToolContext) -> Any:
        left.append(ctx.remaining)
        result = await ctx.call("slow", timeout=30)
        return result.reason

    async with ToolHost([outer, slow.tool]) as host:
        result = await asyncio.wait_for(host.call("outer"), 5)
        assert result.reason == "timeout"
        assert len(slow.saw) == 1
        assert asyncio.current_task().cancelling() == 0
        endings = [e for e in await host.trail() if e.type == "call.finished"]
        assert sorted(e.data["tool"] for e in endings) == ["outer", "slow"]


async def test_a_call_made_by_a_tool_knows_how_much_time_is_left() -> None:
    left: list[float | None] = []

    @tool(effects={"read"}, timeout=30)
    async def inner(ctx: ToolContext) -> int:
        left.append(ctx.remaining)
        return 1

    @tool(effects={"read"}, timeout=2)
    async def outer(ctx: ToolContext) -> Any:
        return (await ctx.call("inner", timeout=20)).output

    async with ToolHost([outer, inner]) as host:
        assert (await host.call("outer")).output == 1
    assert left[0] is not None
    assert left[0] <= 2


async def test_a_call_made_by_a_tool_may_have_less_time() -> None:
    slow = Slow()

    @tool(effects={"read"}, timeout=30)
    async def outer(ctx: ToolContext) -> Any:
        return (await ctx.call("slow", timeout=0.03)).reason

    async with ToolHost([outer, slow.tool]) as host:
        result = await asyncio.wait_for(host.call("outer"), 5)
        assert (result.status, result.output) == ("ok", "timeout")


async def test_cancelling_a_tool_cancels_what_it_called() -> None:
    slow = Slow()

    @tool(effects={"read"})
    async def outer(ctx: ToolContext) -> Any:
        return (await ctx.call("slow")).reason

    async with ToolHost([outer, slow.tool]) as host:
        call = asyncio.ensure_future(host.call("outer", call_id="c1"))
        await slow.entered.wait()
        host.cancel("c1")
        assert (await call).reason == "cancelled"
        assert len(slow.saw) == 1
        endings = [e.data["reason"] for e in await host.trail() if e.type == "call.finished"]
        assert endings == ["cancelled", "cancelled"]


async def test_many_calls_stopped_at_once_leave_nothing_behind() -> None:
    slow = Slow(timeout=0.05)
    async with ToolHost([slow.tool]) as host:
        results = await asyncio.gather(*(host.call("slow") for _ in range(100)))
        assert {r.reason for r in results} == {"timeout"}
        assert len(slow.saw) == 100
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert others == set()
