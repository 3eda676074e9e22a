"""Plain calls take a short way: what is answered is what the long way answers, and only they do."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from rpc_peer import caller_of, serving
from toolcrib import ToolHost, tool
from toolcrib.core.context import ToolContext
from toolcrib.errors import ToolFailure
from toolcrib.transports import rpc
from toolcrib.transports.rpc import Connection

LONG = 100_000


@tool(effects=["read"])
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(effects=["read"])
async def echo(value: Any = None) -> Any:
    """Give it back."""
    return value


@tool(effects=["read"])
async def fail() -> str:
    """Fail."""
    raise ToolFailure("it did not work")


@tool(effects=["read"])
async def steps(ctx: ToolContext) -> str:
    """Tell how far it is."""
    ctx.progress(0.5, "half")
    return "done"


class Texts:
    """An outlet that keeps every text as it left."""

    waiting = 0

    def __init__(self) -> None:
        self.left: list[bytes] = []

    def give(self, frame: bytes, more: bool) -> bool:
        self.left.append(frame)
        return False

    def push(self, frame: bytes) -> None:
        self.left.append(frame)

    async def flush(self) -> None: ...
    async def room(self) -> None: ...
    async def finish(self, seconds: float) -> None: ...


@asynccontextmanager
async def connection(**given: Any) -> AsyncIterator[tuple[Connection, Texts]]:
    async with serving(ToolHost([add, echo, fail, steps])) as service:
        session = await service.open_session(caller_of(), lasting=False)
        out = Texts()
        made = Connection(service, caller_of().at(session), out, max_bytes=LONG, **given)
        try:
            yield made, out
        finally:
            await made.close()


async def answers(made: Connection, out: Texts, text: bytes | str) -> list[bytes]:
    """What one text is answered with, without what differs from call to call."""
    out.left.clear()
    made.receive(text)
    for _ in range(20):
        await asyncio.sleep(0)
    return [re.sub(rb'"call_id":"\w+"', b'"call_id":""', frame) for frame in out.left]


def call(name: str, id: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "tools.call", "params": {"name": name, **params}}


PLAIN: dict[str, Any] = {
    "numbers": call("add", arguments={"a": 1, "b": 2}),
    "no arguments": call("echo"),
    "text as id": call("add", "x-1", arguments={"a": 1, "b": 2}),
    "large number as id": call("add", 2**62, arguments={"a": 1, "b": 2}),
    "nested": call("echo", arguments={"value": {"a": [1, {"b": None}], "c": "x"}}),
    "quotes": call("echo", arguments={"value": 'say "hello" \\ / \n'}),
    "not ascii": call("echo", "ü", arguments={"value": "€ 😀"}),
    "odd numbers": call("echo", arguments={"value": [1e300, -0.0, 10**25]}),
    "long": call("echo", arguments={"value": "x" * 5000}),
    "wrong arguments": call("add", arguments={"a": "one"}),
    "no such tool": call("nothing", arguments={}),
    "it fails": call("fail"),
    "time limit": call("add", arguments={"a": 1, "b": 2}, timeout=5),
    "foreign session": call("add", arguments={"a": 1, "b": 2}, session="s-nobody"),
    "foreign profile": call("add", arguments={"a": 1, "b": 2}, profile="nothing"),
}


@pytest.mark.parametrize("spaced", [False, True], ids=["compact", "spaced"])
@pytest.mark.parametrize("kind", [bytes, str], ids=["bytes", "text"])
@pytest.mark.parametrize("message", list(PLAIN.values()), ids=list(PLAIN))
async def test_the_short_way_answers_as_the_long_one(
    message: dict[str, Any], kind: type, spaced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = json.dumps(message, ensure_ascii=False, separators=None if spaced else (",", ":"))
    given = text if kind is str else text.encode()

    def refused(data: bytes) -> Any:
        raise msgspec.DecodeError

    async with connection() as (made, out):
        short = await answers(made, out, given)
        monkeypatch.setattr(rpc, "decode_call", refused)
        assert await answers(made, out, given) == short
        assert len(short) == 1


async def test_plain_calls_take_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    async with connection() as (made, out):
        monkeypatch.delattr(Connection, "_receive")
        for name, message in PLAIN.items():
            if name != "odd numbers":
                assert await answers(made, out, json.dumps(message, ensure_ascii=False)), name


ECHO = '{"jsonrpc":"2.0","id":1,"method":"tools.call","params":{"name":"echo","arguments":%s}}'
OTHERS: dict[str, tuple[str, str]] = {
    "a member twice": (
        '{"jsonrpc":"2.0","id":1,"method":"tools.call","params":{"name":"add","name":"echo"}}',
        "stands twice",
    ),
    "an argument twice": (
        ECHO % '{"value":1,"value":2}',
        "stands twice",
    ),
    "hidden by an escape": (
        ECHO % '{"value":1,"value":"\\u0022\\u0022"}',
        "stands twice",
    ),
    "half a surrogate": (
        ECHO % '{"value":"\\ud800"}',
        "surrogate",
    ),
    "too deep": (
        '{"jsonrpc":"2.0","id":1,"method":"tools.call","params":{"name":"echo","arguments":'
        '{"value":' + "[" * 70 + "]" * 70 + "}}}",
        "nested deeper",
    ),
    "too long": (json.dumps(call("echo", arguments={"value": "x" * LONG})), "over the limit"),
    "unknown member": (json.dumps(call("add", more=1)), "unknown field"),
    "of a wrong type": (json.dumps(call("add", arguments=[1])), "Expected `object"),
    "no time": (json.dumps(call("add", arguments={}, timeout=0)), "> 0"),
    "null as id": (json.dumps(call("echo", None)), '"id":null'),
    "fraction as id": (json.dumps(call("echo", 1.5)), '"error"'),
    "another version": (json.dumps({**call("echo"), "jsonrpc": "1.0"}), '"error"'),
    "no json": ('{"jsonrpc":"2.0","id":1,', "not JSON"),
    "not a number": (
        ECHO % '{"value":NaN}',
        "NaN",
    ),
    "a batch": (json.dumps([call("echo")]), "[{"),
    "to be asked for later": (json.dumps(call("echo", wait=5)), '"status":"ok"'),
    "to be run once": (json.dumps(call("echo", key="k")), '"status":"ok"'),
}


@pytest.mark.parametrize(("text", "said"), list(OTHERS.values()), ids=list(OTHERS))
async def test_anything_else_is_looked_at_closely(
    text: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[bytes | str] = []
    receive = Connection._receive

    def look(self: Connection, given: bytes | str) -> None:
        looked.append(given)
        receive(self, given)

    monkeypatch.setattr(Connection, "_receive", look)
    async with connection() as (made, out):
        made.receive(text)
        for _ in range(200):
            if out.left:
                break
            await asyncio.sleep(0.01)
        assert looked == [text]
        assert said in out.left[0].decode()


async def test_bad_utf8_and_half_characters_are_refused_and_do_not_break_it() -> None:
    async with connection() as (made, out):
        for text in (b'{"jsonrpc":"2.0","id":"\xff","method":"tools.call"}', '{"id":"\ud800"}'):
            (answer,) = await answers(made, out, text)
            assert json.loads(answer)["error"]["data"]["error"]["reason"] == "not_json"
        assert b'"output":3' in (await answers(made, out, json.dumps(PLAIN["numbers"])))[0]


async def test_progress_of_a_call_that_never_waits_is_told_before_its_answer() -> None:
    async with connection() as (made, out):
        frames = [json.loads(each) for each in await answers(made, out, json.dumps(call("steps")))]
        assert [each.get("method") for each in frames] == ["call.progress", None]
        assert frames[0]["params"]["id"] == 1


async def test_nothing_of_a_call_that_is_over_is_kept() -> None:
    async with connection() as (made, out):
        for message in PLAIN.values():
            await answers(made, out, json.dumps(message, ensure_ascii=False))
        assert (made._open, made._pushes.calls) == ({}, {})
