"""Tools that ask whoever called them: a person's time is not theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from toolcrib import ToolContext, ToolHost, tool
from toolcrib.core.link import LINK, Era, InputRefused

QUESTION = {"k": {"method": "elicitation/create", "params": {"message": "Which branch?"}}}


class Person:
    """A link whose person takes a while."""

    era: Era = "modern"
    version = "2026-07-28"
    capabilities: Mapping[str, Any] = {"elicitation": {}}
    client = None
    meta: Mapping[str, Any] = {}
    wants_progress = False
    log_level = None

    def __init__(self, seconds: float) -> None:
        self.began = asyncio.Event()
        self.seconds = seconds
        self.asked: list[Any] = []

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        self.asked.append(dict(requests))
        self.began.set()
        await asyncio.sleep(self.seconds)
        return {key: {"action": "accept", "content": {"branch": "main"}} for key in requests}

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        raise AssertionError("nothing to tell")


@tool(effects=["read"], timeout=0.3)
async def pick(ctx: ToolContext) -> str:
    """Ask for a branch."""
    return (await ctx.ask(QUESTION))["k"]["content"]["branch"]


@tool(effects=["read"], timeout=0.3)
async def slow_pick(ctx: ToolContext) -> str:
    """Ask, and then take too long."""
    await ctx.ask(QUESTION)
    await asyncio.sleep(5)
    return "never"


@tool(effects=["read"], timeout=0.3)
async def outer(ctx: ToolContext) -> str:
    """Have another tool ask."""
    return (await ctx.call("pick")).unwrap()


@pytest.fixture
def person():
    made = Person(0.7)
    token = LINK.set(made)
    yield made
    LINK.reset(token)


async def test_the_answer_reaches_the_tool_however_long_it_took(person: Person) -> None:
    async with ToolHost([pick]) as host:
        assert (await host.call("pick")).unwrap() == "main"
    assert person.asked == [QUESTION]


async def test_the_clock_goes_on_behind_the_answer(person: Person) -> None:
    person.seconds = 0.0
    async with ToolHost([slow_pick]) as host:
        assert (await host.call("slow_pick")).reason == "timeout"


async def test_the_clock_of_a_call_that_made_the_call_stands_still_too(person: Person) -> None:
    async with ToolHost([pick, outer]) as host:
        assert (await host.call("outer")).unwrap() == "main"


async def test_the_callers_own_time_does_not_count_either(person: Person) -> None:
    async with ToolHost([pick]) as host:
        assert (await host.call("pick", timeout=0.2)).unwrap() == "main"


async def test_where_nobody_can_be_asked_the_tool_is_told() -> None:
    with pytest.raises(InputRefused, match="cannot be asked"):
        await ToolContext("s").ask(QUESTION)


async def test_a_call_that_waits_for_an_answer_can_be_cancelled(person: Person) -> None:
    person.seconds = 60.0
    async with ToolHost([pick]) as host:
        call = asyncio.ensure_future(host.call("pick", call_id="one"))
        await person.began.wait()
        assert host.cancel("one")
        assert (await call).reason == "cancelled"
