"""MCP clients that want more than they may: other people's ids, and tools that are hidden."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any

import pytest

from executing import until
from http_gateway import CONFIG, gateway, settings
from mcp_client import CAPABILITIES, Client, message, meta, modern, modern_headers, streams_closed
from toolcrib import tool
from toolcrib.core.context import ToolContext
from toolcrib.core.serving import McpSettings, TokenSettings

WEAK = "tcr_weak_0123456789abcdef"
"""A second token of the boss, which is held to the profile `other`."""


@pytest.fixture(autouse=True)
async def _closing() -> AsyncIterator[None]:
    async with streams_closed():
        yield


def with_weak() -> dict[str, Any]:
    weak = TokenSettings(
        name="weak",
        hash=f"sha256:{hashlib.sha256(WEAK.encode()).hexdigest()}",
        principal="boss",
        profile="other",
    )
    return {"tokens": (*settings().tokens, weak)}


def config(**profiles: Any) -> dict[str, Any]:
    made = deepcopy(CONFIG)
    made["profiles"] |= profiles
    made["principals"]["boss"]["profiles"] = ["work", "other", *profiles]
    return made


async def test_an_old_stream_lends_nobody_the_credentials_that_opened_it() -> None:
    """The address of a stream names it. Who sends there has the rights of its own credentials."""
    async with gateway(other={"mcp": McpSettings(sse=True), **with_weak()}) as gate:
        stream = await Client(gate, path="/mcp/sse").stream("GET")
        first = await stream.next()
        assert first is not None
        hello = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {}}
        owner = Client(gate, path=first.data)
        assert (await owner.post(message("initialize", hello, 0))).status == 202
        await stream.message()
        thief = Client(gate, path=first.data, who=WEAK)
        echo = {"name": "echo", "arguments": {"value": 1}}
        refused = await thief.post(message("tools/call", echo, 1))
        assert refused.status == 404
        assert (await owner.post(message("tools/call", echo, 2))).status == 202
        assert (await stream.message())["id"] == 2
        assert len(gate.recorder.only("call.received")) == 1


async def test_a_session_lends_nobody_the_credentials_that_opened_it() -> None:
    async with gateway(other=with_weak()) as gate:
        owner = Client(gate)
        await owner.open()
        thief = Client(gate, who=WEAK)
        thief.session, thief.version = owner.session, owner.version
        reply = await thief.post(message("tools/call", {"name": "echo", "arguments": {}}))
        assert "not_in_profile" in reply.body.decode() or "Unknown tool" in reply.body.decode()
        assert not gate.recorder.only("call.started")


def asks() -> Any:
    @tool(effects=["read"])
    async def ask(ctx: ToolContext) -> str:
        """Ask the client."""
        question = {"method": "elicitation/create", "params": {"message": "who?"}}
        return json.dumps(await ctx.ask({"who": question}))

    return ask


async def test_a_state_is_good_for_nothing_but_what_it_was_given_for() -> None:
    """Neither for others, nor elsewhere, nor for another request, nor twice."""
    made = config()
    made["profiles"]["work"]["rules"].append({"allow": "ask"})
    made["profiles"]["other"]["rules"].append({"allow": "ask"})
    can = {"_meta": meta(**{CAPABILITIES: {"elicitation": {}}})}
    async with gateway(config=made, more=[asks()], other=with_weak()) as gate:
        boss = Client(gate)
        call: dict[str, Any] = {"name": "ask", "arguments": {}, **can}
        first = (await boss.modern("tools/call", call)).json()["result"]
        assert first["resultType"] == "input_required"
        answers = {"who": {"action": "accept", "content": {}}}
        again = {**call, "requestState": first["requestState"], "inputResponses": answers}
        handle = (await gate.ask("POST", "/v1/sessions", {})).json()["id"]
        tries: dict[str, tuple[Client, dict[str, Any]]] = {
            "somebody else": (Client(gate, who="ci"), again),
            "another address": (Client(gate, path="/mcp/other"), again),
            "a session": (Client(gate, path=f"/mcp/s/{handle}"), again),
            "other arguments": (boss, {**again, "arguments": {"a": 1}}),
            "another tool": (boss, {**again, "name": "echo"}),
            "changed": (boss, {**again, "requestState": first["requestState"][:-1] + "A"}),
            "more letters": (boss, {**again, "requestState": first["requestState"] + "="}),
        }
        for case, (client, params) in tries.items():
            reply = await client.modern("tools/call", params)
            assert reply.json()["error"]["code"] == -32602, case
            assert "requestState" in reply.json()["error"]["message"], case
        last = (await boss.modern("tools/call", again)).json()["result"]
        assert "accept" in last["content"][0]["text"]
        assert (await boss.modern("tools/call", again)).json()["error"]["code"] == -32602
        assert len(gate.recorder.only("call.started")) == 1


async def test_nobody_cancels_or_answers_for_others() -> None:
    async with gateway() as gate:
        owner, other, own = Client(gate), Client(gate, who="ci"), Client(gate)
        await owner.open()
        await other.open()
        await own.open()
        call = {"name": "slow", "arguments": {"seconds": 60}}
        stream = await owner.stream("POST", message("tools/call", call, 7))
        await until(lambda: gate.recorder.only("call.started"))
        for client in (other, own):  # ids count within one session only
            params = {"requestId": 7}
            told = await client.post(message("notifications/cancelled", params, id=None))
            assert told.status == 202
        stranger = Client(gate, who="ci")
        stranger.session, stranger.version = owner.session, owner.version
        told = await stranger.post(message("notifications/cancelled", {"requestId": 7}, id=None))
        assert told.status == 404
        ended = await gate.ask("DELETE", "/mcp", who="ci", headers=stranger.headers())
        assert ended.status == 404
        assert (await owner.ask("ping", id=8))["result"] == {}
        assert not gate.recorder.only("call.finished")
        await stream.close()


@pytest.mark.parametrize("mode", ["all", "search"])
async def test_what_is_hidden_is_answered_as_what_never_was(mode: str) -> None:
    """By the door itself, and by the tools that look for tools."""
    secret = {
        "conceal": True,
        "rules": [{"allow": ["add", "echo"]}],
        "listing": {"mode": mode},
    }
    async with gateway(config=config(secret=secret)) as gate:
        client = Client(gate, path="/mcp/secret")

        async def answers(name: str) -> list[str]:
            calls: list[tuple[str, dict[str, Any]]] = [(name, {}), (name, {"a": 1})]
            if mode == "search":
                calls += [
                    ("call_tool", {"name": name}),
                    ("call_tool", {"name": name, "arguments": {"seconds": "x"}}),
                    ("describe_tool", {"name": name}),
                    ("search_tools", {"query": name}),
                ]
            found: list[str] = []
            for tool_name, arguments in calls:
                params = {"name": tool_name, "arguments": arguments}
                body = modern("tools/call", params)
                for extra in ({}, {"Mcp-Param-Seconds": "1"}):
                    reply = await client.post(body, {**modern_headers(body), **extra})
                    ids = reply.json()
                    text = json.dumps(ids).replace(name, "NAME")
                    for part in text.split('"'):
                        if part.startswith(("call_", "c_")) and len(part) > 20:
                            text = text.replace(part, "ID")
                    found.append(f"{reply.status} {_without_ids(json.loads(text))}")
            return found

        assert await answers("stubborn") == await answers("nothing1")
        assert await answers("forbidden") == await answers("nothing12")
        listed = (await client.modern("tools/list")).json()["result"]
        names = {one["name"] for one in listed["tools"]}
        assert "forbidden" not in names
        assert names <= {"add", "echo", "call_tool", "describe_tool", "search_tools"}


def _without_ids(value: Any) -> Any:
    """The value without what is different for every call."""
    if isinstance(value, dict):
        return {k: _without_ids(v) for k, v in value.items() if k != "call_id"}
    if isinstance(value, list):
        return [_without_ids(each) for each in value]
    return value
