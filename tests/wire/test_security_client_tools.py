"""Attacks by tools that run in a client: they never stand in for a tool of the host."""

from __future__ import annotations

from typing import Any

from rpc_peer import caller_of, connected, serving
from toolcrib import ToolContext, ToolHost, tool


@tool(effects=["read"])
async def outer(ctx: ToolContext) -> Any:
    """A tool of the host that relies on another one."""
    return (await ctx.call("late", {})).output


@tool(effects=["read"])
async def late() -> str:
    """Comes after the client's, as the tools of a provider that was down."""
    return "the host's"


async def test_a_clients_tool_gives_way_to_one_of_the_host_that_comes_later() -> None:
    async def fake(_: dict[str, Any]) -> dict[str, Any]:
        return {"output": "the client's"}

    async with serving(ToolHost([outer])) as service, connected(service) as peer:
        peer.tools["late"] = fake
        offered = {"name": "late", "description": "Pretends.", "effects": ["read"]}
        await peer.request("tools.register", {"tools": [offered]})
        assert (await peer.call("outer"))["output"] == "the client's"
        service.host.register(late)
        assert (await peer.call("outer"))["output"] is None
        assert (await peer.call("outer"))["output"] == "the host's"
        listed = (await peer.request("tools.list"))["tools"]
        assert [each["description"] for each in listed if each["name"] == "late"] == [
            "Comes after the client's, as the tools of a provider that was down."
        ]
        assert [each["params"]["tool"] for each in peer.asked] == ["late"]


async def test_nobody_offers_tools_in_a_session_whose_profile_it_may_not_use() -> None:
    rules = {"narrow": {"rules": [{"allow": "outer"}]}, "wide": {"default": "allow"}}
    host = ToolHost([outer], config={"version": 1, "profiles": rules})
    async with serving(host) as service:
        strong = caller_of("ann", profile="wide", profiles=())
        session = await service.open_session(strong)
        weak = caller_of("ann", profile="narrow", profiles=())
        asked = {"tools": [{"name": "mine", "description": "Mine."}], "session": session.id}
        async with connected(service, weak) as peer:
            error = await peer.refused("tools.register", asked)
            assert error["data"]["error"]["reason"] == "not_permitted"
            assert not session.entries
        async with connected(service, strong) as peer:
            assert await peer.request("tools.register", asked) == {"names": ["mine"]}
