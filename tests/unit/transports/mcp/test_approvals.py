"""Approvals through the MCP client: asked where it may answer, held where it may not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from msgspec.structs import force_setattr

from mcp_door import EVERYTHING, Client, Door, handshake, modern, opened, until
from toolcrib import ToolContext, tool
from toolcrib.core.link import InputRefused
from toolcrib.errors import StoreError
from toolcrib.transports.caller import Caller
from toolcrib.transports.mcp.faults import McpFault

CONFIG: dict[str, Any] = {
    "version": 1,
    "host": {"profile": "plain", "drain": "500ms"},
    "profiles": {
        "plain": {
            "default": "allow",
            "rules": [{"ask": "deploy"}],
            "approval": {"timeout": "60s", "remember": ["once", "1h"], "via": ["cli", "client"]},
        },
        "strict": {
            "default": "allow",
            "rules": [{"ask": "deploy"}],
            "approval": {"timeout": "60s", "via": ["cli"]},
        },
    },
}
ran: list[str] = []
DEPLOY = {"name": "deploy", "arguments": {"env": "live"}}


@tool(effects=["write"])
async def deploy(env: str) -> str:
    """Put a version in place."""
    ran.append(env)
    return f"on {env}"


@tool(effects=["write"])
async def release(ctx: ToolContext) -> Any:
    """Deploy by another tool."""
    return (await ctx.call("deploy", {"env": "live"})).output


@tool(effects=["write"])
async def release_all(ctx: ToolContext) -> list[Any]:
    """Deploy to several places at once."""
    calls = [ctx.call("deploy", {"env": env}) for env in ("a", "b", "c")]
    return [(result.output or result.reason) for result in await asyncio.gather(*calls)]


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    ran.clear()
    async with opened([deploy, release, release_all], CONFIG, hold=0.05) as door:
        yield door


def yes(**more: Any) -> dict[str, Any]:
    return {"action": "accept", "content": {"decision": "allow", **more}}


def retry(first: dict[str, Any], answer: Any, **more: Any) -> dict[str, Any]:
    (key,) = first["inputRequests"]
    given = {} if answer is None else {key: answer}
    return {**DEPLOY, "requestState": first["requestState"], "inputResponses": given, **more}


async def pending(door: Door) -> list[str]:
    return [each.id for each in await door.host.approvals.list()]


async def asked_for(door: Door) -> None:
    """Wait until a person is asked."""
    async with asyncio.timeout(20):
        while not await pending(door):  # noqa: ASYNC110 - the store says nothing by itself
            await asyncio.sleep(0.01)


def is_waiting(answer: dict[str, Any]) -> str:
    """Check an answer that says that a person is asked; gives the approval's id."""
    assert answer["isError"] is True
    about = answer["_meta"]["toolcrib/approval"]
    assert about["state"] == "pending"
    assert about["id"] in answer["content"][0]["text"]
    assert "same arguments" in answer["content"][0]["text"]
    assert answer["structuredContent"]["reason"] == "awaiting_approval"
    return about["id"]


# A client that may answer.


async def test_a_modern_client_answers_by_a_form(door: Door) -> None:
    first = await door.answer(modern("tools/call", DEPLOY))
    assert first["resultType"] == "input_required"
    ((key, asked),) = first["inputRequests"].items()
    assert asked["method"] == "elicitation/create"
    assert "ann asks to run  deploy" in asked["params"]["message"]
    assert '"env": "live"' in asked["params"]["message"]
    form = asked["params"]["requestedSchema"]
    assert form["required"] == ["decision"]
    assert form["properties"]["decision"]["enum"] == ["deny", "allow"]
    assert form["properties"]["reach"]["enum"] == ["once", "1h"]
    assert not any("default" in each for each in form["properties"].values())
    assert ran == []
    last = await door.answer(modern("tools/call", retry(first, yes())))
    assert last["content"][0]["text"] == "on live"
    assert ran == ["live"]
    assert await door.endings() == [("deploy", "ok", None)]
    assert key.endswith((await door.host.approvals.list(state="used"))[0].id)


async def test_a_handshake_client_answers_on_its_request(door: Door) -> None:
    async def answers(method: str, params: Mapping[str, Any]) -> Any:
        assert method == "elicitation/create"
        assert ran == []
        return yes(note="careful")

    last = await door.answer(handshake("tools/call", DEPLOY), client=Client(answers))
    assert last["content"][0]["text"] == "on live"
    used = (await door.host.approvals.list(state="used"))[0]
    assert (used.by, used.note) == ("ann", "careful")


async def test_a_yes_can_reach_further_where_that_is_offered(door: Door) -> None:
    first = await door.answer(modern("tools/call", DEPLOY))
    await door.answer(modern("tools/call", retry(first, yes(reach="1h"))))
    again = await door.answer(modern("tools/call", DEPLOY))
    assert again["content"][0]["text"] == "on live"
    assert ran == ["live", "live"]


NOES: dict[str, Any] = {
    "deny": {"action": "accept", "content": {"decision": "deny", "note": "not today"}},
    "decline": {"action": "decline"},
}


@pytest.mark.parametrize("era", [modern, handshake], ids=["modern", "handshake"])
@pytest.mark.parametrize("no", NOES)
async def test_a_no_is_a_denial(door: Door, era: Any, no: str) -> None:
    async def answers(method: str, params: Mapping[str, Any]) -> Any:
        return NOES[no]

    last = await door.answer(era("tools/call", DEPLOY), client=Client(answers))
    if era is modern:
        last = await door.answer(modern("tools/call", retry(last, NOES[no])))
    assert last["isError"] is True
    assert last["_meta"]["toolcrib/failure"]["reason"] == "approval_rejected"
    assert ("not today" in last["content"][0]["text"]) is (no == "deny")
    assert ran == []
    assert await pending(door) == []


NONSENSE: dict[str, Any] = {
    "cancel": {"action": "cancel"},
    "no action": {},
    "unknown action": {"action": "yes", "content": {"decision": "allow"}},
    "no content": {"action": "accept"},
    "content is no object": {"action": "accept", "content": "allow"},
    "no decision": {"action": "accept", "content": {}},
    "other case": {"action": "accept", "content": {"decision": "ALLOW"}},
    "true": {"action": "accept", "content": {"decision": True}},
    "list": {"action": "accept", "content": {"decision": ["allow"]}},
    "reach not offered": yes(reach="always"),
    "reach is no text": yes(reach=["once"]),
    "note is no text": yes(note=5),
    "note too long": yes(note="x" * 3000),
}


@pytest.mark.parametrize("era", [modern, handshake], ids=["modern", "handshake"])
@pytest.mark.parametrize("kind", NONSENSE)
async def test_what_is_no_answer_leaves_the_question_open(door: Door, era: Any, kind: str) -> None:
    async def answers(method: str, params: Mapping[str, Any]) -> Any:
        return NONSENSE[kind]

    last = await door.answer(era("tools/call", DEPLOY), client=Client(answers))
    if era is modern:
        last = await door.answer(modern("tools/call", retry(last, NONSENSE[kind])))
    assert await pending(door) == [is_waiting(last)]
    await until(lambda: not door.dispatcher.running.calls)
    assert ran == []
    assert await door.endings() == [("deploy", "denied", "awaiting_approval")]


@pytest.mark.parametrize("answer", [None, 5, "allow", ["allow"]], ids=repr)
async def test_a_handshake_answer_that_is_no_object_is_no_answer(door: Door, answer: Any) -> None:
    async def answers(method: str, params: Mapping[str, Any]) -> Any:
        return answer

    last = await door.answer(handshake("tools/call", DEPLOY), client=Client(answers))
    assert await pending(door) == [is_waiting(last)]
    assert ran == []


async def test_a_form_that_is_left_out_is_asked_again(door: Door) -> None:
    first = await door.answer(modern("tools/call", DEPLOY))
    second = await door.answer(modern("tools/call", retry(first, None)))
    assert second["inputRequests"] == first["inputRequests"]
    last = await door.answer(modern("tools/call", retry(second, yes())))
    assert last["content"][0]["text"] == "on live"


async def test_an_answer_that_nobody_asked_for_counts_nothing(door: Door) -> None:
    first = await door.answer(modern("tools/call", DEPLOY))
    (key,) = first["inputRequests"]
    early = {**DEPLOY, "inputResponses": {key: yes()}}
    second = await door.answer(modern("tools/call", early))
    assert second["resultType"] == "input_required"
    assert ran == []


async def test_an_answer_from_elsewhere_lets_the_parked_call_run(door: Door) -> None:
    first = await door.answer(modern("tools/call", DEPLOY))
    (question,) = await pending(door)
    await door.host.approvals.decide(question, True, by="bob", via="cli")
    await until(lambda: ran)
    last = await door.answer(modern("tools/call", retry(first, {"action": "cancel"})))
    assert last["content"][0]["text"] == "on live"
    assert ran == ["live"]


async def test_an_answer_from_elsewhere_ends_the_question_to_a_handshake_client(door: Door) -> None:
    asked = asyncio.Event()
    stopped = asyncio.Event()

    async def answers(method: str, params: Mapping[str, Any]) -> Any:
        asked.set()
        try:
            await asyncio.sleep(30)
        finally:
            stopped.set()

    waiting = asyncio.ensure_future(
        door.answer(handshake("tools/call", DEPLOY), client=Client(answers))
    )
    await asked.wait()
    await asyncio.sleep(0.1)  # longer than a call is held for others: this one is asked here
    (question,) = await pending(door)
    await door.host.approvals.decide(question, True, by="bob", via="cli")
    assert (await waiting)["content"][0]["text"] == "on live"
    await stopped.wait()


async def test_a_call_that_a_tool_makes_is_asked_for_too(door: Door) -> None:
    params = {"name": "release", "arguments": {}}
    first = await door.answer(modern("tools/call", params))
    (key,) = first["inputRequests"]
    given = {"requestState": first["requestState"], "inputResponses": {key: yes()}}
    last = await door.answer(modern("tools/call", {**params, **given}))
    assert last["content"][0]["text"] == "on live"
    held = await door.answer(modern("tools/call", params, capabilities={}))
    is_waiting(held)


async def test_several_questions_of_one_call_are_all_asked(door: Door) -> None:
    async def answers(method: str, params: Mapping[str, Any]) -> Any:
        await asyncio.sleep(0)
        return NOES["decline"] if '"env": "b"' in params["message"] else yes()

    client = Client(answers)
    params = {"name": "release_all", "arguments": {}}
    old = await door.answer(handshake("tools/call", params), client=client)
    assert old["content"][0]["text"] == '["on a","approval_rejected","on c"]'
    assert len(client.asked) == 3
    new = await door.answer(modern("tools/call", params))
    while new["resultType"] == "input_required":
        given = {key: yes() for key in new["inputRequests"]}
        again = {"requestState": new["requestState"], "inputResponses": given}
        new = await door.answer(modern("tools/call", {**params, **again}))
    assert new["structuredContent"] == ["on a", "on b", "on c"]
    is_waiting(await door.answer(modern("tools/call", params, capabilities={})))


# A client that may not answer.

KINDS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "not at this machine": ({"local": False}, EVERYTHING, "plain"),
    "the profile lets no clients answer": ({}, EVERYTHING, "strict"),
    "it cannot ask its user": ({}, {"sampling": {}}, "plain"),
    "it can ask by address only": ({}, {"elicitation": {"url": {}}}, "plain"),
}


@pytest.mark.parametrize("era", [modern, handshake], ids=["modern", "handshake"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_client_that_may_not_answer_is_told_to_come_again(
    door: Door, era: Any, kind: str
) -> None:
    who, capabilities, profile = KINDS[kind]
    caller = door.caller("ann", profile, **who)
    asked = era("tools/call", DEPLOY, capabilities=capabilities)
    held = await door.answer(asked, caller=caller)
    question = is_waiting(held)
    await until(lambda: not door.dispatcher.running.calls)
    assert await pending(door) == [question]
    await door.host.approvals.decide(question, True, by="bob", via="cli")
    last = await door.answer(asked, caller=caller)
    assert last["content"][0]["text"] == "on live"
    assert ran == ["live"]


async def test_a_right_to_approve_does_not_let_a_program_approve_its_own_calls(door: Door) -> None:
    from toolcrib import Principal

    who = Principal("root", permissions=frozenset({"toolcrib.approve"}))
    caller = Caller(who, door="mcp", profile="plain", profiles=None, local=False)
    is_waiting(await door.answer(modern("tools/call", DEPLOY), caller=caller))


async def test_the_answer_may_come_while_the_call_is_held(door: Door) -> None:
    force_setattr(door.service.settings.mcp, "hold", 20.0)
    caller = door.caller("ann", "strict")
    waiting = asyncio.ensure_future(door.answer(modern("tools/call", DEPLOY), caller=caller))
    await asked_for(door)
    await door.host.approvals.decide((await pending(door))[0], False, by="bob", via="cli")
    assert (await waiting)["_meta"]["toolcrib/failure"]["reason"] == "approval_rejected"


async def test_settings_may_keep_clients_from_being_asked() -> None:
    ran.clear()
    async with opened([deploy], CONFIG, hold=0.02, approval="hold") as door:
        is_waiting(await door.answer(modern("tools/call", DEPLOY)))


async def test_where_nothing_can_be_parked_the_call_is_held() -> None:
    ran.clear()
    async with opened([deploy], CONFIG, hold=0.02, parked=0) as door:
        is_waiting(await door.answer(modern("tools/call", DEPLOY)))
        assert ran == []


async def test_a_client_that_leaves_takes_no_question_with_it(door: Door) -> None:
    force_setattr(door.service.settings.mcp, "hold", 20.0)
    client = Client()
    caller = door.caller("ann", "strict")
    asked = modern("tools/call", DEPLOY)
    waiting = asyncio.ensure_future(door.answer(asked, caller=caller, client=client))
    await asked_for(door)
    client.leave()
    assert (await waiting)["_meta"]["toolcrib/failure"]["reason"] == "cancelled"
    assert len(await pending(door)) == 1


async def test_a_parked_call_that_is_forgotten_ends_and_its_question_stays(door: Door) -> None:
    door.dispatcher.running.parking.seconds = 0.05
    first = await door.answer(modern("tools/call", DEPLOY))
    await until(lambda: not door.dispatcher.running.calls)
    assert await door.endings() == [("deploy", "error", "cancelled")]
    assert len(await pending(door)) == 1
    with pytest.raises(McpFault):
        await door.answer(modern("tools/call", retry(first, yes())))
    assert ran == []


# What breaks is a no.


@pytest.mark.parametrize(
    "wrong",
    [McpFault(-32601, "no such method"), InputRefused("gone"), RuntimeError("x"), TimeoutError()],
    ids=lambda wrong: type(wrong).__name__,
)
async def test_a_channel_that_breaks_allows_nothing(door: Door, wrong: Exception) -> None:
    async def answers(method: str, params: Mapping[str, Any]) -> Any:
        raise wrong

    held = await door.answer(handshake("tools/call", DEPLOY), client=Client(answers))
    assert await pending(door) == [is_waiting(held)]
    assert ran == []


@pytest.mark.parametrize("era", [modern, handshake], ids=["modern", "handshake"])
@pytest.mark.parametrize("error", [StoreError("gone"), RuntimeError("x")], ids=["store", "other"])
async def test_an_answer_that_cannot_be_kept_allows_nothing(
    door: Door, monkeypatch: pytest.MonkeyPatch, era: Any, error: Exception
) -> None:
    async def broken(*_: Any, **__: Any) -> Any:
        raise error

    async def answers(method: str, params: Mapping[str, Any]) -> Any:
        monkeypatch.setattr(door.host.approvals, "decide", broken)
        return yes()

    last: Any = await door.answer(era("tools/call", DEPLOY), client=Client(answers))
    if era is modern:
        monkeypatch.setattr(door.host.approvals, "decide", broken)
        asked = modern("tools/call", retry(last, yes()))
        if isinstance(error, StoreError):
            is_waiting(await door.answer(asked))
        else:
            with pytest.raises(McpFault) as fault:
                await door.answer(asked)
            assert fault.value.code == -32603
            assert "x" not in fault.value.message.split()
    else:
        is_waiting(last)
    await until(lambda: not door.dispatcher.running.calls)
    assert ran == []


async def test_credentials_that_end_meanwhile_answer_nothing(door: Door) -> None:
    caller = door.caller()

    async def answers(method: str, params: Mapping[str, Any]) -> Any:
        caller.badge.revoked = True
        return yes()

    held = await door.answer(handshake("tools/call", DEPLOY), caller=caller, client=Client(answers))
    is_waiting(held)
    assert ran == []
