"""What a client carries between rounds: nobody can read, change, lend or use it twice."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mcp_door import HERE, Door, modern, opened
from toolcrib import tool
from toolcrib.core.link import LINK
from toolcrib.transports.caller import Caller
from toolcrib.transports.mcp.asked import Endpoint
from toolcrib.transports.mcp.faults import McpFault

CONFIG: dict[str, Any] = {
    "version": 1,
    "host": {"profile": "plain", "drain": "500ms"},
    "profiles": {"plain": {"default": "allow"}, "other": {"default": "allow"}},
}
ANSWER = {"it": {"action": "accept", "content": {}}}
ends: list[str] = []


@tool(effects=["read"])
async def wait_for(label: str = "a") -> str:
    """Ask once."""
    link = LINK.get()
    assert link is not None
    await link.ask({"it": {"method": "elicitation/create", "params": {"message": "?"}}})
    ends.append(label)
    return label


@tool(effects=["read"])
async def wait_too(label: str = "a") -> str:
    """Ask once, too."""
    return await wait_for(label)


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    ends.clear()
    async with opened([wait_for, wait_too], CONFIG) as door:
        yield door


async def first(door: Door, endpoint: Endpoint = HERE) -> str:
    asked = modern("tools/call", {"name": "wait_for", "arguments": {"label": "a"}})
    return (await door.answer(asked, endpoint=endpoint))["requestState"]


async def redeem(
    door: Door,
    state: Any,
    *,
    name: str = "wait_for",
    label: str = "a",
    caller: Caller | None = None,
    endpoint: Endpoint = HERE,
    **more: Any,
) -> dict[str, Any]:
    params = {"name": name, "arguments": {"label": label}, "inputResponses": ANSWER, **more}
    asked = modern("tools/call", {**params, "requestState": state})
    return await door.answer(asked, caller=caller, endpoint=endpoint)


async def refused(door: Door, state: Any, **more: Any) -> str:
    with pytest.raises(McpFault) as fault:
        await redeem(door, state, **more)
    assert (fault.value.code, fault.value.http, fault.value.data) == (-32602, 400, None)
    return fault.value.message


async def test_nothing_of_it_can_be_read(door: Door) -> None:
    state = await first(door)
    raw = base64.urlsafe_b64decode(state + "=" * (-len(state) % 4))
    for word in (b"ann", b"wait_for", b"tools/call", b"label"):
        assert word not in raw


async def test_no_bit_can_be_changed(door: Door) -> None:
    state = await first(door)
    words: set[str] = set()
    for place in range(len(state)):
        for bit in range(7):
            wrong = chr(ord(state[place]) ^ (1 << bit))
            words.add(await refused(door, state[:place] + wrong + state[place + 1 :]))
    assert len(words) == 1
    assert (await redeem(door, state))["content"][0]["text"] == "a"


@pytest.mark.parametrize(
    "wrong", ["", "x", "-TAMPERED", "=", None, 5, [], {}, "é", "A" * 5000], ids=repr
)
async def test_what_is_none_of_ours_is_refused_in_the_same_words(door: Door, wrong: Any) -> None:
    known = await refused(door, (await first(door)) + "A")
    assert await refused(door, wrong) == known


async def test_it_is_for_one_principal(door: Door) -> None:
    state = await first(door)
    await refused(door, state, caller=door.caller("bob"))
    assert (await redeem(door, state))["content"][0]["text"] == "a"


async def test_it_is_for_one_tool_and_its_arguments(door: Door) -> None:
    state = await first(door)
    await refused(door, state, name="wait_too")
    await refused(door, state, label="b")
    await refused(door, state, arguments={})
    await refused(door, state, extra=1)
    assert (await redeem(door, state))["content"][0]["text"] == "a"


async def test_it_is_for_one_path(door: Door) -> None:
    state = await first(door)
    await refused(door, state, endpoint=Endpoint(profile="other"))
    await refused(door, state, endpoint=Endpoint(profile="plain"))
    session = await door.service.open_session(door.caller())
    await refused(door, state, endpoint=Endpoint(session=session.id))
    assert (await redeem(door, state))["content"][0]["text"] == "a"


async def test_it_is_for_one_method(door: Door) -> None:
    state = await first(door)
    params = {"name": "wait_for", "arguments": {"label": "a"}, "requestState": state}
    with pytest.raises(McpFault):
        await door.dispatcher.running.run(
            door.caller(), Endpoint(), modern("prompts/get", params), _Nobody(), "wait_for", {}
        )
    assert (await redeem(door, state))["content"][0]["text"] == "a"


async def test_it_is_for_the_tool_as_it_was(door: Door) -> None:
    state = await first(door)

    @tool(name="wait_for", effects=["read"])
    async def changed(label: str = "a") -> str:
        """Something else."""
        return label

    door.host.register(changed, replace=True)
    await refused(door, state)


async def test_it_expires(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    state = await first(door)
    parking = door.dispatcher.running.parking
    later = parking.seconds + 1
    now = time.time
    monkeypatch.setattr("toolcrib.transports.mcp.parking.time.time", lambda: now() + later)
    await refused(door, state)
    monkeypatch.undo()
    assert (await redeem(door, state))["content"][0]["text"] == "a"


async def test_of_a_hundred_who_bring_it_one_goes_on(door: Door) -> None:
    state = await first(door)
    found = await asyncio.gather(*(redeem(door, state) for _ in range(100)), return_exceptions=True)
    assert sum(isinstance(each, dict) for each in found) == 1
    assert sum(isinstance(each, McpFault) for each in found) == 99
    assert ends == ["a"]


async def test_it_does_not_outlive_the_process() -> None:
    async with opened([wait_for, wait_too], CONFIG) as before:
        state = await first(before)
    async with opened([wait_for, wait_too], CONFIG) as after:
        await refused(after, state)


class _Nobody:
    def notify(self, method: str, params: Any) -> None:
        raise AssertionError

    async def ask(self, method: str, params: Any) -> Any:
        raise AssertionError

    def on_gone(self, told: Any) -> None:
        raise AssertionError
