"""MCP on standard input and output: a real process, both eras on one pipe."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_client import CAPABILITIES, SUBSCRIPTION, message, meta, modern

HOST = Path(__file__).parents[1] / "kit" / "mcp_stdio_host.py"
ADD = {"name": "add", "arguments": {"a": 1, "b": 2}}


class Process:
    """A host in a process of its own, and every message it wrote."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.came: list[Any] = []
        self.log = ""
        self._news = asyncio.Event()
        self._readers = [
            asyncio.ensure_future(self._read()),
            asyncio.ensure_future(self._read_log()),
        ]

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.came.append(json.loads(line))
            self._news.set()

    async def _read_log(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.log += line.decode()
            self._news.set()

    async def send(self, *messages: Any) -> None:
        assert self.process.stdin is not None
        for one in messages:
            text = one if isinstance(one, bytes) else json.dumps(one).encode()
            self.process.stdin.write(text + b"\n")
        await self.process.stdin.drain()

    async def until(self, true: Callable[[], Any]) -> Any:
        async with asyncio.timeout(20):
            while not (found := true()):
                self._news.clear()
                await self._news.wait()
        return found

    def answer_of(self, id: Any) -> Any:
        found = (one for one in self.came if isinstance(one, dict) and "method" not in one)
        return next((one for one in found if one.get("id") == id), None)

    async def answer(self, id: Any) -> Any:
        return await self.until(lambda: self.answer_of(id))

    async def ask(self, body: Any) -> Any:
        await self.send(body)
        return await self.answer(body["id"])

    async def told(self, method: str) -> Any:
        """The first message of the host with this method."""
        return await self.until(
            lambda: next((one for one in self.came if one.get("method") == method), None)
        )

    async def open(self, version: str = "2025-11-25", **capabilities: Any) -> Any:
        params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": {}}
        said = await self.ask(message("initialize", params, "open"))
        await self.send(message("notifications/initialized", id=None))
        return said["result"]

    async def ended(self) -> int:
        async with asyncio.timeout(30):
            await asyncio.gather(*self._readers)
            return await self.process.wait()

    async def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()


@contextlib.asynccontextmanager
async def started(**settings: Any) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(HOST),
        json.dumps(settings),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    made = Process(process)
    try:
        yield made
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await made.ended()
        transport: Any = process._transport  # type: ignore[attr-defined]
        transport.close()


async def test_both_eras_on_one_pipe() -> None:
    async with started() as host:
        found = await host.ask(modern("server/discover", id=1))
        assert "2026-07-28" in found["result"]["supportedVersions"]
        assert (await host.open())["protocolVersion"] == "2025-11-25"
        new = await host.ask(modern("tools/call", ADD, "new"))
        assert new["result"]["resultType"] == "complete"
        old = await host.ask(message("tools/call", ADD, "old"))
        assert "resultType" not in old["result"]
        texts = [each["result"]["content"][0]["text"] for each in (new, old)]
        assert texts == ["3", "3"]
        await host.close_input()
        assert await host.ended() == 0
        assert "Traceback" not in host.log


@pytest.mark.parametrize(
    ("first", "mcp"),
    [
        (message("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}}), True),
        (modern("tools/list"), True),
        (message("ping"), True),
        (message("notifications/initialized", id=None), True),
        (message("host.info"), False),
        (message("tools.call", ADD), False),
        (b"{", False),
    ],
    ids=["initialize", "modern", "ping", "notification", "ours", "our call", "no json"],
)
async def test_the_first_message_decides(first: Any, mcp: bool) -> None:
    async with started() as host:
        await host.send(first)
        ours = await host.ask(message("host.info", id=77))
        theirs = await host.ask(modern("tools/list", id=78))
        assert ("error" in ours, "result" in theirs) == (mcp, mcp)


async def test_it_can_be_switched_off() -> None:
    async with started(mcp=False) as host:
        found = await host.ask(modern("tools/list", id=78))
        assert found["error"]["code"] == -32601


async def test_requests_before_initialize_are_refused() -> None:
    async with started() as host:
        assert (await host.ask(message("ping", id=0)))["result"] == {}
        for number, method in enumerate(("tools/list", "tools/call", "resources/list"), 1):
            found = await host.ask(message(method, ADD, number))
            assert found["error"]["code"] == -32600, method
        await host.open()
        again = await host.ask(message("initialize", {}, "again"))
        assert again["error"]["code"] == -32600


async def test_meta_that_is_not_whole_is_refused() -> None:
    async with started() as host:
        broken = [
            (1, meta(**{CAPABILITIES: None}), -32602),
            (2, {**meta(), "io.modelcontextprotocol/protocolVersion": "1999-01-01"}, -32022),
            (3, {**meta(), "progressToken": [1]}, -32602),
        ]
        for number, given, code in broken:
            found = await host.ask(message("tools/list", {"_meta": given}, number))
            assert found["error"]["code"] == code
        found = await host.ask(modern("ping", id=9))
        assert found["error"]["code"] == -32601


async def test_progress_and_calls_at_the_same_time() -> None:
    async with started() as host:
        slow = {"name": "wait", "arguments": {"seconds": 30}, "_meta": meta(progressToken=5)}
        await host.send(message("tools/call", slow, "slow"))
        told = await host.told("notifications/progress")
        assert told["params"]["progressToken"] == 5
        for number in range(50):
            await host.send(modern("tools/call", ADD, number))
        for number in range(50):
            assert (await host.answer(number))["result"]["structuredContent"] == 3
        assert host.answer_of("slow") is None
        await host.send(message("notifications/cancelled", {"requestId": "slow"}, None))
        await host.until(lambda: "stopped waiting" in host.log)
        await host.ask(modern("tools/list", id="after"))
        assert host.answer_of("slow") is None  # who cancelled is not answered


async def test_an_id_in_use_and_ids_that_are_none() -> None:
    async with started() as host:
        slow = {"name": "wait", "arguments": {"seconds": 0.3}}
        await host.send(modern("tools/call", slow, 1), modern("tools/call", ADD, 1))
        first = await host.until(lambda: next((one for one in host.came if "error" in one), None))
        assert (first.get("id"), first["error"]["code"]) == (None, -32600)
        assert (await host.answer(1))["result"]["structuredContent"] == "waited"
        await host.send({"jsonrpc": "2.0", "id": None, "method": "ping"})
        await host.until(lambda: sum("error" in one for one in host.came) == 2)


async def test_a_client_of_the_handshake_era_is_asked() -> None:
    async with started() as host:
        await host.open(elicitation={})
        await host.send(message("tools/call", {"name": "ask_name"}, 1))
        asked = await host.told("elicitation/create")
        assert asked["params"]["message"] == "Who?"
        content = {"action": "accept", "content": {"name": "Ann"}}
        await host.send({"jsonrpc": "2.0", "id": "no such question", "result": {}})
        await host.send({"jsonrpc": "2.0", "id": asked["id"], "result": content})
        found = await host.answer(1)
        assert found["result"]["content"][0]["text"] == "accept Ann"


async def test_a_question_ends_with_the_client() -> None:
    async with started() as host:
        await host.open(elicitation={})
        await host.send(message("tools/call", {"name": "ask_name"}, 1))
        await host.told("elicitation/create")
        await host.close_input()
        assert await host.ended() == 0
        assert "nobody to ask" in host.log
        assert host.answer_of(1)["result"]["isError"] is True


async def test_a_modern_client_is_told_what_is_needed() -> None:
    async with started() as host:
        able = {CAPABILITIES: {"elicitation": {}}}
        first = modern("tools/call", {"name": "ask_name", "_meta": meta(**able)}, 1)
        needed = (await host.ask(first))["result"]
        assert needed["resultType"] == "input_required"
        assert needed["inputRequests"]["who"]["method"] == "elicitation/create"
        answers = {"who": {"action": "accept", "content": {"name": "Bob"}}}
        again = {**first["params"], "inputResponses": answers}
        again["requestState"] = needed["requestState"]
        found = await host.ask(message("tools/call", again, 2))
        assert found["result"]["content"][0]["text"] == "accept Bob"
        assert not [one for one in host.came if "method" in one]  # no requests in this era


async def test_changes_are_told_in_both_eras() -> None:
    async with started() as host:
        await host.open()
        await host.send(
            modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, "sub")
        )
        first = await host.told("notifications/subscriptions/acknowledged")
        assert first["params"]["_meta"][SUBSCRIPTION] == "sub"
        await host.ask(modern("tools/call", {"name": "grow"}, 1))

        def changes() -> list[Any]:
            method = "notifications/tools/list_changed"
            return [one for one in host.came if one.get("method") == method]

        await host.until(lambda: len(changes()) == 2)
        tags = [one.get("params", {}).get("_meta", {}).get(SUBSCRIPTION) for one in changes()]
        assert sorted(tags, key=str) == [None, "sub"]
        await host.close_input()
        assert await host.ended() == 0
        assert host.answer_of("sub")["result"]["_meta"] == {SUBSCRIPTION: "sub"}


async def test_a_subscription_is_cancelled() -> None:
    async with started() as host:
        listen = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, 1)
        await host.send(listen)
        await host.told("notifications/subscriptions/acknowledged")
        await host.send(message("notifications/cancelled", {"requestId": 1}, None))
        await host.ask(modern("tools/call", {"name": "grow"}, 2))
        await host.send(listen)  # the id is free again
        await host.until(lambda: sum("acknowledged" in str(one) for one in host.came) == 2)
        assert "list_changed" not in str(host.came)


async def test_standard_output_is_protocol_only() -> None:
    async with started() as host:
        await host.open()
        found = await host.ask(message("tools/call", {"name": "shout"}, 1))
        assert found["result"]["content"][0]["text"] == "done"
        await host.close_input()
        assert await host.ended() == 0  # every line was JSON
        assert "shout: print" in host.log


async def test_malformed_lines_are_answered_and_survived() -> None:
    async with started(max_line=65_536) as host:
        await host.open()
        lines = [b"{", b"nonsense", b"\xff\xfe", b"[]", b"[1]", b'"x"', b"1", b'{"a":1,"a":2}',
                 b"x" * 70_000, b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
                 b'{"jsonrpc":"1.0","id":1,"method":"ping"}', b"[" * 200]  # fmt: skip
        await host.send(*lines)
        await host.until(lambda: sum("error" in one for one in host.came) == len(lines))
        assert (await host.ask(message("ping", id=99)))["result"] == {}
        codes = {one["error"]["code"] for one in host.came if "error" in one}
        assert codes <= {-32700, -32600, 413}


async def test_batches_of_the_revision_that_has_them() -> None:
    async with started() as host:
        await host.open("2025-03-26")
        await host.send([message("ping", id=1), message("tools/call", ADD, 2), {"x": 1}])
        batch = await host.until(
            lambda: next((one for one in host.came if isinstance(one, list)), None)
        )
        assert {each.get("id") for each in batch} == {1, 2, None}
    async with started() as host:
        await host.open("2025-06-18")
        await host.send([message("ping", id=1)])
        found = await host.until(lambda: next((one for one in host.came if "error" in one), None))
        assert found["error"]["code"] == -32600
