"""A failed attempt is repeated only where repeating can do no harm."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from support import assert_one_ending

from toolcrib import Denial, RetryPolicy, ToolContext, ToolFailure, ToolHost, tool

QUICK = RetryPolicy(attempts=3, backoff=0.0, jitter=0.0)


class Flaky:
    """A tool that fails so many times before it works."""

    def __init__(self, failures: int, error: Exception | None = None, **fields: Any) -> None:
        self.tries = 0
        self.tried = asyncio.Event()
        self.attempts: list[int] = []
        problem = error or ToolFailure("busy", retryable=True)

        @tool(**{"name": "flaky", "retry": QUICK, "effects": {"read"}, **fields})
        async def flaky(ctx: ToolContext) -> int:
            self.tries += 1
            self.tried.set()
            self.attempts.append(ctx.attempt)
            if self.tries <= failures:
                raise problem
            return self.tries

        self.tool = flaky


@pytest.mark.parametrize(
    "fields",
    [
        {"effects": {"read"}},
        {"effects": {"write"}, "idempotent": True},
        {"effects": None, "idempotent": True},
    ],
    ids=["reads", "idempotent", "idempotent of unknown effects"],
)
async def test_what_may_be_repeated_is_repeated(fields: dict[str, Any]) -> None:
    flaky = Flaky(2, **fields)
    async with ToolHost([flaky.tool]) as host:
        result = await host.call("flaky")
        assert (result.status, result.output) == ("ok", 3)
        assert flaky.attempts == [1, 2, 3]
        ending = await assert_one_ending(host, result.call_id)
        assert ending.data["attempts"] == 3


@pytest.mark.parametrize(
    "effects",
    [{"write"}, {"read", "egress"}, {"destructive"}, {"execute"}, None],
    ids=lambda e: "unknown" if e is None else "+".join(sorted(e)),
)
async def test_what_may_do_harm_is_never_repeated(effects: Any) -> None:
    flaky = Flaky(1, effects=effects)
    async with ToolHost([flaky.tool]) as host:
        assert (await host.call("flaky")).reason == "tool_error"
        assert flaky.tries == 1


async def test_the_attempts_come_to_an_end() -> None:
    flaky = Flaky(99)
    async with ToolHost([flaky.tool]) as host:
        result = await host.call("flaky")
        assert (result.reason, flaky.tries) == ("tool_error", 3)


async def test_each_failed_attempt_is_on_the_trail() -> None:
    flaky = Flaky(2)
    async with ToolHost([flaky.tool]) as host:
        result = await host.call("flaky")
        events = await host.trail(call_id=result.call_id)
        told = [e.data for e in events if e.type == "call.attempt"]
        assert [(d["attempt"], d["reason"]) for d in told] == [(1, "tool_error"), (2, "tool_error")]
        assert [e.type for e in events].count("call.started") == 1


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ToolFailure("no such row"), "tool_error"),
        (RuntimeError("bug"), "unexpected_failure"),
        (Denial("path_outside_root"), "path_outside_root"),
    ],
    ids=["final", "bug", "denial"],
)
async def test_a_failure_that_is_final_is_final(error: Exception, reason: str) -> None:
    flaky = Flaky(1, error)
    async with ToolHost([flaky.tool]) as host:
        assert (await host.call("flaky")).reason == reason
        assert flaky.tries == 1


async def test_reasons_of_the_policys_choice_are_repeated() -> None:
    retry = {"attempts": 2, "backoff": 0, "retry_on": ["unexpected_failure"]}
    flaky = Flaky(1, RuntimeError("now and then"), retry=retry)
    async with ToolHost([flaky.tool]) as host:
        assert (await host.call("flaky")).success


async def test_without_a_policy_nothing_is_repeated() -> None:
    flaky = Flaky(1, retry=None)
    async with ToolHost([flaky.tool]) as host:
        assert (await host.call("flaky")).error.retryable is True
        assert flaky.tries == 1


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was slept; nobody really sleeps."""
    slept: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float, result: Any = None) -> Any:
        slept.append(seconds)
        return await real(0, result)

    monkeypatch.setattr("toolcrib.pipeline.attempts.asyncio.sleep", sleep)
    return slept


async def test_the_pauses_double_up_to_a_limit(pauses: list[float]) -> None:
    retry = RetryPolicy(attempts=6, backoff=0.5, max_backoff=3.0, jitter=0.0)
    flaky = Flaky(99, retry=retry)
    async with ToolHost([flaky.tool]) as host:
        await host.call("flaky")
        assert pauses[:5] == [0.5, 1.0, 2.0, 3.0, 3.0]


async def test_the_pauses_are_spread(pauses: list[float]) -> None:
    retry = RetryPolicy(attempts=20, backoff=1.0, max_backoff=1.0, jitter=0.5)
    flaky = Flaky(99, retry=retry)
    async with ToolHost([flaky.tool]) as host:
        await host.call("flaky")
        waited = pauses[:19]
        assert all(0.5 <= pause <= 1.5 for pause in waited)
        assert len(set(waited)) > 1


async def test_a_pause_that_the_tool_asks_for_is_kept(pauses: list[float]) -> None:
    flaky = Flaky(1, ToolFailure("later", retryable=True, retry_after=7.5))
    async with ToolHost([flaky.tool]) as host:
        assert (await host.call("flaky")).success
        assert pauses[0] == 7.5


async def test_a_pause_can_be_cancelled() -> None:
    flaky = Flaky(99, retry=RetryPolicy(attempts=3, backoff=30.0))
    async with ToolHost([flaky.tool]) as host:
        call = asyncio.ensure_future(host.call("flaky", call_id="c1"))
        await flaky.tried.wait()
        await asyncio.sleep(0.01)
        assert host.cancel("c1")
        assert (await asyncio.wait_for(call, 2)).reason == "cancelled"
        assert flaky.tries == 1


class Hanging:
    """An async tool that hangs so many times before it answers."""

    def __init__(self, times: int, **fields: Any) -> None:
        self.tries = self.stopped = 0

        @tool(**{"name": "hang", "retry": QUICK, "timeout": 0.03, "effects": {"read"}, **fields})
        async def hang() -> int:
            self.tries += 1
            if self.tries <= times:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    self.stopped += 1
                    raise
            return self.tries

        self.tool = hang


async def test_a_stopped_attempt_is_repeated_where_that_is_safe() -> None:
    hanging = Hanging(2)
    async with ToolHost([hanging.tool]) as host:
        result = await host.call("hang")
        assert (result.output, hanging.stopped) == (3, 2)
        assert asyncio.current_task().cancelling() == 0


async def test_a_stopped_attempt_that_may_have_done_something_is_not_repeated() -> None:
    hanging = Hanging(1, effects={"write"})
    async with ToolHost([hanging.tool]) as host:
        result = await host.call("hang")
        assert (result.reason, hanging.tries) == ("timeout", 1)
        assert result.error.still_running is False


async def test_timeouts_are_repeated_only_when_the_policy_says_so() -> None:
    hanging = Hanging(1, retry=RetryPolicy(attempts=3, backoff=0.0, retry_on=frozenset()))
    async with ToolHost([hanging.tool]) as host:
        assert (await host.call("hang")).reason == "timeout"
        assert hanging.tries == 1


async def test_the_callers_time_is_for_all_attempts_together() -> None:
    retry = RetryPolicy(attempts=50, backoff=0.0, jitter=0.0)
    hanging = Hanging(99, retry=retry, timeout=0.04)
    async with ToolHost([hanging.tool]) as host:
        result = await host.call("hang", timeout=0.1)
        assert result.reason == "timeout"
        assert hanging.tries < 10


async def test_a_thread_that_goes_on_is_not_doubled() -> None:
    begun, leave = [], threading.Event()

    @tool(effects={"read"}, idempotent=True, retry=QUICK, timeout=0.03)
    def stuck() -> int:
        begun.append(1)
        leave.wait(5)
        return 1

    async with ToolHost([stuck]) as host:
        result = await host.call("stuck")
        assert (result.reason, result.error.still_running) == ("timeout", True)
        assert result.error.retryable is False
        leave.set()
        assert len(begun) == 1
