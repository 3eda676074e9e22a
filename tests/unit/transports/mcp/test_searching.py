"""The MCP door under a profile with more tools than an agent can look through."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from mcp_door import ERAS, Client, Door, opened
from toolcrib import tool
from toolcrib.transports.mcp.asked import Endpoint

CONFIG: dict[str, Any] = {
    "version": 1,
    "host": {"profile": "plain"},
    "profiles": {
        "plain": {
            "rules": [{"allow": "tool_*"}, {"ask": "send_mail"}],
            "listing": {"tools": 5, "pinned": ["tool_03"]},
        },
        "few": {"rules": [{"allow": "tool_01"}], "listing": {"tools": 5}},
    },
    "principals": {"ann": {"profiles": ["plain", "few"]}},
}


def numbered(number: int) -> Any:
    async def made(a: int) -> int:
        """One of many."""
        return a + number

    return tool(name=f"tool_{number:02}", effects=["read"])(made)


@tool(effects=["write"])
async def send_mail(to: str) -> dict[str, str]:
    """Send a letter."""
    return {"sent": to}


@tool(effects=["read"])
async def vault() -> str:
    """One of many that is hidden."""
    return "gold"


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with opened([*(numbered(n) for n in range(10)), send_mail, vault], CONFIG) as door:
        yield door


async def names(door: Door, era: str, **more: Any) -> list[str]:
    listed = await door.answer(ERAS[era]("tools/list"), **more)
    return [each["name"] for each in listed["tools"]]


async def call(door: Door, era: str, name: str, arguments: Any, **more: Any) -> dict[str, Any]:
    asked = ERAS[era]("tools/call", {"name": name, "arguments": arguments})
    return await door.answer(asked, **more)


@pytest.mark.parametrize("era", ERAS)
async def test_only_the_way_to_the_tools_is_listed(door: Door, era: str) -> None:
    expected = ["call_tool", "describe_tool", "search_tools", "tool_03"]
    assert await names(door, era) == expected
    assert await names(door, era, endpoint=Endpoint(profile="few")) == ["tool_01"]


@pytest.mark.parametrize("era", ERAS)
async def test_find_describe_call(door: Door, era: str) -> None:
    found = await call(door, era, "search_tools", {"query": "one of many", "limit": 50})
    assert [t["name"] for t in found["structuredContent"]["tools"]] == [
        f"tool_{n:02}" for n in range(10)
    ]
    told = await call(door, era, "describe_tool", {"name": "tool_07"})
    assert told["structuredContent"]["inputSchema"]["required"] == ["a"]
    inner = {"name": "tool_07", "arguments": {"a": 1}}
    assert await call(door, era, "call_tool", inner) == await call(door, era, "tool_07", {"a": 1})


@pytest.mark.parametrize("era", ERAS)
async def test_what_is_not_allowed_is_refused_with_the_rule(door: Door, era: str) -> None:
    refused = await call(door, era, "call_tool", {"name": "vault"})
    assert refused["isError"] is True
    assert refused["_meta"]["toolcrib/failure"]["reason"] == "not_in_profile"


async def test_an_inner_call_asks_through_the_client(door: Door) -> None:
    asked: list[str] = []

    async def person(method: str, params: Mapping[str, Any]) -> Any:
        asked.append(params["message"])
        return {"action": "accept", "content": {"decision": "allow"}}

    inner = {"name": "send_mail", "arguments": {"to": "eve"}}
    sent = await call(door, "handshake", "call_tool", inner, client=Client(person))
    assert sent["structuredContent"] == {"sent": "eve"}
    assert len(asked) == 1
    assert "send_mail" in asked[0]
