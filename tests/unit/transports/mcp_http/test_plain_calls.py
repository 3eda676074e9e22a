"""The short way of a plain call says what the long way says, or leaves the request to it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from toolcrib.core.jsontext import parse
from toolcrib.core.result import Failure, ToolResult, Truncated
from toolcrib.protocol import jsonrpc
from toolcrib.protocol.mcp import keys
from toolcrib.transports.mcp.asked import Asked
from toolcrib.transports.mcp.dispatcher import SERVER, plain_result
from toolcrib.transports.mcp.envelope import BOTH, named, read_modern, usual_call
from toolcrib.transports.mcp.tools import answered

META = {keys.VERSION: "2026-07-28", keys.CAPABILITIES: {"elicitation": {}}}
HEAD = {
    b"mcp-protocol-version": b"2026-07-28",
    b"mcp-method": b"tools/call",
    b"mcp-name": b"add",
    b"accept": BOTH,
}


def quickly(head: dict[bytes, bytes], body: bytes) -> Asked | None:
    name = named(head)
    return None if name is None else usual_call(name, body)


def call(**changes: Any) -> dict[str, Any]:
    params = {"name": "add", "arguments": {"a": 1, "b": {"c": ["x"]}}, "_meta": META}
    made = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    return {**made, **changes}


def params(**changes: Any) -> dict[str, Any]:
    return call(params={**call()["params"], **changes})


def meta(**changes: Any) -> dict[str, Any]:
    return params(_meta={**META, **changes})


def told(asked: Asked) -> tuple[Any, ...]:
    without = {k: v for k, v in asked.params.items() if k != "_meta"}
    said = asked.capabilities, asked.client, asked.meta, asked.progress_token, asked.log_level
    return asked.id, asked.method, asked.era, asked.version, without, *said


@pytest.mark.parametrize(
    "message",
    [
        call(),
        call(id="text"),
        params(arguments={}),
        params(arguments={"text": 'quoted "é" \\ / \n'}),
        meta(**{keys.CLIENT: {"name": "c", "version": "1"}}),
    ],
    ids=["plain", "text-id", "no-arguments", "quotes", "client"],
)
@pytest.mark.parametrize("escapes", [False, True])
def test_what_is_read_is_the_same(message: dict[str, Any], escapes: bool) -> None:
    body = json.dumps(message, ensure_ascii=escapes).encode()
    quick = quickly(HEAD, body)
    read = jsonrpc.message(parse(body))
    assert isinstance(read, jsonrpc.Request)
    assert quick is not None
    assert told(quick) == told(read_modern(HEAD, read))


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(call(id=None)),
        json.dumps(call(id=1.5)),
        json.dumps(call(id=True)),
        json.dumps(call(method="tools/list")),
        json.dumps({**call(), "more": 1}),
        json.dumps(params(requestState="x")),
        json.dumps(params(inputResponses={})),
        json.dumps(params(arguments=None)),
        json.dumps(params(name="other")),
        json.dumps(meta(progressToken=1)),
        json.dumps(meta(**{keys.VERSION: "2025-11-25"})),
        json.dumps(meta(**{keys.CAPABILITIES: []})),
        json.dumps(meta(traceparent="x")),
        json.dumps(params(arguments={"a": "😀"})),  # by two escapes, each half a character
        json.dumps(call()).replace('"a": 1', '"a": 1, "a": 2'),
        json.dumps(call()).replace('"id": 7', '"id": 7, "id": 8'),
        json.dumps(call())[:-1],
        json.dumps(params(arguments={"a": None})).replace("null", "NaN"),
        json.dumps(params(arguments={"a": None})).replace("null", "[" * 80 + "]" * 80),
        "[]",
        "",
    ],
    ids=lambda body: body[:0] + str(len(body)),
)
def test_what_is_not_plain_is_left_to_the_long_way(body: str) -> None:
    assert quickly(HEAD, body.encode()) is None


@pytest.mark.parametrize("name", list(HEAD), ids=lambda name: name.decode())
def test_a_header_that_does_not_repeat_the_body_is_left_to_it_too(name: bytes) -> None:
    body = json.dumps(call()).encode()
    assert quickly({**HEAD, name: b"other"}, body) is None
    assert quickly({k: v for k, v in HEAD.items() if k != name}, body) is None


@pytest.mark.parametrize("output", [0, -7, 1.5, 1e300, True, False, "", "x", 'a "é"\n\\', "null"])
def test_a_plain_ending_is_written_as_any_other(output: Any) -> None:
    result = ToolResult(call_id="c", output=output)
    made = answered(result, "add", modern=True)
    made["_meta"] = {**made.get("_meta", {}), keys.SERVER: SERVER}
    quick = plain_result(result)
    assert quick is not None
    assert msgspec.json.decode(quick) == msgspec.json.decode(msgspec.json.encode(made))


@pytest.mark.parametrize(
    "result",
    [
        ToolResult(output=None),
        ToolResult(output={"a": 1}),
        ToolResult(output=[1]),
        ToolResult(output="x", content=[{"type": "text", "text": "y"}]),
        ToolResult(output="x", truncated=Truncated(2, 1)),
        ToolResult(output="x", metadata={"a": 1}),
        ToolResult(output="x", status="error", error=Failure(reason="tool_error", message="m")),
    ],
    ids=["nothing", "object", "list", "content", "cut", "metadata", "error"],
)
def test_any_other_ending_takes_the_long_way(result: ToolResult) -> None:
    assert plain_result(result) is None
