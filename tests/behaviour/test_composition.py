"""Tools that call tools: the same authority, never more, and a trail that shows who called whom."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support import Counted, allowing, asked, assert_one_ending

from toolcrib import Event, Principal, ToolContext, ToolHost, tool


def calling(name: str, **fields: Any) -> Any:
    """A tool `outer` that calls another one and tells how that ended."""

    @tool(**{"name": "outer", "effects": {"read"}, **fields})
    async def outer(ctx: ToolContext, n: int = 1) -> dict[str, Any]:
        result = await ctx.call(name, {"n": n})
        return {"id": result.call_id, "reason": result.reason, "output": result.output}

    return outer


async def test_a_tool_calls_another_with_the_same_authority() -> None:
    seen: list[Any] = []

    @tool(effects={"read"})
    async def who(ctx: ToolContext, n: int = 1) -> str:
        seen.append((ctx.principal, ctx.profile.name, ctx.session_id, ctx.depth))
        return ctx.principal.name

    ann = Principal("ann", roles=["r"], permissions=["p"])
    host = ToolHost([calling("who"), who], config=allowing())
    async with host, host.session(principal=ann) as session:
        result = await session.call("outer")
        assert result.output["output"] == "ann"
        assert seen == [(ann, "only", session.id, 1)]


@pytest.mark.parametrize(
    ("config", "fields", "reason"),
    [
        (allowing("outer"), {}, "not_in_profile"),
        (allowing(), {"permissions": ["root"]}, "role_required"),
        (
            {"profiles": {"p": {"default": "allow", "rules": [{"deny": "inner"}]}}},
            {},
            "denied_by_rule",
        ),
    ],
    ids=["outside the profile", "without the permission", "denied"],
)
async def test_a_tool_cannot_widen_what_its_caller_may(
    config: Any, fields: dict[str, Any], reason: str
) -> None:
    inner = Counted("inner", **fields)
    async with ToolHost([calling("inner"), inner.tool], config=config) as host:
        result = await host.call("outer", principal=Principal("ann", permissions=["other"]))
        assert (result.status, result.output["reason"]) == ("ok", reason)
        assert inner.runs == 0


async def test_a_tool_that_needs_approval_is_asked_about_inside_a_tool_too() -> None:
    inner = Counted("inner", requires_approval=True)
    async with ToolHost([calling("inner"), inner.tool]) as host:
        call = asyncio.ensure_future(host.call("outer"))
        await host.approvals.decide((await asked(host)).id, allow=False, note="not today")
        assert (await call).output["reason"] == "approval_rejected"
        assert inner.runs == 0


@pytest.mark.parametrize(
    ("inner", "config"),
    [("inner", None), ("inner", allowing("outer")), ("nobody", None), ("inner", allowing())],
    ids=["runs", "denied", "unknown", "allowed"],
)
async def test_the_trail_shows_who_called_whom(inner: str, config: Any) -> None:
    async with ToolHost([calling(inner), Counted("inner").tool], config=config) as host:
        result = await host.call("outer")
        received = {
            e.call_id: e.data["parent"] for e in await host.trail() if e.type == "call.received"
        }
        assert received == {result.call_id: None, result.output["id"]: result.call_id}
        await assert_one_ending(host, result.output["id"])


async def test_arguments_of_inner_calls_are_checked() -> None:
    inner = Counted("inner")

    @tool(effects={"read"})
    async def outer(ctx: ToolContext) -> Any:
        return (await ctx.call("inner", {"n": "x"})).reason

    async with ToolHost([outer, inner.tool]) as host:
        assert (await host.call("outer")).output == "invalid_arguments"
        assert inner.runs == 0


async def test_tools_cannot_call_each_other_for_ever() -> None:
    depths: list[int] = []

    @tool(effects={"read"})
    async def again(ctx: ToolContext) -> str | None:
        depths.append(ctx.depth)
        result = await ctx.call("again")
        return result.reason or result.output

    config = {"profiles": {"p": {"default": "allow", "max_depth": 3}}}
    async with ToolHost([again], config=config) as host:
        assert (await host.call("again")).output == "call_depth_exceeded"
        assert depths == [0, 1, 2, 3]


async def test_inner_calls_run_side_by_side() -> None:
    both = asyncio.Barrier(2)

    @tool(effects={"read"})
    async def meet(n: int) -> int:
        await both.wait()
        return n

    @tool(effects={"read"})
    async def outer(ctx: ToolContext) -> list[int]:
        results = await asyncio.gather(ctx.call("meet", {"n": 1}), ctx.call("meet", {"n": 2}))
        return [r.unwrap() for r in results]

    async with ToolHost([outer, meet]) as host:
        assert (await asyncio.wait_for(host.call("outer"), 3)).output == [1, 2]


async def test_what_a_tool_says_on_the_way() -> None:
    @tool(effects={"read"})
    async def chatty(ctx: ToolContext) -> int:
        ctx.progress(0.5, "half way")
        ctx.log("a line", row=3)
        ctx.emit("exported", rows=7, password="hunter2")
        return 1

    heard: list[Event] = []
    async with ToolHost([chatty]) as host:
        host.on_event(heard.append)
        result = await host.call("chatty")
        mine = {e.type: e for e in heard if e.call_id == result.call_id}
        assert mine["call.progress"].data["fraction"] == 0.5
        assert mine["call.progress"].data["message"] == "half way"
        assert mine["tool.log"].data["message"] == "a line"
        assert mine["tool.emitted"].data["name"] == "exported"
        assert mine["tool.emitted"].data["data"]["rows"] == 7
        assert "hunter2" not in str([e.data for e in heard])
        stored = [e.type for e in await host.trail(call_id=result.call_id)]
        assert "tool.emitted" in stored
        assert "call.progress" not in stored
        assert "tool.log" not in stored


async def test_a_context_that_stands_alone_says_so() -> None:
    ctx = ToolContext(session_id="123")
    assert (ctx.session_id, ctx.environment, ctx.principal.name) == ("123", {}, "local")
    ctx.progress(0.1)
    with pytest.raises(Exception, match="stands alone"):
        await ctx.call("other")
