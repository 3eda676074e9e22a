"""The promises of an executor, kept by `http`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from loopback import Answer, Seen, reply, reply_json, serve
from toolcrib.core.spec import ToolSpec
from toolcrib.executors.http import HttpExecutor
from toolcrib.testing.contracts.executor import Call, ExecutorContract


async def silence(seen: Seen, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(100)


def answer(seen: Seen) -> Answer:
    found: dict[str, Answer] = {
        "/good": reply_json({"q": dict(seen.query)}),
        "/bad": reply("no", 404),
        "/slow": silence,
    }
    return found[seen.path]


class TestHttpExecutor(ExecutorContract):
    @pytest.fixture(autouse=True)
    async def world(self) -> AsyncIterator[None]:
        self.made: list[HttpExecutor] = []
        async with serve(answer) as server:
            self.url = server.url
            yield
            for executor in self.made:
                await executor.aclose()

    def make(self) -> HttpExecutor:
        self.made.append(HttpExecutor())
        return self.made[-1]

    def tool(self, name: str) -> ToolSpec:
        return ToolSpec(
            name=name,
            kind="http",
            input_schema={"type": "object", "properties": {"n": {"type": "integer"}}},
            config={"url": f"{self.url}/{name}", "private": True},
        )

    def good_call(self) -> Call:
        return self.tool("good"), {"n": 1}

    def failing_call(self) -> Call:
        return self.tool("bad"), {}

    def slow_call(self) -> Call:
        return self.tool("slow"), {}
