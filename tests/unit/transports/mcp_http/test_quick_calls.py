"""Plain calls that wait: the call itself answers, and whatever else happens to it is seen to."""

from __future__ import annotations

import asyncio
import json
from copy import deepcopy
from typing import Any

import pytest

from executing import until
from http_gateway import CONFIG, Gateway, Reply, Wire, gateway
from toolcrib import tool
from toolcrib.protocol.mcp import keys
from toolcrib.transports.caller import Badge
from toolcrib.transports.mcp import quick

VERSION = "2026-07-28"
SECRET = "hunter2-hunter2-hunter2"


class Watch:
    """What tools of a test did."""

    def __init__(self) -> None:
        self.begun = 0
        self.cancelled = 0
        self.ended = 0


def wait_tool(watch: Watch) -> Any:
    @tool(effects=["read"])
    async def wait(seconds: float, say: str = "") -> str:
        """Take some time."""
        watch.begun += 1
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            watch.cancelled += 1
            raise
        watch.ended += 1
        return say

    return wait


@tool(effects=["read"])
async def breaks() -> str:
    """Break after some time."""
    await asyncio.sleep(0.01)
    raise RuntimeError(f"broken with {SECRET}")


def config() -> dict[str, Any]:
    made = deepcopy(CONFIG)
    made["profiles"]["work"]["rules"][0]["allow"] += ["wait", "breaks"]
    return made


def call(
    served: Gateway,
    name: str,
    arguments: Any,
    *,
    id: Any = 1,
    can: Any = None,
    headers: dict[str, str] | None = None,
    who: str = "boss",
    **more: Any,
) -> bytes:
    meta = {keys.VERSION: VERSION, keys.CAPABILITIES: can or {}}
    params = {"name": name, "arguments": arguments, "_meta": meta, **more}
    body = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
    said = {
        "Accept": "application/json, text/event-stream",
        "Mcp-Protocol-Version": VERSION,
        "Mcp-Method": "tools/call",
        "Mcp-Name": name,
        **(headers or {}),
    }
    return served.request("POST", "/mcp", body, headers=said, who=who)


async def asked(wire: Wire, request: bytes) -> Reply:
    await wire.send(request)
    return await wire.reply()


def opened(watch: Watch | None = None, **http: Any) -> Any:
    more = [wait_tool(watch or Watch()), breaks]
    return gateway(config=config(), more=more, **http)


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How calls that waited went on: by their own answer, or the long way."""
    seen: list[str] = []
    real, long = quick._Plain._settle, quick._Plain._long_way

    def settle(self: Any) -> None:
        seen.append("settled")
        real(self)

    def long_way(self: Any, run: Any) -> Any:
        seen.append("long")
        return long(self, run)

    monkeypatch.setattr(quick._Plain, "_settle", settle)
    monkeypatch.setattr(quick._Plain, "_long_way", long_way)
    return seen


async def warm(served: Gateway, wire: Wire) -> None:
    """The first request opens the door of MCP."""
    assert (await asked(wire, call(served, "add", {"a": 1, "b": 2}))).status == 200


class TestAnswers:
    async def test_each_gets_its_own(self, settled: list[str]) -> None:
        async with opened() as served:

            async def one(number: int) -> tuple[Any, Any]:
                async with await served.connect() as wire:
                    await warm(served, wire)
                    arguments = {"seconds": 0.05 - number / 1000, "say": f"n{number}"}
                    found = (await asked(wire, call(served, "wait", arguments, id=number))).json()
                    return found["id"], found["result"]["structuredContent"]

            found = await asyncio.gather(*(one(number) for number in range(20)))
            assert found == [(number, f"n{number}") for number in range(20)]
            assert settled == ["settled"] * 20

    async def test_a_tool_that_breaks_tells_nothing(self, settled: list[str]) -> None:
        async with opened() as served, await served.connect() as wire:
            await warm(served, wire)
            reply = await asked(wire, call(served, "breaks", {}))
            assert reply.json()["result"]["isError"] is True
            assert SECRET.encode() not in reply.body
            assert settled == ["settled"]

    async def test_an_answer_that_cannot_be_written_is_said_to_be_broken(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def broken(result: Any) -> bytes:
            raise RuntimeError("no")

        async with opened() as served, await served.connect() as wire:
            await warm(served, wire)
            monkeypatch.setattr(quick, "plain_result", broken)
            reply = await asked(wire, call(served, "wait", {"seconds": 0.01}, id=5))
            assert (reply.status, reply.json()["id"]) == (500, 5)
            monkeypatch.undo()
            assert (await asked(wire, call(served, "wait", {"seconds": 0.01}))).status == 200
        assert "failed" in caplog.text

    async def test_secrets_are_hidden(self, settled: list[str]) -> None:
        async with opened() as served, await served.connect() as wire:
            await warm(served, wire)
            served.host.redactor.add_secret(SECRET)
            for seconds in (0.0, 0.02):
                arguments = {"seconds": seconds, "say": f"it is {SECRET}"}
                reply = await asked(wire, call(served, "wait", arguments))
                assert SECRET.encode() not in reply.body
                assert "hidden" in reply.json()["result"]["structuredContent"]
            assert "settled" in settled

    async def test_a_long_wait_becomes_a_stream(self, settled: list[str]) -> None:
        async with opened(heartbeat=0.1) as served, await served.connect() as wire:
            await warm(served, wire)
            reply = await asked(wire, call(served, "wait", {"seconds": 0.5, "say": "late"}, id=3))
            assert reply.headers["content-type"].startswith("text/event-stream")
            data = [line for line in reply.body.split(b"\n") if line.startswith(b"data: ")]
            found = json.loads(data[-1][6:])
            assert (found["id"], found["result"]["structuredContent"]) == (3, "late")
            assert settled == ["settled", "long"]
            assert (await asked(wire, call(served, "add", {"a": 1, "b": 2}))).status == 200


class TestClients:
    @pytest.mark.parametrize("heartbeat", [10.0, 0.05], ids=["waiting", "streaming"])
    async def test_the_call_of_one_that_left_is_stopped(self, heartbeat: float) -> None:
        watch = Watch()
        async with opened(watch, heartbeat=heartbeat) as served:
            async with await served.connect() as wire:
                await warm(served, wire)
                await wire.send(call(served, "wait", {"seconds": 30}))
                await until(lambda: watch.begun)
                await asyncio.sleep(0.2)
            await until(lambda: watch.cancelled)
            await until(lambda: served.recorder.only("call.finished")[1:])
            assert served.recorder.only("call.finished")[-1].data["reason"] == "cancelled"
            async with await served.connect() as wire:
                await warm(served, wire)

    async def test_one_that_left_gets_nobody_elses_answer(self) -> None:
        watch = Watch()
        async with opened(watch) as served:
            for _ in range(5):
                async with await served.connect() as wire:
                    await warm(served, wire)
                    await wire.send(call(served, "wait", {"seconds": 0.02, "say": "left"}))
                async with await served.connect() as wire:
                    reply = await asked(wire, call(served, "wait", {"seconds": 0.03, "say": "me"}))
                    assert reply.json()["result"]["structuredContent"] == "me"

    async def test_a_stopping_host_lets_the_call_end(self, settled: list[str]) -> None:
        async with opened() as served, await served.connect() as wire:
            await warm(served, wire)
            await wire.send(call(served, "wait", {"seconds": 0.2, "say": "done"}))
            await asyncio.sleep(0.05)
            served.stop.set()
            reply = await wire.reply()
            assert reply.json()["result"]["structuredContent"] == "done"
            assert settled == ["settled"]

    async def test_a_badge_that_is_over_calls_nothing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        watch = Watch()
        async with opened(watch) as served, await served.connect() as wire:
            await warm(served, wire)
            request = call(served, "wait", {"seconds": 0.01})
            for _ in range(2):  # so that its plan is known
                await asked(wire, request)
            monkeypatch.setattr(Badge, "over", True)
            assert ((await asked(wire, request)).status, watch.begun) == (401, 2)


class TestQuestions:
    async def test_an_approval_is_asked_of_the_client(self, settled: list[str]) -> None:
        can = {"elicitation": {}}
        async with opened() as served, await served.connect() as wire:
            await warm(served, wire)
            reply = await asked(wire, call(served, "risky", {"what": "it"}, can=can))
            found = reply.json()["result"]
            assert found["resultType"] == "input_required"
            assert settled[-1] == "long"
            ((key, _),) = found["inputRequests"].items()
            answers = {key: {"action": "accept", "content": {"decision": "approve"}}}
            more = {"requestState": found["requestState"], "inputResponses": answers}
            # Not another caller's: what waits belongs to who began it.
            other = await asked(
                wire, call(served, "risky", {"what": "it"}, can=can, who="ci", **more)
            )
            assert "error" in other.json() or other.json()["result"].get("isError")
            assert b"did it" not in other.body

    async def test_a_client_that_left_does_not_get_what_it_did_not_wait_for(self) -> None:
        async with opened() as served:
            async with await served.connect() as wire:
                await warm(served, wire)
                await wire.send(call(served, "risky", {"what": "it"}))
                await until(lambda: served.recorder.only("approval.requested"))
            await until(lambda: served.recorder.only("call.finished")[1:])
            assert served.recorder.only("call.finished")[-1].data["reason"] == "cancelled"


class TestHeaders:
    async def test_headers_that_repeat_arguments_are_held_against_them(self) -> None:
        @tool(effects=["read"])
        async def placed(region: str) -> str:
            """Say where."""
            await asyncio.sleep(0.01)
            return region

        made = deepcopy(CONFIG)
        made["profiles"]["work"]["rules"][0]["allow"].append("placed")
        async with gateway(config=made, more=[placed]) as served:
            entry = served.host.catalog.get("placed")
            assert entry is not None
            properties: Any = entry.spec.input_schema["properties"]
            properties["region"]["x-mcp-header"] = "Region"
            async with await served.connect() as wire:
                await warm(served, wire)
                for said, status in (("eu", 200), ("us", 400), (None, 400), ("eu", 200)):
                    headers = {} if said is None else {"Mcp-Param-Region": said}
                    request = call(served, "placed", {"region": "eu"}, headers=headers)
                    for _ in range(3):
                        assert (await asked(wire, request)).status == status
