"""A gateway and the command line on one store: people answer in one what was asked in the other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest_asyncio

from doorways import command, environment
from hostile import Running, running, write_project

CONFIG = """
    version: 1
    host: {store: "sqlite:state/trail.db", profile: all}
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
    """Tools for two processes."""

    from __future__ import annotations

    import os
    from pathlib import Path

    from toolcrib import tool


    @tool(effects=["write"])
    def deploy(env: str) -> int:
        """A person is asked first. Says which process did it."""
        with Path(__file__).with_name("ran.txt").open("a") as file:
            file.write(f"{env}\\n")
        return os.getpid()


    @tool(effects=["read"])
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b
'''


class Command:
    """The command line, in processes of its own."""

    def __init__(self, folder: Path) -> None:
        self._config = str(folder / "toolcrib.yaml")

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *command(*words, "--config", self._config, "--json"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment(),
        )

    async def end(self, process: asyncio.subprocess.Process) -> Any:
        async with asyncio.timeout(30):
            out, err = await process.communicate()
        assert process.returncode == 0, (out, err)
        return json.loads(out)

    async def __call__(self, *words: str) -> Any:
        return await self.end(await self.start(*words))


@pytest_asyncio.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Running]:
    write_project(tmp_path, CONFIG, TOOLS)
    async with running(tmp_path) as found:
        yield found


@pytest_asyncio.fixture
async def http(gateway: Running) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(gateway.url) as session:
        yield session


async def pending(http: aiohttp.ClientSession) -> dict[str, Any]:
    """The one request that waits, as the gateway shows it."""
    async with asyncio.timeout(20):
        while True:
            async with http.get("/v1/approvals") as answer:
                found = (await answer.json())["approvals"]
            if found:
                assert len(found) == 1
                return found[0]
            await asyncio.sleep(0.05)


async def test_asked_at_the_command_line_answered_at_the_gateway(
    gateway: Running, http: aiohttp.ClientSession
) -> None:
    cli = Command(gateway.folder)
    calling = await cli.start("call", "deploy", "env=prod")
    asked = await pending(http)
    assert asked["tool"] == "deploy"
    assert gateway.ran == []
    async with http.post(f"/v1/approvals/{asked['id']}", json={"allow": True}) as answer:
        assert (await answer.json())["state"] == "allowed"
    result = await cli.end(calling)
    assert result["output"] == calling.pid != gateway.process.pid
    assert gateway.ran == ["prod"]


async def test_asked_at_the_gateway_answered_at_the_command_line(
    gateway: Running, http: aiohttp.ClientSession
) -> None:
    cli = Command(gateway.folder)

    async def call(env: str) -> dict[str, Any]:
        given = {"arguments": {"env": env}}
        async with http.post("/v1/tools/deploy/call", json=given) as answer:
            return await answer.json()

    calling = asyncio.ensure_future(call("prod"))
    asked = await pending(http)
    listed = await cli("approvals", "list")
    assert [request["id"] for request in listed] == [asked["id"]]
    await cli("approvals", "allow", asked["id"])
    async with asyncio.timeout(20):
        result = await calling
    assert result["output"] == gateway.process.pid
    calling = asyncio.ensure_future(call("staging"))
    await cli("approvals", "deny", (await pending(http))["id"], "--note", "not today")
    async with asyncio.timeout(20):
        result = await calling
    assert result["error"]["reason"] == "approval_rejected"
    assert "not today" in result["error"]["message"]
    assert gateway.ran == ["prod"]


async def test_each_has_a_chain_of_its_own_and_both_are_whole(
    gateway: Running, http: aiohttp.ClientSession
) -> None:
    cli = Command(gateway.folder)

    async def at_the_gateway(n: int) -> str:
        given = {"arguments": {"a": n, "b": n}}
        async with http.post("/v1/tools/add/call", json=given) as answer:
            return (await answer.json())["call_id"]

    async def at_the_command_line(n: int) -> str:
        return (await cli("call", "add", f"a={n}", "b=1"))["call_id"]

    work = [at_the_gateway(n) for n in range(50)] + [at_the_command_line(n) for n in range(3)]
    calls = await asyncio.gather(*work)
    verified = await cli("audit", "verify")
    async with http.get("/v1/audit/verify") as answer:
        here = (await answer.json())["value"]
    for found in (verified, here):
        assert found["ok"] is True, found
        assert len(found["runs"]) >= 4, found
    async with http.get("/v1/calls?limit=200") as answer:
        kept = {call["id"]: call["status"] for call in (await answer.json())["calls"]}
    assert {kept.get(call) for call in calls} == {"ok"}
    assert len(set(calls)) == 53


async def test_events_of_the_command_line_are_on_the_gateways_stream(
    gateway: Running, http: aiohttp.ClientSession
) -> None:
    cli = Command(gateway.folder)
    async with http.get("/v1/events?types=call.finished") as stream:
        result = await cli("call", "add", "a=1", "b=2")
        async with asyncio.timeout(20):
            async for line in stream.content:
                if line.startswith(b"data:"):
                    event = json.loads(line[5:])
                    break
    assert (event["call_id"], event["data"]["status"]) == (result["call_id"], "ok")
