"""Every way a call can end leaves one arrival and one ending, whether anybody listens or not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from support import ENDINGS, Counted, allowing, asked, lasting, numbers

from toolcrib import Decision, Event, Principal, ToolContext, ToolFailure, ToolHost, tool
from toolcrib.host.history import History, Wanted
from toolcrib.stores.memory import MemoryStore
from toolcrib.testing import ApprovalSimulator

OWN = ("call.received", "call.decided", "call.started", *ENDINGS)
"""The events that a call's own records stand for."""


class Stage:
    """Makes the host of one scene, and keeps what its listener heard."""

    def __init__(self, live: bool) -> None:
        self.heard: list[Event] = []
        self.store = MemoryStore()
        self.host: ToolHost
        self._live = live

    def open(self, *tools: Any, **options: Any) -> ToolHost:
        self.host = ToolHost(tools, store=self.store, **options)
        if self._live:
            self.host.on_event(self.heard.append)
        return self.host

    async def read(self, call_id: str) -> list[Event]:
        """What is stored about a call, and what was heard of it."""
        await self.store.open()  # the scene may have stopped the host
        self.store.poke(now=True)
        stored = await History(self.store).search(Wanted(call_id=call_id))
        if self._live:
            heard = [e for e in self.heard if e.call_id == call_id and e.id]
            assert [e.id for e in heard] == [e.id for e in stored]
            assert list(map(lasting, heard)) == list(map(lasting, stored))
        return stored


class Scene(NamedTuple):
    """How a call comes to end, and the ending that it should have."""

    play: Callable[[Stage], Awaitable[str]]
    status: str
    reason: str | None = None
    started: bool = False


SCENES: dict[str, Scene] = {}


def scene(status: str, reason: str | None = None, *, started: bool = False) -> Any:
    def put(play: Callable[[Stage], Awaitable[str]]) -> Any:
        SCENES[play.__name__] = Scene(play, status, reason, started)
        return play

    return put


async def called(stage: Stage, *args: Any, **options: Any) -> str:
    """Call; the result must say what the trail will say."""
    result = await stage.host.call(*args, **options)
    return result.call_id


@scene("ok", started=True)
async def a_number(stage: Stage) -> str:
    stage.open(Counted().tool)
    return await called(stage, "work", {"n": 4})


@scene("ok", started=True)
async def a_nested_output(stage: Stage) -> str:
    @tool(effects={"read"}, inline=True)
    def nest(text: str) -> dict[str, Any]:
        return {"a": [1, {"b": text}], "c": None}

    stage.open(nest)
    return await called(stage, "nest", {"text": "x"})


@scene("ok", started=True)
async def a_write(stage: Stage) -> str:
    stage.open(Counted(effects={"write"}).tool)
    return await called(stage, "work")


@scene("ok", started=True)
async def in_a_session(stage: Stage) -> str:
    stage.open(Counted().tool)
    async with stage.host.session(principal="ann") as session:
        return (await session.call("work")).call_id


@scene("error", "invalid_arguments")
async def invalid_arguments(stage: Stage) -> str:
    stage.open(Counted().tool)
    return await called(stage, "work", {"n": "x"})


@scene("error", "unknown_tool")
async def unknown_tool(stage: Stage) -> str:
    stage.open(Counted().tool)
    return await called(stage, "wrok")


@scene("denied", "not_in_profile")
async def not_in_profile(stage: Stage) -> str:
    stage.open(Counted().tool, config={"profiles": {"only": {}}})
    return await called(stage, "work")


@scene("denied", "not_in_profile")
async def concealed(stage: Stage) -> str:
    stage.open(Counted().tool, config={"profiles": {"only": {"conceal": True}}})
    result = await stage.host.call("work")
    assert result.reason == "unknown_tool"  # what the caller is told
    return result.call_id


@scene("denied", "unauthenticated")
async def unknown_session(stage: Stage) -> str:
    stage.open(Counted().tool)
    return await called(stage, "work", session="s-unknown")


@scene("denied", "denied_by_rule")
async def denied_by_rule(stage: Stage) -> str:
    rule = {"deny": "work", "when": {"arguments": {"n": {"min": 5}}}}
    stage.open(Counted().tool, config={"profiles": {"p": {"default": "allow", "rules": [rule]}}})
    return await called(stage, "work", {"n": 7})


@scene("denied", "role_required")
async def role_required(stage: Stage) -> str:
    rule = {"allow": "work", "when": {"roles": ["boss"]}}
    stage.open(Counted().tool, config={"profiles": {"p": {"rules": [rule]}}})
    return await called(stage, "work", principal=Principal("ann", roles=["clerk"]))


@scene("denied", "rate_limited")
async def rate_limited(stage: Stage) -> str:
    stage.open(Counted().tool, config=allowing("work", limits={"calls": "1/h"}))
    await stage.host.call("work")
    return await called(stage, "work")


@scene("denied", "quota_exceeded")
async def quota_exceeded(stage: Stage) -> str:
    stage.open(Counted().tool, config=allowing("work", limits={"budget": 1}))
    await stage.host.call("work")
    return await called(stage, "work")


@scene("denied", "loop_detected")
async def loop_detected(stage: Stage) -> str:
    stage.open(Counted().tool, config=allowing("work", limits={"repeat": "1/h"}))
    await stage.host.call("work")
    return await called(stage, "work")


def waiting(entered: asyncio.Event, leave: asyncio.Event, **fields: Any) -> Any:
    """A tool that runs until it is let go."""

    @tool(name="wait", **{"effects": {"read"}, **fields})
    async def wait() -> int:
        entered.set()
        await leave.wait()
        return 1

    return wait


@scene("denied", "too_many_calls")
async def too_many_calls(stage: Stage) -> str:
    entered, leave = asyncio.Event(), asyncio.Event()
    limits = {"concurrent": 1, "queue": 0}
    stage.open(waiting(entered, leave), config=allowing("wait", limits=limits))
    first = asyncio.ensure_future(stage.host.call("wait"))
    await entered.wait()
    call_id = await called(stage, "wait")
    leave.set()
    await first
    return call_id


@scene("denied", "call_depth_exceeded")
async def call_depth_exceeded(stage: Stage) -> str:
    deepest: list[str] = []

    @tool(effects={"read"})
    async def again(ctx: ToolContext) -> int:
        result = await ctx.call("again")
        if result.reason == "call_depth_exceeded":
            deepest.append(result.call_id)
        return ctx.depth

    stage.open(again)
    await stage.host.call("again")
    return deepest[0]


@scene("denied", "definition_changed")
async def definition_changed(stage: Stage) -> str:
    stage.open(Counted().tool, config=allowing("work", pins={"work": "0" * 64}))
    return await called(stage, "work")


def asking(**script: Any) -> ApprovalSimulator:
    return ApprovalSimulator(script)


@scene("ok", started=True)
async def approval_allowed(stage: Stage) -> str:
    stage.open(Counted(requires_approval=True).tool, approver=asking(work="allow"))
    return await called(stage, "work")


@scene("denied", "approval_rejected")
async def approval_rejected(stage: Stage) -> str:
    stage.open(Counted(requires_approval=True).tool, approver=asking(work="deny"))
    return await called(stage, "work")


@scene("denied", "approval_expired")
async def approval_expired(stage: Stage) -> str:
    config = allowing("work", approval={"timeout": "30ms"})
    stage.open(Counted(requires_approval=True).tool, config=config)
    return await called(stage, "work")


@scene("ok", started=True)
async def approval_edited(stage: Stage) -> str:
    from toolcrib import ApprovalDecision

    changed = ApprovalDecision(answer="allow", arguments={"n": 9}, by="ann")
    config = allowing("work", approval={"edit": True})
    work = Counted(requires_approval=True)
    stage.open(work.tool, config=config, approver=asking(work=changed))
    result = await stage.host.call("work", {"n": 1})
    assert result.output == 9
    assert result.metadata["arguments_edited"] is True
    return result.call_id


@scene("error", "invalid_arguments")
async def approval_edited_badly(stage: Stage) -> str:
    from toolcrib import ApprovalDecision

    changed = ApprovalDecision(answer="allow", arguments={"n": "x"}, by="ann")
    config = allowing("work", approval={"edit": True})
    stage.open(Counted(requires_approval=True).tool, config=config, approver=asking(work=changed))
    return await called(stage, "work", {"n": 1})


@scene("denied", "definition_changed")
async def changed_while_a_person_thought(stage: Stage) -> str:
    def swap(request: Any) -> bool:
        stage.host.register(
            Counted(requires_approval=True, description="another").tool, replace=True
        )
        return True

    stage.open(Counted(requires_approval=True).tool, approver=asking(work=swap))
    return await called(stage, "work")


@scene("denied", "no_approver")
async def no_approver(stage: Stage) -> str:
    config = allowing("work", approval={"via": []})
    stage.open(Counted(requires_approval=True).tool, config=config)
    return await called(stage, "work")


@scene("denied", "guard_failed")
async def guard_failed(stage: Stage) -> str:
    class Broken:
        name = "broken"

        def visible(self, spec: Any, principal: Any, profile: Any) -> bool:
            return True

        def check(self, ctx: ToolContext) -> Decision:
            raise RuntimeError("out of order")

    stage.open(Counted().tool, gates=[Broken()])
    return await called(stage, "work")


@scene("error", "timeout", started=True)
async def timeout(stage: Stage) -> str:
    stage.open(waiting(asyncio.Event(), asyncio.Event(), timeout=0.03))
    return await called(stage, "wait")


@scene("error", "timeout", started=True)
async def timeout_of_a_write(stage: Stage) -> str:
    stage.open(waiting(asyncio.Event(), asyncio.Event(), timeout=0.03, effects={"write"}))
    return await called(stage, "wait")


@scene("error", "cancelled", started=True)
async def cancelled_by_the_host(stage: Stage) -> str:
    entered = asyncio.Event()
    stage.open(waiting(entered, asyncio.Event()))
    running = asyncio.ensure_future(stage.host.call("wait", call_id="c-host"))
    await entered.wait()
    assert stage.host.cancel("c-host")
    assert (await running).reason == "cancelled"
    return "c-host"


@scene("error", "cancelled", started=True)
async def cancelled_by_the_caller(stage: Stage) -> str:
    entered = asyncio.Event()
    stage.open(waiting(entered, asyncio.Event()))
    running = asyncio.ensure_future(stage.host.call("wait", call_id="c-caller"))
    await entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    return "c-caller"


@scene("error", "cancelled")
async def cancelled_while_a_person_thinks(stage: Stage) -> str:
    stage.open(Counted(requires_approval=True).tool)
    running = asyncio.ensure_future(stage.host.call("work", call_id="c-asked"))
    await asked(stage.host)
    assert stage.host.cancel("c-asked")
    assert (await running).reason == "cancelled"
    return "c-asked"


@scene("error", "tool_error", started=True)
async def tool_error(stage: Stage) -> str:
    @tool(effects={"read"})
    async def fail() -> int:
        raise ToolFailure("no such row")

    stage.open(fail)
    return await called(stage, "fail")


@scene("denied", "path_outside_root", started=True)
async def denial_inside_the_tool(stage: Stage) -> str:
    @tool(effects={"read"})
    async def fail(ctx: ToolContext) -> int:
        ctx.deny("path_outside_root", "that is not below the folder")

    stage.open(fail)
    return await called(stage, "fail")


@scene("error", "unexpected_failure", started=True)
async def unexpected_failure(stage: Stage) -> str:
    @tool(effects={"read"})
    async def fail() -> int:
        raise ZeroDivisionError("not for the caller's eyes")

    stage.open(fail)
    result = await stage.host.call("fail")
    assert "eyes" not in str(result.to_dict())
    assert result.call_id in result.error.message
    return result.call_id


@scene("error", "invalid_output", started=True)
async def invalid_output(stage: Stage) -> str:
    @tool(effects={"read"}, output_schema={"type": "integer"})
    async def fail() -> Any:
        return "text"

    stage.open(fail)
    return await called(stage, "fail")


@scene("error", "host_stopping")
async def host_stopping(stage: Stage) -> str:
    entered, leave = asyncio.Event(), asyncio.Event()
    stage.open(waiting(entered, leave), Counted().tool)
    first = asyncio.ensure_future(stage.host.call("wait"))
    await entered.wait()
    stopping = asyncio.ensure_future(stage.host.stop())
    await asyncio.sleep(0.02)
    call_id = await called(stage, "work")
    leave.set()
    assert (await first).success
    await stopping
    return call_id


@scene("error", "host_stopping", started=True)
async def stopped_by_the_host(stage: Stage) -> str:
    entered = asyncio.Event()
    stage.open(waiting(entered, asyncio.Event()), config={"host": {"drain": "10ms"}})
    running = asyncio.ensure_future(stage.host.call("wait", call_id="c-stop"))
    await entered.wait()
    await stage.host.stop()
    assert (await running).reason == "host_stopping"
    return "c-stop"


@pytest.mark.parametrize("name", SCENES)
async def test_one_arrival_and_one_ending(name: str) -> None:
    wanted = SCENES[name]
    told: dict[bool, list[Any]] = {}
    for live in (False, True):
        stage = Stage(live)
        call_id = await wanted.play(stage)
        events = await stage.read(call_id)
        own = [event for event in events if event.type in OWN]
        types = [event.type for event in own]
        assert types.count("call.received") == 1
        assert types[0] == "call.received"
        assert [t for t in types if t in ENDINGS] == types[-1:]
        assert ("call.started" in types) is wanted.started
        ending = own[-1]
        assert ending.type == ("call.denied" if wanted.status == "denied" else "call.finished")
        assert (ending.data["status"], ending.data["reason"]) == (wanted.status, wanted.reason)
        ids = [numbers(event) for event in events]
        assert ids == sorted(set(ids))
        assert all(a.time <= b.time + 0.001 for a, b in pairwise(own))
        told[live] = [lasting(event) for event in own]
        await stage.host.stop()
    strip_sessions(told)
    assert told[False] == told[True]


def strip_sessions(told: dict[bool, list[Any]]) -> None:
    """Sessions and parents have ids of their own in each run, and a failure names its call."""
    for events in told.values():
        for _, data in events:
            for key in ("session", "parent", "message"):
                if data.get(key) is not None:
                    data[key] = "…"


async def test_a_call_that_says_something_on_the_way_still_begins_with_its_arrival() -> None:
    tries: list[int] = []

    @tool(effects={"read"}, retry={"attempts": 2, "backoff": 0})
    async def chatty(ctx: ToolContext) -> int:
        ctx.emit("trying", number=ctx.attempt)
        tries.append(1)
        if len(tries) == 1:
            raise ToolFailure("once more", retryable=True)
        return 1

    async with ToolHost([chatty]) as host:
        result = await host.call("chatty")
        types = [event.type for event in await host.trail(call_id=result.call_id)]
        assert types.count("tool.emitted") == 2
        assert types.count("call.attempt") == 1
        assert types[0] == "call.received"
        assert types[-1] == "call.finished"


async def test_ids_never_repeat_and_only_grow_over_many_calls() -> None:
    heard: list[Event] = []
    work = Counted()
    async with ToolHost([work.tool], config=allowing("work", limits={"budget": 30})) as host:
        host.on_event(heard.append)
        await asyncio.gather(*(host.call("work", {"n": n % 7}) for n in range(60)))
        ids = [numbers(event) for event in heard if event.id]
        stored = [numbers(event) for event in await host.trail()]
        assert len(set(ids)) == len(ids)
        assert ids == sorted(ids)
        assert stored[-len(ids) :] == ids
        endings = [event for event in heard if event.type in ENDINGS]
        assert len(endings) == 60
        assert sum(event.type == "call.denied" for event in endings) == 30
        assert len({event.call_id for event in endings}) == 60


async def test_switching_listeners_off_does_not_switch_the_trail_off() -> None:
    heard: list[Event] = []
    async with ToolHost([Counted().tool], config={"profiles": {"p": {}}}) as host:
        stop = host.on_event(heard.append)
        stop()
        result = await host.call("work")
        assert heard == []
        assert [e.type for e in await host.trail(call_id=result.call_id)][-1] == "call.denied"


async def test_a_listener_that_fails_changes_nothing() -> None:
    def broken(event: Event) -> None:
        raise RuntimeError("not listening")

    work = Counted()
    async with ToolHost([work.tool]) as host:
        host.on_event(broken)
        assert (await host.call("work", {"n": 3})).output == 3
        assert work.runs == 1
