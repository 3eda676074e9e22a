"""Clients that leave, and a host that is told to stop: what ran ends once, what was asked stays."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from hostile import HANDSHAKE, Running, frame, request, running, write_project
from served import until
from toolcrib import ToolHost

CONFIG = """
    version: 1
    host: {store: "sqlite:state/trail.db", profile: all, drain: 700ms}
    tools: [{python: tools.py}]
    profiles:
      all:
        default: allow
        rules: [{ask: deploy}]
        approval: {timeout: 60s, remember: [once], via: [cli, client]}
    serve:
      http: {listen: "127.0.0.1:0", profile: all}
"""
TOOLS = '''
    """Tools that write down how they ended."""

    from __future__ import annotations

    import asyncio
    from pathlib import Path

    from toolcrib import tool


    def note(text: str) -> None:
        with Path(__file__).with_name("ran.txt").open("a") as file:
            file.write(f"{text}\\n")


    @tool(effects=["write"])
    async def slow(label: str, seconds: float = 30.0) -> str:
        """Take time."""
        note(f"began {label}")
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            note(f"cancelled {label}")
            raise
        note(f"ended {label}")
        return label


    @tool(effects=["write"])
    def deploy(env: str) -> str:
        """A person is asked first."""
        note(f"deployed {env}")
        return env
'''


@pytest_asyncio.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Running]:
    write_project(tmp_path, CONFIG, TOOLS)
    async with running(tmp_path) as found:
        yield found


@pytest_asyncio.fixture
async def http(gateway: Running) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(gateway.url) as session:
        yield session


class Leaver:
    """A client that makes one call and can be torn away."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    @classmethod
    async def call(
        cls, gateway: Running, door: str, name: str, arguments: Any, **more: Any
    ) -> Leaver:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        if door == "http":
            body = json.dumps({"arguments": arguments, **more}).encode()
            writer.write(request(gateway.port, f"POST /v1/tools/{name}/call", body, close=False))
        else:
            writer.write(request(gateway.port, "GET /v1/ws", b"", *HANDSHAKE, close=False))
            await reader.readuntil(b"\r\n\r\n")
            params = {"name": name, "arguments": arguments, **more}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools.call", "params": params}
            writer.write(frame(json.dumps(message).encode()))
        await writer.drain()
        return cls(writer)

    async def leave(self, how: str) -> None:
        if how == "close":
            self._writer.close()
        else:
            self._writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


async def noted(gateway: Running, text: str) -> None:
    await until(lambda: text in gateway.ran)


async def get(http: aiohttp.ClientSession, path: str) -> Any:
    async with http.get(path) as answer:
        return await answer.json()


async def ended(http: aiohttp.ClientSession, tool: str) -> list[dict[str, Any]]:
    """The calls of a tool, once all of them are over."""
    async with asyncio.timeout(20):
        while True:
            calls = (await get(http, f"/v1/calls?tool={tool}"))["calls"]
            if calls and all(call["status"] for call in calls):
                return calls
            await asyncio.sleep(0.02)


async def asked(http: aiohttp.ClientSession) -> list[dict[str, Any]]:
    """What waits for a person, as soon as there is something."""
    async with asyncio.timeout(20):
        while True:
            found = (await get(http, "/v1/approvals"))["approvals"]
            if found:
                return found
            await asyncio.sleep(0.02)


LEAVING = pytest.mark.parametrize("how", ["close", "abort"])
AT = pytest.mark.parametrize("door", ["http", "websocket"])


@AT
@LEAVING
async def test_who_leaves_while_a_tool_runs_stops_it(
    gateway: Running, http: aiohttp.ClientSession, door: str, how: str
) -> None:
    client = await Leaver.call(gateway, door, "slow", {"label": "x"})
    await noted(gateway, "began x")
    await client.leave(how)
    await noted(gateway, "cancelled x")
    (call,) = await ended(http, "slow")
    assert (call["status"], call["reason"]) == ("error", "cancelled")
    trail = (await get(http, f"/v1/calls/{call['id']}/trail"))["events"]
    assert [event["type"] for event in trail].count("call.finished") == 1
    assert gateway.ran == ["began x", "cancelled x"]


@AT
async def test_who_leaves_while_a_person_is_asked_leaves_the_question(
    gateway: Running, http: aiohttp.ClientSession, door: str
) -> None:
    """It can still be answered, and the same call again finds the answer and runs once."""

    async with http.post("/v1/sessions", json={}) as answer:
        session = (await answer.json())["id"]
    arguments = {"env": "prod"}
    client = await Leaver.call(gateway, door, "deploy", arguments, session=session)
    (found,) = await asked(http)
    await client.leave("abort")
    await asyncio.sleep(0.2)
    assert [request["id"] for request in await asked(http)] == [found["id"]]
    async with http.post(f"/v1/approvals/{found['id']}", json={"allow": True}) as answer:
        assert (await answer.json())["state"] == "allowed"
    assert gateway.ran == []
    given = {"arguments": arguments, "session": session}
    async with http.post("/v1/tools/deploy/call?wait=10", json=given) as answer:
        assert answer.status == 200, await answer.text()
        assert (await answer.json())["output"] == "prod"
    assert gateway.ran == ["deployed prod"]
    async with http.post("/v1/tools/deploy/call?wait=0.1", json=given) as answer:
        assert answer.status == 202  # once means once
    assert gateway.ran == ["deployed prod"]


async def test_a_socket_that_was_cut_off_finds_the_answer_when_it_comes_back(
    gateway: Running, http: aiohttp.ClientSession
) -> None:
    client = await Leaver.call(gateway, "websocket", "deploy", {"env": "prod"})
    (found,) = await asked(http)
    await client.leave("abort")
    async with http.post(f"/v1/approvals/{found['id']}", json={"allow": True}) as answer:
        assert (await answer.json())["state"] == "allowed"
    params = {"name": "deploy", "arguments": {"env": "prod"}, "wait": 1}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools.call", "params": params}
    answers: list[Any] = []
    async with http.ws_connect("/v1/ws") as socket:
        for _ in range(2):
            await socket.send_json(message)
            while (said := await socket.receive_json()).get("id") != 1:
                pass
            answers.append(said["result"])
    assert answers[0]["output"] == "prod"
    assert answers[1]["state"] == "awaiting_approval", "once means once"
    assert gateway.ran == ["deployed prod"]


async def test_a_call_that_was_answered_by_202_goes_on_without_its_client(
    gateway: Running, http: aiohttp.ClientSession
) -> None:
    given = {"arguments": {"label": "later", "seconds": 0.6}}
    async with (
        aiohttp.ClientSession(gateway.url) as other,
        other.post("/v1/tools/slow/call?wait=0.1", json=given) as answer,
    ):
        assert answer.status == 202
        where = answer.headers["Location"]
    result = await get(http, f"{where}?wait=20")
    assert result["output"] == "later"
    assert gateway.ran == ["began later", "ended later"]


async def test_every_call_ends_once_when_the_host_is_told_to_stop(tmp_path: Path) -> None:
    """Those that are done in time with their result, the others cancelled; the trail has both."""
    write_project(tmp_path, CONFIG, TOOLS)
    async with running(tmp_path) as gateway, aiohttp.ClientSession(gateway.url) as http:

        async def call(n: int) -> dict[str, Any]:
            given = {"arguments": {"label": f"{n}", "seconds": 0.3 if n % 2 else 30}}
            async with http.post("/v1/tools/slow/call", json=given) as answer:
                return await answer.json()

        async with http.ws_connect("/v1/ws") as socket:
            for n in range(20, 30):
                params = {"name": "slow", "arguments": {"label": f"{n}"}}
                message = {"jsonrpc": "2.0", "id": n, "method": "tools.call", "params": params}
                await socket.send_json(message)
            calling = [asyncio.ensure_future(call(n)) for n in range(20)]
            waiting = asyncio.ensure_future(
                http.post("/v1/tools/deploy/call", json={"arguments": {"env": "prod"}})
            )
            await noted(gateway, "began 29")
            for n in range(20):
                await noted(gateway, f"began {n}")
            gateway.process.send_signal(signal.SIGTERM)
            results = await asyncio.gather(*calling)
            await asyncio.gather(waiting, return_exceptions=True)
            if not waiting.exception():
                waiting.result().close()
            async with asyncio.timeout(20):
                assert await gateway.process.wait() == 0
        ran = Counter(gateway.ran)
    reasons = [result["error"] and result["error"]["reason"] for result in results]
    assert [reason is None for reason in reasons] == [bool(n % 2) for n in range(20)]
    assert {reason for reason in reasons if reason} <= {"cancelled", "host_stopping"}
    assert set(ran.values()) == {1}
    assert sum(text.startswith("ended") for text in ran) == 10
    assert sum(text.startswith("cancelled") for text in ran) == 20
    async with ToolHost.from_config(tmp_path / "toolcrib.yaml") as host:
        events = await host.trail(limit=1000)
    received = Counter(event.call_id for event in events if event.type == "call.received")
    endings = Counter(
        event.call_id for event in events if event.type in ("call.finished", "call.denied")
    )
    assert len(received) == 31
    assert received == endings
    assert set(endings.values()) == {1}
