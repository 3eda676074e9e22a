"""Tools that ask their client: one call, whatever the era and however many requests it takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from mcp_door import EVERYTHING, Client, Door, handshake, modern, opened, until
from toolcrib import ToolContext, tool
from toolcrib.core.link import LINK, InputRefused
from toolcrib.transports.mcp.faults import McpFault
from toolcrib.transports.mcp.running import Running

CONFIG: dict[str, Any] = {
    "version": 1,
    "host": {"profile": "plain", "drain": "500ms"},
    "profiles": {"plain": {"default": "allow"}},
}
ELICIT = {
    "method": "elicitation/create",
    "params": {
        "message": "Your name?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
}
begun: list[str] = []


def _accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


async def _ask(requests: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    link = LINK.get()
    assert link is not None
    return await link.ask(requests)


@tool(effects=["read"])
async def greet(greeting: str = "Hello") -> str:
    """Ask for a name."""
    begun.append(greeting)
    answer = await _ask({"name": ELICIT})
    return f"{greeting} {answer['name']['content']['name']}"


@tool(effects=["read"])
async def steps() -> list[Any]:
    """Ask twice, one after the other."""
    first = await _ask({"one": ELICIT})
    second = await _ask({"two": {"method": "sampling/createMessage", "params": {"maxTokens": 1}}})
    return [first["one"]["content"], second["two"]["model"]]


@tool(effects=["read"])
async def both() -> list[Any]:
    """Ask two things at once, under the same key."""
    asked = [_ask({"name": ELICIT}), _ask({"name": ELICIT, "roots": {"method": "roots/list"}})]
    return list(await asyncio.gather(*asked))


@tool(effects=["read"])
async def rejected(method: str = "elicitation/create", mode: str | None = None) -> str:
    """Tell why nobody can be asked."""
    params = {} if mode is None else {"mode": mode}
    try:
        await _ask({"it": {"method": method, "params": params}})
    except InputRefused as error:
        return str(error)
    return "asked"


@tool(effects=["read"], timeout=0.1)
async def hurried(ctx: ToolContext) -> str:
    """Ask a person, who is slower than the tool may be."""
    answer = await ctx.ask({"name": ELICIT})
    return answer["name"]["content"]["name"]


@tool(effects=["read"])
async def slow_after() -> str:
    """Ask, and then take long."""
    await _ask({"name": ELICIT})
    await asyncio.sleep(30)
    return "late"


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    begun.clear()
    async with opened(
        [greet, steps, both, rejected, hurried, slow_after], CONFIG, parked=3
    ) as door:
        yield door


def call(tool: str, arguments: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": tool, "arguments": arguments or {}, **more}


def again(tool: str, first: dict[str, Any], answers: dict[str, Any], **more: Any) -> dict[str, Any]:
    given = {"inputResponses": answers, "requestState": first["requestState"]}
    return {**call(tool), **given, **more}


async def test_a_modern_client_is_answered_that_input_is_needed_and_comes_back(door: Door) -> None:
    first = await door.answer(modern("tools/call", call("greet")))
    assert first["resultType"] == "input_required"
    assert first["inputRequests"] == {"name": ELICIT}
    answers = {"name": _accept(name="Ann"), "more": _accept(name="nobody asked")}
    last = await door.answer(modern("tools/call", again("greet", first, answers)))
    assert last["content"] == [{"type": "text", "text": "Hello Ann"}]
    assert last["resultType"] == "complete"
    assert begun == ["Hello"]
    assert await door.endings() == [("greet", "ok", None)]


async def test_a_handshake_client_is_asked_while_its_request_is_open(door: Door) -> None:
    async def answers(method: str, params: Mapping[str, Any]) -> Any:
        assert (method, params) == (ELICIT["method"], ELICIT["params"])
        return _accept(name="Ann")

    client = Client(answers)
    last = await door.answer(handshake("tools/call", call("greet")), client=client)
    assert last["content"] == [{"type": "text", "text": "Hello Ann"}]
    assert "resultType" not in last
    assert await door.endings() == [("greet", "ok", None)]


async def test_the_clients_time_is_not_the_tools(door: Door) -> None:
    first = await door.answer(modern("tools/call", call("hurried")))
    await asyncio.sleep(0.3)
    last = await door.answer(
        modern("tools/call", again("hurried", first, {"name": _accept(name="Ann")}))
    )
    assert last["content"][0]["text"] == "Ann"


async def test_each_round_has_a_state_of_its_own(door: Door) -> None:
    first = await door.answer(modern("tools/call", call("steps")))
    second = await door.answer(
        modern("tools/call", again("steps", first, {"one": _accept(name="x")}))
    )
    assert second["inputRequests"]["two"]["method"] == "sampling/createMessage"
    assert second["requestState"] != first["requestState"]
    with pytest.raises(McpFault) as refused:  # the first state is used up
        await door.answer(modern("tools/call", again("steps", first, {"one": _accept(name="y")})))
    assert refused.value.code == -32602
    last = await door.answer(modern("tools/call", again("steps", second, {"two": {"model": "m"}})))
    assert last["structuredContent"] == [{"name": "x"}, "m"]


async def test_what_is_left_out_is_asked_again(door: Door) -> None:
    first = await door.answer(modern("tools/call", call("both")))
    assert set(first["inputRequests"]) == {"name", "name-2", "roots"}
    more = await door.answer(
        modern("tools/call", again("both", first, {"name": _accept(name="a"), "roots": {"r": 1}}))
    )
    assert more["resultType"] == "input_required"
    assert set(more["inputRequests"]) == {"name"}
    last = await door.answer(modern("tools/call", again("both", more, {"name": _accept(name="b")})))
    assert last["structuredContent"] == [
        {"name": _accept(name="a")},
        {"roots": {"r": 1}, "name": _accept(name="b")},
    ]


async def test_answers_that_come_with_the_first_request_count_once(door: Door) -> None:
    given = {"name": _accept(name="Ann"), "unknown": _accept(x=1)}
    done = await door.answer(modern("tools/call", call("greet", inputResponses=given)))
    assert done["content"][0]["text"] == "Hello Ann"
    other = await door.answer(
        modern("tools/call", call("greet", inputResponses={"wrong": _accept(name="Ann")}))
    )
    assert other["resultType"] == "input_required"
    twice = await door.answer(modern("tools/call", call("both", inputResponses=given)))
    assert set(twice["inputRequests"]) == {"name", "roots"}


@pytest.mark.parametrize("given", [None, 3, [], {"name": 12345}, {"name": None}, {"name": "Ann"}])
@pytest.mark.parametrize("parked", [False, True])
async def test_responses_that_are_none_are_an_error(door: Door, given: Any, parked: bool) -> None:
    params = call("greet")
    if parked:
        first = await door.answer(modern("tools/call", params))
        params = {**params, "requestState": first["requestState"]}
    with pytest.raises(McpFault) as wrong:
        await door.answer(modern("tools/call", {**params, "inputResponses": given}))
    assert wrong.value.code == -32602
    if parked:  # and the state is not used up by them
        good = {**params, "inputResponses": {"name": _accept(name="Ann")}}
        last = await door.answer(modern("tools/call", good))
        assert last["content"][0]["text"] == "Hello Ann"


@pytest.mark.parametrize("era", [modern, handshake], ids=["modern", "handshake"])
@pytest.mark.parametrize(
    ("arguments", "capabilities", "word"),
    [
        ({}, {"sampling": {}}, "elicitation"),
        ({"method": "sampling/createMessage"}, {"elicitation": {}}, "sampling"),
        ({"method": "roots/list"}, {}, "roots"),
        ({"mode": "url"}, {"elicitation": {"form": {}}}, "url"),
        ({"mode": "form"}, {"elicitation": {"url": {}}}, "form"),
        ({"method": "tools/call"}, EVERYTHING, "tools/call"),
        ({}, {"elicitation": True}, "elicitation"),
    ],
)
async def test_nobody_is_asked_for_what_it_does_not_say_it_can(
    door: Door, era: Any, arguments: dict[str, Any], capabilities: dict[str, Any], word: str
) -> None:
    client = Client()
    asked = era("tools/call", call("rejected", arguments), capabilities=capabilities)
    last = await door.answer(asked, client=client)
    assert word in last["content"][0]["text"]
    assert not client.asked


async def test_an_error_of_a_handshake_client_refuses_the_input(door: Door) -> None:
    async def answers(method: str, params: Mapping[str, Any]) -> Any:
        raise McpFault(-1, "the user will not")

    done = await door.answer(handshake("tools/call", call("rejected")), client=Client(answers))
    assert done["content"][0]["text"] == "the user will not"


async def test_calls_that_wait_are_bounded_per_principal(door: Door) -> None:
    for number in range(3):
        first = await door.answer(modern("tools/call", call("greet", {"greeting": str(number)})))
        assert first["resultType"] == "input_required"
    over = await door.answer(modern("tools/call", call("rejected")))
    assert "3 calls of ann wait" in over["content"][0]["text"]
    other = await door.answer(modern("tools/call", call("greet")), caller=door.caller("bob"))
    assert other["resultType"] == "input_required"
    last = await door.answer(
        modern(
            "tools/call",
            again("greet", first, {"name": _accept(name="A")}, arguments={"greeting": "2"}),
        )
    )
    assert last["content"][0]["text"] == "2 A"
    assert (await door.answer(modern("tools/call", call("greet"))))[
        "resultType"
    ] == "input_required"


async def test_a_client_that_does_not_come_back_ends_the_wait(door: Door) -> None:
    door.dispatcher.running.parking.seconds = 0.05
    first = await door.answer(modern("tools/call", call("rejected")))
    assert first["resultType"] == "input_required"
    await until(lambda: not door.dispatcher.running.calls)
    assert len(door.dispatcher.running.parking) == 0
    assert await door.endings() == [("rejected", "ok", None)]
    with pytest.raises(McpFault):
        await door.answer(modern("tools/call", again("rejected", first, {"it": _accept()})))


async def test_a_host_that_stops_ends_calls_that_wait(door: Door) -> None:
    await door.answer(modern("tools/call", call("greet")))
    running: Running = door.dispatcher.running
    await running.stop()
    await until(lambda: not running.calls)
    assert await door.endings() == [("greet", "error", "cancelled")]


async def test_a_client_that_leaves_in_the_second_round_cancels_the_call(door: Door) -> None:
    first = await door.answer(modern("tools/call", call("slow_after")))
    client = Client()
    asked = modern("tools/call", again("slow_after", first, {"name": _accept(name="x")}))
    waiting = asyncio.ensure_future(door.answer(asked, client=client))
    await until(lambda: not door.dispatcher.running.parking and client._gone)
    client.leave()
    done = await waiting
    assert done["isError"] is True
    assert await door.endings() == [("slow_after", "error", "cancelled")]


async def test_leaving_after_the_answer_changes_nothing(door: Door) -> None:
    client = Client()
    first = await door.answer(modern("tools/call", call("greet")), client=client)
    client.leave()
    await asyncio.sleep(0.05)
    last = await door.answer(
        modern("tools/call", again("greet", first, {"name": _accept(name="Ann")}))
    )
    assert last["content"][0]["text"] == "Hello Ann"


async def test_a_request_that_is_cancelled_cancels_its_call(door: Door) -> None:
    async def answers(method: str, params: Mapping[str, Any]) -> Any:
        await asyncio.sleep(30)

    client = Client(answers)
    waiting = asyncio.ensure_future(
        door.answer(handshake("tools/call", call("greet")), client=client)
    )
    await until(lambda: client.asked)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await until(lambda: not door.dispatcher.running.calls)
    assert await door.endings() == [("greet", "error", "cancelled")]
