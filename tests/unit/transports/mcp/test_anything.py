"""Whatever is asked, the answer is a result or an error of the protocol, and nothing is left."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_door import ERAS, Client, Door, modern, opened, until
from toolcrib import ToolContext, tool
from toolcrib.transports.mcp.faults import McpFault
from toolcrib.transports.mcp.running import Running

CONFIG: dict[str, Any] = {
    "version": 1,
    "host": {"profile": "plain", "drain": "500ms"},
    "profiles": {"plain": {"default": "allow", "rules": [{"ask": "deploy"}]}},
}
METHODS = [
    "initialize", "ping", "server/discover", "tools/list", "tools/call", "prompts/get",
    "prompts/list", "resources/read", "resources/subscribe", "resources/templates/list",
    "completion/complete", "logging/setLevel", "tasks/get", "tasks/cancel", "nothing", "",
]  # fmt: skip
ELICIT = {"method": "elicitation/create", "params": {"message": "?"}}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    ["name", "arguments", "cursor", "uri", "inputResponses", "requestState", "level", "ref",
     "protocolVersion", "taskId", "argument"]
)  # fmt: skip


@tool(effects=["read"])
async def echo(ctx: ToolContext, text: str = "") -> str:
    """Say it again."""
    return text


@tool(effects=["write"])
async def deploy() -> str:
    """A person is asked first."""
    return "done"


@tool(effects=["read"])
async def asking(ctx: ToolContext, big: int = 0) -> str:
    """Ask the client."""
    await ctx.ask({"it": ELICIT})
    return "answered"


TOOLS = [echo, deploy, asking]


@pytest.mark.parametrize("era", ERAS)
def test_any_params_of_any_method(era: str) -> None:
    async def all_of(examples: list[tuple[str, dict[str, Any]]]) -> None:
        async with opened(TOOLS, CONFIG, hold=0.0) as door:
            for method, params in examples:
                await one(door, method, params)

    async def one(door: Door, method: str, params: dict[str, Any]) -> None:
        async with asyncio.timeout(20):
            asked = door.answer(ERAS[era](method, params))
            (found,) = await asyncio.gather(asked, return_exceptions=True)
        if isinstance(found, McpFault):
            assert found.code != -32603, (method, params)
        else:
            assert isinstance(found, dict), (method, params, found)

    tools = st.sampled_from(["echo", "deploy", "asking"])
    params = st.dictionaries(NAMES, JSON, max_size=4) | st.fixed_dictionaries(
        {"name": tools}, optional={"arguments": JSON, "requestState": JSON, "inputResponses": JSON}
    )

    @given(st.lists(st.tuples(st.sampled_from(METHODS), params), max_size=8))
    def check(examples: list[tuple[str, dict[str, Any]]]) -> None:
        asyncio.run(all_of(examples))

    check()


WRONG: dict[str, Any] = {
    "raises": RuntimeError("secret words"),
    "is late": TimeoutError("secret words"),
    "says nothing": None,
}


@pytest.mark.parametrize(
    ("guard", "name", "kind"),
    [
        ("host.approvals.get", "deploy", "raises"),
        ("host.approvals.get", "deploy", "is late"),
        ("host.approvals.get", "deploy", "says nothing"),
        ("dispatcher.running.parking.park", "asking", "raises"),
        ("dispatcher.running.parking.park", "deploy", "is late"),
    ],
)
async def test_a_guard_that_breaks_lets_nothing_through(
    monkeypatch: pytest.MonkeyPatch, guard: str, name: str, kind: str
) -> None:
    wrong = WRONG[kind]

    def broken(*_: Any, **__: Any) -> Any:
        if wrong is not None:
            raise wrong

    async def broken_later(*_: Any, **__: Any) -> Any:
        return broken()

    async with opened(TOOLS, CONFIG) as door:
        running: Running = door.dispatcher.running
        *path, last = guard.split(".")
        holder: Any = door
        for part in path:
            holder = getattr(holder, part)
        asked = modern("tools/call", {"name": name, "arguments": {}})
        with monkeypatch.context() as patch:
            patch.setattr(holder, last, broken_later if last == "get" else broken)
            with pytest.raises(McpFault) as fault:
                await door.answer(asked)
        assert fault.value.code == -32603
        assert "secret" not in str(fault.value.error())
        await until(lambda: not running.calls)
        assert [status for _, status, _ in await door.endings()] == ["error"]


async def test_nothing_is_left_of_many_calls_that_were_left_alone() -> None:
    before = asyncio.all_tasks()
    async with opened(TOOLS, CONFIG, parked=1000) as door:
        running: Running = door.dispatcher.running
        for number in range(50):
            name = "deploy" if number % 10 == 0 else "asking"
            await door.answer(modern("tools/call", {"name": name, "arguments": {}}))
        clients = [Client() for _ in range(20)]
        waiting = [
            asyncio.ensure_future(
                door.answer(modern("tools/call", {"name": "deploy"}, capabilities={}), client=each)
            )
            for each in clients
        ]
        await until(lambda: all(client._gone for client in clients))
        for client in clients:
            client.leave()
        await asyncio.gather(*waiting)
        assert len(running.parking) == 50
    assert running.calls == {}
    assert len(running.parking) == 0
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
