"""`tools/call`: results, errors, progress, log lines and cancelling, in both eras."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mcp_door import ERAS, Client, Door, handshake, modern, opened, until
from toolcrib import ToolContext, ToolFailure, tool
from toolcrib.core.link import LINK, UpstreamError
from toolcrib.protocol.mcp import keys
from toolcrib.protocol.mcp.results import upstream_failure
from toolcrib.transports.mcp.asked import Endpoint
from toolcrib.transports.mcp.faults import McpFault

CONFIG: dict[str, Any] = {
    "version": 1,
    "host": {"profile": "plain", "drain": "500ms"},
    "profiles": {
        "plain": {"default": "allow", "rules": [{"deny": "wipe", "reason": "never_wipe"}]},
        "narrow": {"default": "deny", "rules": [{"allow": "add"}]},
        "veiled": {"default": "deny", "conceal": True, "rules": [{"allow": "add"}]},
    },
}
stopped: list[str] = []


@tool(effects=["read"])
async def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@tool(effects=["read"])
def table() -> dict[str, int]:
    """Give an object, from a thread."""
    return {"rows": 2}


@tool(effects=["destructive"])
def wipe() -> str:
    """Never allowed."""
    return "wiped"


@tool(effects=["read"])
def failing() -> None:
    """Fail in words."""
    raise ToolFailure("closed on Sundays", reason="shop_closed")


@tool(effects=["read"])
def crashing() -> None:
    """Fail without words."""
    raise RuntimeError("secret words")


@tool(effects=["read"])
async def behind(code: int, data: bool = True) -> None:
    """End as a call to another server does that answered with an error."""
    told = {"requiredCapabilities": {"sampling": {}}} if data else None
    raise upstream_failure(UpstreamError(code, "what it said", told))


@tool(effects=["read"])
async def sleepy(seconds: float = 30.0) -> str:
    """Sleep."""
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        stopped.append("sleepy")
        raise
    return "slept"


@tool(effects=["read"], timeout=0.05)
async def short() -> str:
    """Sleep for longer than it may."""
    await asyncio.sleep(30)
    return "slept"


@tool(effects=["read"])
async def progressing(ctx: ToolContext) -> str:
    """Tell how far it is, also in ways that do not grow."""
    for fraction, message in ((0.2, "a"), (0.2, None), (0.1, "b"), (None, "c"), (1.0, None)):
        ctx.progress(fraction, message)
        await asyncio.sleep(0)
    return "done"


@tool(effects=["read"])
def threaded(ctx: ToolContext) -> str:
    """Tell how far it is, from a thread."""
    ctx.progress(0.5)
    ctx.progress(1.0)
    return "done"


@tool(effects=["read"])
async def logging_tool(ctx: ToolContext) -> str:
    """Write log lines."""
    ctx.log("plain")
    ctx.log("more", rows=2)
    return "done"


@tool(effects=["read"])
async def link_facts() -> dict[str, Any]:
    """What the line says of the client, and what it lets pass."""
    link = LINK.get()
    assert link is not None
    link.notify("notifications/tools/list_changed", {})
    link.notify("notifications/progress", {"progress": 3, "total": 7})
    link.notify("notifications/message", {"level": "debug", "data": 1})
    link.notify("notifications/message", {"level": "error", "data": 2})
    return {
        "era": link.era,
        "version": link.version,
        "client": link.client,
        "meta": dict(link.meta),
        "progress": link.wants_progress,
        "level": link.log_level,
    }


TOOLS = [add, table, wipe, failing, crashing, behind, sleepy, short, progressing, threaded]


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    stopped.clear()
    async with opened([*TOOLS, logging_tool, link_facts], CONFIG) as door:
        yield door


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


# Endings.


async def test_a_result_of_our_own_in_both_eras(door: Door) -> None:
    new = await door.answer(modern("tools/call", call("add", a=1)))
    old = await door.answer(handshake("tools/call", call("add", a=1)))
    assert new["_meta"][keys.SERVER]["name"] == "toolcrib"
    assert new["resultType"] == "complete"
    assert new["structuredContent"] == 3
    assert old == {"content": [{"type": "text", "text": "3"}]}
    both = [await door.answer(ERAS[era]("tools/call", call("table"))) for era in sorted(ERAS)]
    assert [each["structuredContent"] for each in both] == [{"rows": 2}] * 2


async def test_calls_are_on_the_trail_as_those_of_this_door(door: Door) -> None:
    await door.answer(modern("tools/call", call("add", a=1)))
    assert await door.endings() == [("add", "ok", None)]
    received = [e for e in await door.host.trail() if e.type == "call.received"]
    assert received[0].data["door"] == "mcp"
    assert received[0].data["principal"] == "ann"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("params", "reason", "words"),
    [
        (call("add", a="one"), "invalid_arguments", "a "),
        (call("add"), "invalid_arguments", "a "),
        (call("wipe"), "never_wipe", "refused"),
        (call("failing"), "shop_closed", "closed on Sundays"),
        (call("crashing"), "unexpected_failure", ""),
        (call("short"), "timeout", ""),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
async def test_what_a_model_can_learn_from_is_a_result(
    door: Door, era: str, params: dict[str, Any], reason: str, words: str
) -> None:
    found = await door.answer(ERAS[era]("tools/call", params))
    assert found["isError"] is True
    assert words in found["content"][0]["text"]
    assert "secret words" not in str(found)
    assert found["_meta"]["toolcrib/failure"]["reason"] == reason
    assert found["structuredContent"]["reason"] == reason


async def test_a_denial_names_its_rule(door: Door) -> None:
    found = await door.answer(modern("tools/call", call("wipe")))
    assert found["_meta"]["toolcrib/failure"]["rule"]
    assert found["_meta"][keys.SERVER]["name"] == "toolcrib"


@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_that_is_not_there_is_an_error_of_the_protocol(door: Door, era: str) -> None:
    with pytest.raises(McpFault) as fault:
        await door.answer(ERAS[era]("tools/call", call("nothing")))
    assert (fault.value.code, fault.value.message) == (-32602, "Unknown tool: nothing")
    assert await door.endings() == [("nothing", "error", "unknown_tool")]


async def test_a_concealed_tool_is_as_if_it_were_not_there(door: Door) -> None:
    texts: set[str] = set()
    for name in ("wipe", "nothing"):
        asked = modern("tools/call", call(name))
        with pytest.raises(McpFault) as fault:
            await door.answer(asked, caller=door.caller("ann", "veiled"))
        texts.add(fault.value.message.replace(name, "x"))
        assert set(fault.value.data) == {"reason", "call_id"}
    assert len(texts) == 1


async def test_a_tool_outside_the_profile_is_denied(door: Door) -> None:
    found = await door.answer(
        modern("tools/call", call("table")), caller=door.caller("ann", "narrow")
    )
    assert found["_meta"]["toolcrib/failure"]["reason"] == "not_in_profile"


@pytest.mark.parametrize(
    ("code", "http"), [(-32021, 400), (-32602, 400), (-32601, 404), (-32603, 200), (7, 200)]
)
async def test_an_error_of_a_server_behind_us_is_given_back_as_it_was(
    door: Door, code: int, http: int
) -> None:
    with pytest.raises(McpFault) as fault:
        await door.answer(modern("tools/call", call("behind", code=code)))
    assert fault.value.http == http
    assert fault.value.error() == {
        "code": code,
        "message": "what it said",
        "data": {"requiredCapabilities": {"sampling": {}}},
    }
    with pytest.raises(McpFault) as fault:
        await door.answer(modern("tools/call", call("behind", code=code, data=False)))
    assert "data" not in fault.value.error()


@pytest.mark.parametrize(
    "params",
    [{}, {"name": 5}, {"name": ""}, {"name": "x" * 300}, {"name": "add", "arguments": [1]},
     {"name": "add", "arguments": "a"}],
    ids=repr,
)  # fmt: skip
async def test_params_that_do_not_fit(door: Door, params: dict[str, Any]) -> None:
    with pytest.raises(McpFault) as fault:
        await door.answer(handshake("tools/call", params))
    assert fault.value.code == -32602


async def test_credentials_that_are_over_are_refused(door: Door) -> None:
    caller = door.caller()
    caller.badge.revoked = True
    with pytest.raises(McpFault) as fault:
        await door.answer(modern("tools/call", call("add", a=1)), caller=caller)
    assert (fault.value.code, fault.value.http) == (401, 401)
    assert await door.endings() == []


# Where.


async def test_the_path_names_the_profile(door: Door) -> None:
    narrow = Endpoint(profile="narrow")
    found = await door.answer(modern("tools/call", call("table")), endpoint=narrow)
    assert found["_meta"]["toolcrib/failure"]["reason"] == "not_in_profile"
    held = door.caller("ann", "plain", profiles=())
    refused = await door.answer(
        modern("tools/call", call("add", a=1)), endpoint=narrow, caller=held
    )
    assert refused["_meta"]["toolcrib/failure"]["reason"] == "not_in_profile"


async def test_the_path_names_a_session_of_the_callers_own(door: Door) -> None:
    @tool(effects=["read"])
    async def mine() -> str:
        """Only here."""
        return "mine"

    session = await door.service.open_session(door.caller())
    session.register(mine)
    there = Endpoint(session=session.id)
    found = await door.answer(modern("tools/call", call("mine")), endpoint=there)
    assert found["content"][0]["text"] == "mine"
    with pytest.raises(McpFault):
        await door.answer(modern("tools/call", call("mine")))
    with pytest.raises(McpFault) as fault:
        await door.answer(
            modern("tools/call", call("mine")), endpoint=there, caller=door.caller("bob")
        )
    assert fault.value.code == 401


# Meanwhile.


@pytest.mark.parametrize("era", ERAS)
async def test_progress_grows_and_carries_the_clients_token(door: Door, era: str) -> None:
    client = Client()
    asked = ERAS[era]("tools/call", call("progressing"), progressToken="t1")
    await door.answer(asked, client=client)
    told = client.of("notifications/progress")
    assert [each["progressToken"] for each in told] == ["t1"] * 4
    values = [each["progress"] for each in told]
    assert values == sorted(set(values))
    assert (values[0], values[-1]) == (0.2, 1.0)
    assert [each.get("message") for each in told] == ["a", "b", "c", None]
    assert [each.get("total") for each in told] == [1.0, None, None, 1.0]


async def test_progress_of_threads_arrives_before_the_result(door: Door) -> None:
    client = Client()
    asked = modern("tools/call", call("threaded"), progressToken=0)
    await door.answer(asked, client=client)
    assert [each["progress"] for each in client.of("notifications/progress")] == [0.5, 1.0]


@pytest.mark.parametrize("era", ERAS)
async def test_without_a_token_there_is_no_progress(door: Door, era: str) -> None:
    client = Client()
    await door.answer(ERAS[era]("tools/call", call("progressing")), client=client)
    assert client.told == []


async def test_log_lines_reach_those_who_want_them(door: Door) -> None:
    quiet, wanting, late = Client(), Client(), Client()
    asked = call("logging_tool")
    await door.answer(modern("tools/call", asked), client=quiet)
    level = {keys.LOG_LEVEL: "info"}
    await door.answer(modern("tools/call", asked, **level), client=wanting)
    await door.answer(handshake("tools/call", asked, log_level="error"), client=late)
    assert (quiet.told, late.told) == ([], [])
    assert wanting.of("notifications/message") == [
        {"level": "info", "logger": "logging_tool", "data": "plain"},
        {"level": "info", "logger": "logging_tool", "data": {"message": "more", "rows": 2}},
    ]
    unset = Client()
    await door.answer(handshake("tools/call", asked), client=unset)
    assert len(unset.of("notifications/message")) == 2


async def test_what_the_line_says_of_the_client(door: Door) -> None:
    client = Client()
    meta = {"traceparent": "00-a-b-01", "com.example/x": [1], keys.LOG_LEVEL: "warning"}
    asked = modern("tools/call", call("link_facts"), progressToken="p", **meta)
    found = (await door.answer(asked, client=client))["structuredContent"]
    assert found == {
        "era": "modern",
        "version": "2026-07-28",
        "client": None,
        "meta": {"traceparent": "00-a-b-01", "com.example/x": [1]},
        "progress": True,
        "level": "warning",
    }
    assert client.told == [
        ("notifications/progress", {"progress": 3, "total": 7, "progressToken": "p"}),
        ("notifications/message", {"level": "error", "data": 2}),
    ]
    old = (await door.answer(handshake("tools/call", call("link_facts"))))["structuredContent"]
    assert (old["era"], old["client"]["name"], old["progress"]) == ("handshake", "hand", False)


async def test_calls_of_other_doors_have_no_line(door: Door) -> None:
    result = await door.host.call("link_facts", principal="ann")
    assert result.reason == "unexpected_failure"
    await door.answer(modern("tools/call", call("link_facts")))
    assert LINK.get() is None


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_leaves_or_cancels_stops_its_call(door: Door, era: str) -> None:
    client = Client()
    asked = ERAS[era]("tools/call", call("sleepy"))
    waiting = asyncio.ensure_future(door.answer(asked, client=client))
    await until(lambda: client._gone)
    client.leave()
    found = await waiting
    assert found["_meta"]["toolcrib/failure"]["reason"] == "cancelled"
    assert stopped == ["sleepy"]
    assert await door.endings() == [("sleepy", "error", "cancelled")]
    assert door.dispatcher.running.calls == {}


async def test_a_client_that_has_left_already_stops_its_call_at_once(door: Door) -> None:
    client = Client()
    client.leave()
    found = await door.answer(modern("tools/call", call("sleepy")), client=client)
    assert found["_meta"]["toolcrib/failure"]["reason"] == "cancelled"


async def test_many_calls_at_once_keep_apart(door: Door) -> None:
    clients = [Client() for _ in range(50)]
    asked = [modern("tools/call", call("progressing"), progressToken=n) for n in range(50)]
    await asyncio.gather(*(door.answer(a, client=c) for a, c in zip(asked, clients, strict=True)))
    for number, client in enumerate(clients):
        told = client.of("notifications/progress")
        assert {each["progressToken"] for each in told} == {number}
        assert len(told) == 4
    assert door.dispatcher.running.calls == {}


async def test_what_breaks_inside_says_nothing(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("secret words")

    monkeypatch.setattr(door.service, "place", broken)
    with pytest.raises(McpFault) as fault:
        await door.answer(modern("tools/call", call("add", a=1)))
    assert "secret" not in str(fault.value.error())
    assert fault.value.http == 500
