"""A guard that raises, hangs, says nothing or talks nonsense: no call runs, and it is on record."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from support import Counted, allowing, assert_refused

from toolcrib import Decision, Extension, ToolContext, ToolHost, ToolPolicy, ToolResult, tool

Fault = Callable[[], Any]


def raises() -> Any:
    raise RuntimeError("out of order")


def nothing() -> Any:
    return None


def nonsense() -> Any:
    return "allow"


def true() -> Any:
    return True


def wrong_verdict() -> Any:
    return Decision("alow")  # type: ignore[arg-type]


def wrong_reason() -> Any:
    return Decision.deny("Not A Reason!")


def awaitable() -> Any:
    async def later() -> Decision:
        return Decision.allow()

    return later()


class Gate:
    """A gate whose `check`, or `visible`, is out of order."""

    name = "odd"

    def __init__(self, check: Fault | None = None, visible: Fault | None = None) -> None:
        self._check = check
        self._visible = visible

    def visible(self, spec: Any, principal: Any, profile: Any) -> bool:
        return True if self._visible is None else self._visible()

    def check(self, ctx: ToolContext) -> Decision:
        return Decision.allow() if self._check is None else self._check()


NO_ANSWERS = [raises, nonsense, true, wrong_verdict, wrong_reason, awaitable]


@pytest.mark.parametrize("fault", [*NO_ANSWERS, nothing])
async def test_a_gate_that_does_not_answer(fault: Fault) -> None:
    work = Counted()
    async with ToolHost([work.tool], gates=[Gate(check=fault)]) as host:
        explained = host.explain("work")
        assert (explained.verdict, explained.reason) == ("deny", "guard_failed")
        await assert_refused(host, await host.call("work"), "guard_failed", work)


@pytest.mark.parametrize("fault", [raises, nothing, nonsense, awaitable])
async def test_a_gate_that_cannot_say_whether_a_tool_is_seen(fault: Fault) -> None:
    work = Counted()
    async with ToolHost([work.tool], gates=[Gate(visible=fault)]) as host:
        assert host.tools() == []
        assert host.explain("work").verdict == "deny"
        await assert_refused(host, await host.call("work"), "guard_failed", work)


async def test_a_gate_that_hides_a_tool_refuses_it_too() -> None:
    work = Counted()
    async with ToolHost([work.tool], gates=[Gate(visible=lambda: False)]) as host:
        assert host.tools() == []
        await assert_refused(host, await host.call("work"), "not_in_profile", work)


@pytest.mark.parametrize("fault", NO_ANSWERS)
async def test_a_policy_that_does_not_answer(fault: Fault) -> None:
    class Odd(ToolPolicy):
        def check(self, ctx: ToolContext) -> Decision | None:
            return fault()

    work = Counted(policy=Odd)
    async with ToolHost([work.tool]) as host:
        assert host.explain("work").reason == "guard_failed"
        await assert_refused(host, await host.call("work"), "guard_failed", work)


async def test_a_policy_that_has_no_objection_lets_the_call_run() -> None:
    class Fine(ToolPolicy):
        def check(self, ctx: ToolContext) -> Decision | None:
            return nothing()

    work = Counted(policy=Fine)
    async with ToolHost([work.tool]) as host:
        assert (await host.call("work")).success


class Before(Extension):
    """An extension whose first half is out of order."""

    def __init__(self, fault: Callable[[], Awaitable[Any]]) -> None:
        self._fault = fault

    async def before_execute(self, ctx: ToolContext) -> None:
        return await self._fault()


async def raises_later() -> Any:
    raise RuntimeError("out of order")


async def says_deny() -> Any:
    return Decision.deny("action_not_allowed")


async def says_no() -> Any:
    return False


async def forgot_to_await() -> Any:
    return raises_later()


@pytest.mark.parametrize("fault", [raises_later, says_deny, says_no, forgot_to_await])
async def test_an_extension_that_fails_before_the_tool(
    fault: Callable[[], Awaitable[Any]],
) -> None:
    work = Counted()
    async with ToolHost([work.tool], extensions=[Before(fault)]) as host:
        await assert_refused(host, await host.call("work"), "guard_failed", work)


async def test_an_extension_that_is_not_async_and_raises() -> None:
    class Plain(Extension):
        def before_execute(self, ctx: ToolContext) -> Any:
            raise RuntimeError("out of order")

    work = Counted()
    async with ToolHost([work.tool], extensions=[Plain()]) as host:
        await assert_refused(host, await host.call("work"), "guard_failed", work)


async def test_an_extension_that_is_not_async() -> None:
    class Plain(Extension):
        def before_execute(self, ctx: ToolContext) -> Any:
            return None

    work = Counted()
    async with ToolHost([work.tool], extensions=[Plain()]) as host:
        await assert_refused(host, await host.call("work"), "guard_failed", work)


async def test_an_extension_that_hangs_before_the_tool() -> None:
    work = Counted(timeout=0.05)
    async with ToolHost([work.tool], extensions=[Before(asyncio.Event().wait)]) as host:
        await assert_refused(host, await host.call("work"), "timeout", work, status="error")


async def test_an_extension_may_refuse_with_its_own_reason() -> None:
    class Strict(Extension):
        async def before_execute(self, ctx: ToolContext) -> None:
            ctx.deny("branch_prefix_required", "call it managed/…")

    work = Counted()
    async with ToolHost([work.tool], extensions=[Strict()]) as host:
        await assert_refused(host, await host.call("work"), "branch_prefix_required", work)


class Around(Extension):
    """An extension that wraps the whole attempt."""

    def __init__(self, act: Callable[[Any, ToolContext], Awaitable[Any]]) -> None:
        self._act = act

    async def __call__(self, ctx: ToolContext, call_next: Any) -> Any:
        return await self._act(call_next, ctx)


async def around_raises(call_next: Any, ctx: ToolContext) -> Any:
    raise RuntimeError("out of order")


async def around_nothing(call_next: Any, ctx: ToolContext) -> Any:
    return None


async def around_nonsense(call_next: Any, ctx: ToolContext) -> Any:
    return {"status": "ok"}


async def around_forgets(call_next: Any, ctx: ToolContext) -> Any:
    coroutine = call_next(ctx)
    coroutine.close()
    return coroutine


@pytest.mark.parametrize("act", [around_raises, around_nothing, around_nonsense, around_forgets])
async def test_an_extension_around_the_tool_that_never_calls_it(act: Any) -> None:
    work = Counted()
    async with ToolHost([work.tool], extensions=[Around(act)]) as host:
        await assert_refused(host, await host.call("work"), "guard_failed", work)


async def test_an_extension_that_fails_afterwards_does_not_hide_that_the_tool_ran() -> None:
    class After(Extension):
        async def after_execute(self, ctx: ToolContext, result: ToolResult) -> ToolResult:
            raise RuntimeError("too late")

    async def ran_then_raised(call_next: Any, ctx: ToolContext) -> Any:
        await call_next(ctx)
        raise RuntimeError("too late")

    for extension in (After(), Around(ran_then_raised)):
        work = Counted()
        async with ToolHost([work.tool], extensions=[extension]) as host:
            result = await host.call("work", {"n": 7})
            assert (result.status, result.output, work.runs) == ("ok", 7, 1)


# Arguments that are out of order are the caller's mistake, and reach no guard.


class Hostile(Mapping[str, Any]):
    """A mapping that cannot be read."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("no")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("no")

    def __len__(self) -> int:
        return 1


class Text(str):
    """Text that lies when compared."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True


def circle() -> dict[str, Any]:
    ring: dict[str, Any] = {}
    ring["text"] = ring
    return ring


@pytest.mark.parametrize(
    "arguments",
    [
        Hostile(),
        ["text"],
        "text",
        7,
        circle(),
        {"text": b"bytes"},
        {"text": object()},
        {"text": "\ud800"},
        {"text": float("nan")},
        {1: "text"},
        {"text": {"a"}},
        {"text": "x" * 2_000_000},
    ],
    ids=lambda value: type(value).__name__,
)
async def test_arguments_that_are_no_json(arguments: Any) -> None:
    work = Counted()

    @tool(effects={"read"}, name="say")
    async def say(text: str) -> str:
        work.runs += 1
        return text

    async with ToolHost([say]) as host:
        result = await host.call("say", arguments)
        await assert_refused(host, result, "invalid_arguments", work, status="error")
        assert (await host.call("say", {"text": "still here"})).success


async def test_a_constraint_is_not_fooled_by_text_that_lies() -> None:
    work = Counted()

    @tool(effects={"read"}, name="say")
    async def say(text: str) -> str:
        work.runs += 1
        return text

    rule = {"allow": "say", "when": {"arguments": {"text": {"in": ["good"]}}}}
    async with ToolHost([say], config={"profiles": {"only": {"rules": [rule]}}}) as host:
        result = await host.call("say", {"text": Text("evil")})
        assert result.status != "ok"
        assert work.runs == 0


@pytest.mark.parametrize(
    "given", [{"text": None}, {"text": 5}, {}, {"text": ["good", "bad"]}, {"text": []}]
)
async def test_a_constraint_on_a_value_of_another_type_does_not_hold(given: Any) -> None:
    work = Counted()

    @tool(effects={"read"}, name="say")
    async def say(text: Any = None) -> int:
        work.runs += 1
        return 1

    rule = {"allow": "say", "when": {"arguments": {"text": {"prefix": "good"}}}}
    async with ToolHost([say], config={"profiles": {"only": {"rules": [rule]}}}) as host:
        await assert_refused(host, await host.call("say", given), "argument_not_allowed", work)


@dataclass
class Point:
    x: int

    def __post_init__(self) -> None:
        if self.x < 0:
            raise LookupError("there is nothing on that side")


async def test_a_conversion_that_fails_is_the_arguments_fault() -> None:
    work = Counted()
    async with ToolHost([fragile(work)]) as host:
        result = await host.call("fragile", {"point": {"x": -1}})
        await assert_refused(host, result, "invalid_arguments", work, status="error")
        assert host.explain("fragile", {"point": {"x": -1}}).reason == "invalid_arguments"


def fragile(work: Counted) -> Any:
    """A tool with an argument type that refuses some values."""

    @tool(effects={"read"}, name="fragile")
    async def run(point: Point) -> int:
        work.runs += 1
        return point.x

    return run


# The clock of the limits.


class Stopped:
    """A clock that breaks when it is told to."""

    def __init__(self) -> None:
        self.broken = False

    def time(self) -> float:
        return 1_000_000.0

    def monotonic(self) -> float:
        if self.broken:
            raise RuntimeError("the clock has stopped")
        return 1_000_000.0


@pytest.mark.parametrize(
    "limits",
    [
        {"calls": "5/min"},
        {"quota": "5/min"},
        {"calls": "5/min", "concurrent": 1},
        {"repeat": "5/min"},
    ],
    ids=lambda value: "+".join(value),
)
@pytest.mark.parametrize("from_the_start", [True, False])
async def test_limits_whose_clock_fails(limits: dict[str, Any], from_the_start: bool) -> None:
    work, clock = Counted(), Stopped()
    clock.broken = from_the_start
    config = allowing("work", limits=limits)
    async with ToolHost([work.tool], config=config, clock=clock) as host:
        if not from_the_start:
            assert (await host.call("work")).success
            work.runs, clock.broken = 0, True
        await assert_refused(host, await host.call("work"), "guard_failed", work)


SLOW = {"version": 1, "host": {"guard_time": "20ms"}}


def _slowly() -> Decision:
    time.sleep(0.05)
    return Decision.allow()


class Slow(ToolPolicy):
    """A policy that takes its time."""

    def check(self, ctx: ToolContext) -> Decision | None:
        _slowly()
        return None


@pytest.mark.parametrize("guard", ["gate", "policy"])
async def test_a_guard_that_takes_too_long_refuses(guard: str) -> None:
    ran: list[int] = []
    policy = Slow if guard == "policy" else None

    @tool(effects=["read"], policy=policy)
    async def look() -> None:
        """Look."""
        ran.append(1)

    gates = [Gate(check=_slowly)] if guard == "gate" else []
    async with ToolHost([look], config=SLOW, gates=gates) as host:
        result = await host.call("look")
        assert (result.status, result.reason) == ("denied", "guard_failed")
        assert ran == []
        types = [event.type for event in await host.trail(call_id=result.call_id)]
        assert types[-1] == "call.denied"


async def test_a_guard_that_takes_too_long_after_a_wait_refuses() -> None:
    ran: list[int] = []
    calls: list[int] = []

    class Later(ToolPolicy):
        def check(self, ctx: ToolContext) -> Decision | None:
            calls.append(1)
            if len(calls) > 1:
                _slowly()
            return None

    @tool(effects=["read"], policy=Later, requires_approval=True)
    async def look() -> None:
        """Look."""
        ran.append(1)

    async with ToolHost([look], config=SLOW, approver=lambda request: True) as host:
        result = await host.call("look")
    assert (result.status, result.reason) == ("denied", "guard_failed")
    assert ran == []


async def test_what_asks_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is loaded with the first question, which may be long after the start."""
    work = Counted(requires_approval=True)
    async with ToolHost([work.tool], config=allowing(), approver=lambda _: True) as host:
        with monkeypatch.context() as gone:
            gone.delattr("toolcrib.approvals.inbox", raising=False)
            gone.setitem(sys.modules, "toolcrib.approvals.inbox", None)
            await assert_refused(host, await host.call("work"), "guard_failed", work)
        assert (await host.call("work")).status == "ok"
