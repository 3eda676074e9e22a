"""MCP under fire: whatever is malformed runs nothing, tells nothing, and does no harm."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from hostile import (
    LONG,
    OTHER_VALUES,
    Running,
    broken_texts,
    no_traces,
    request,
    running,
    statuses,
    throw,
    throw_all,
    write_project,
)
from mcp_client import BOTH, CAPABILITIES, MODERN, VERSION, message, meta, modern
from toolcrib.protocol.mcp.headers import encode_value

pytestmark = pytest.mark.asyncio(loop_scope="module")
BOOM = {"name": "canary", "arguments": {"text": "boom"}}
BODY = json.dumps(modern("tools/call", BOOM)).encode()
HEADERS = (
    f"Accept: {BOTH}",
    f"MCP-Protocol-Version: {MODERN}",
    "Mcp-Method: tools/call",
    "Mcp-Name: canary",
)
METHODS = (
    "initialize", "ping", "server/discover", "tools/list", "tools/call", "prompts/list",
    "prompts/get", "resources/list", "resources/read", "resources/templates/list",
    "resources/subscribe", "completion/complete", "logging/setLevel", "subscriptions/listen",
    "tasks/get", "tasks/cancel", "notifications/initialized", "notifications/cancelled", "",
    "tools.call", "__class__", "tools/call\x00", "TOOLS/CALL",
)  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    folder = tmp_path_factory.mktemp("project")
    write_project(folder)
    async with running(folder) as found:
        yield found
        assert await found.stop() == 0
        no_traces(found.log)


def post(gateway: Running, body: bytes, *headers: str, path: str = "/mcp") -> bytes:
    given = [f"Accept: {BOTH}", *headers] if headers else HEADERS
    return request(gateway.port, f"POST {path}", body, *given)


async def survives(
    gateway: Running, frames: Iterator[tuple[str, bytes]], *, patience: float = LONG
) -> dict[str, bytes]:
    """What came back for each of the frames; none of them ran anything."""
    gateway.forget()
    came = await throw_all(gateway.port, frames, patience=patience)
    no_traces(*came.values())
    assert gateway.ran == [], [label for label, answer in came.items() if b'"ran"' in answer]
    for label, answer in came.items():
        assert all(status < 500 for status in statuses(answer)), (label, answer)
    good = json.dumps(modern("tools/call", {"name": "good", "arguments": {"n": 1}})).encode()
    headers = [each.replace("canary", "good") for each in HEADERS]
    answer = await throw(gateway.port, post(gateway, good, *headers), patience=LONG)
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["result"]["structuredContent"] == 2
    assert gateway.process.returncode is None
    return came


async def test_bodies_that_are_no_json(gateway: Running) -> None:
    def frames() -> Iterator[tuple[str, bytes]]:
        for label, text in broken_texts(BODY, b'"boom"', seed=5):
            yield label, post(gateway, text)

    came = await survives(gateway, frames())
    assert {statuses(answer)[0] for answer in came.values()} <= {400, 413, 415}


async def test_members_of_another_kind(gateway: Running) -> None:
    def frames() -> Iterator[tuple[str, bytes]]:
        for number, value in enumerate(OTHER_VALUES):
            for name in ("jsonrpc", "id", "method", "params"):
                if name == "id" and (type(value) is int or isinstance(value, str)):
                    continue
                body = {**modern("tools/call", BOOM), name: value}
                yield f"{name} {number}", post(gateway, json.dumps(body).encode())
            for name in (VERSION, CAPABILITIES, "progressToken"):
                if (name, type(value)) == (CAPABILITIES, dict) or (
                    name == "progressToken" and (value is None or type(value) in (str, int))
                ):
                    continue
                body = modern("tools/call", {**BOOM, "_meta": {**meta(), name: value}})
                yield f"meta {name} {number}", post(gateway, json.dumps(body).encode())
            for name in ("name", "_meta"):
                body = modern("tools/call", {**BOOM, name: value})
                yield f"params {name} {number}", post(gateway, json.dumps(body).encode())
            if value is not None and type(value) is not dict:
                body = modern("tools/call", {**BOOM, "arguments": value})
                yield f"arguments {number}", post(gateway, json.dumps(body).encode())

    await survives(gateway, frames())


async def test_every_method_with_every_kind_of_params(gateway: Running) -> None:
    """In both eras; a session is there, so that nothing is refused for the lack of it."""
    first = json.dumps(
        message("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
    ).encode()
    opened = await throw(gateway.port, post(gateway, first, "X-Odd: 1"), patience=LONG)
    session = opened.lower().partition(b"mcp-session-id: ")[2].partition(b"\r\n")[0]
    raw = opened[opened.lower().index(b"mcp-session-id: ") + 16 :][: len(session)].decode()
    names: tuple[Any, ...] = ("uri", "name", "level", "cursor", "requestId", "notifications", "ref",
                              "taskId", "protocolVersion")  # fmt: skip

    def frames() -> Iterator[tuple[str, bytes]]:
        for method in METHODS:
            for number, value in enumerate(OTHER_VALUES):
                params: Any = dict.fromkeys(names, value)
                for what in (params, value, None):
                    body = json.dumps(message(method, what, 5)).encode()
                    label = f"{method} {number} {type(what).__name__}"
                    yield f"old {label}", post(gateway, body, f"Mcp-Session-Id: {raw}")
                if method == "subscriptions/listen" and value == {}:
                    continue  # that one is good, and stays open
                body = json.dumps(modern(method, params, 5)).encode()
                named = value if isinstance(value, str) else "x"
                headers = (f"MCP-Protocol-Version: {MODERN}", f"Mcp-Method: {encode_value(method)}",
                           f"Mcp-Name: {encode_value(named)}")  # fmt: skip
                yield f"new {method} {number}", post(gateway, body, *headers)

    await survives(gateway, frames(), patience=0.5)


async def test_headers_of_every_kind(gateway: Running) -> None:
    values = ("", " ", "x", "\x7f", "é", "=?base64?", "=?base64??=", "=?base64?AA==?=", "a" * 8000,
              "=?BASE64?Y2FuYXJ5?=", "canary, canary", "canary;q=1", '"canary"', "2026-07-28 ",
              "2025-11-25", "9999-99-99", "\t", "0-1", "-1", "0-" + "9" * 30)  # fmt: skip

    def frames() -> Iterator[tuple[str, bytes]]:
        for name in (
            "MCP-Protocol-Version",
            "Mcp-Method",
            "Mcp-Name",
            "Accept",
            "Content-Encoding",
        ):
            for number, value in enumerate(values):
                if name == "MCP-Protocol-Version" and value.strip() == MODERN:
                    continue
                kept = [each for each in HEADERS if not each.startswith(f"{name}:")]
                frame = request(gateway.port, "POST /mcp", BODY, *kept, f"{name}: {value}")
                yield f"{name} {number}", frame
        for number, value in enumerate(values):
            for verb in ("GET", "DELETE", "POST"):
                given = (f"Accept: {BOTH}", f"Mcp-Session-Id: {value}", f"Last-Event-ID: {value}")
                body = json.dumps(message("tools/call", BOOM)).encode() if verb == "POST" else b""
                frame = request(gateway.port, f"{verb} /mcp", body, *given)
                yield f"{verb} session {number}", frame

    await survives(gateway, frames())


async def test_addresses_of_every_kind(gateway: Running) -> None:
    paths = ("/mcp/none", "/mcp/s/", "/mcp/s/x", "/mcp//", "/mcp/%2e%2e", "/mcp/../mcp", "/mcp/%ff",
             "/mcp/s/%00", "/mcp/sse", "/mcp/messages/x", "/mcp?x=1", "/mcp/all?x", "/mcp/all/x/y",
             "/mcp/" + "a" * 3000, "/mcp%2f", "/mcp;x", "/MCP", "/mcp.json")  # fmt: skip

    def frames() -> Iterator[tuple[str, bytes]]:
        for path in paths:
            for verb in ("POST", "GET", "DELETE", "PUT", "HEAD", "OPTIONS", "TRACE", "BREW"):
                body = BODY if verb in ("POST", "PUT") else b""
                yield f"{verb} {path}", request(gateway.port, f"{verb} {path}", body, *HEADERS)

    await survives(gateway, frames(), patience=0.5)


async def test_bodies_with_random_bytes_changed(gateway: Running) -> None:
    dice = random.Random(11)

    def frames() -> Iterator[tuple[str, bytes]]:
        for number in range(300):
            text = bytearray(BODY)
            for _ in range(dice.randint(1, 4)):
                text[dice.randrange(len(text))] = dice.randrange(256)
            # What still calls the canary was changed where it does not matter.
            try:
                found = json.loads(bytes(text))
                if found["params"]["name"] == "canary":
                    continue
            except (ValueError, KeyError, TypeError):
                pass
            yield str(number), post(gateway, bytes(text))

    await survives(gateway, frames())
