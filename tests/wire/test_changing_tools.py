"""Tools come and go while a hundred clients call: no wrong result, and nothing stays behind."""

from __future__ import annotations

import asyncio
import gc
import random
import weakref
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp

from http_gateway import CONFIG, TOKENS, gateway
from toolcrib import tool
from toolcrib.core.entry import Entry

TURNS = 1000
NAMES = tuple(f"fleeting_{n}" for n in range(20))
SOCKETS, REQUESTERS = 20, 80
PAUSE = 1.0
"""Seconds between two calls of a client at most: tools shall change faster than they are called."""
OPEN: dict[str, Any] = {**CONFIG, "profiles": {**CONFIG["profiles"], "work": {"default": "allow"}}}
BEARER = {"Authorization": f"Bearer {TOKENS['boss']}"}


class Ages:
    """What each name meant, one age after the other: a value, or nothing."""

    def __init__(self) -> None:
        self._known: dict[str, list[int | None]] = {name: [None] for name in NAMES}

    def begin(self, name: str, value: int | None) -> None:
        self._known[name].append(value)

    def now(self, name: str) -> int:
        return len(self._known[name]) - 1

    def since(self, name: str, start: int) -> set[int | None]:
        """All that it meant from then on."""
        return set(self._known[name][start:])


def fleeting(name: str, value: int) -> Any:
    @tool(name=name, effects=["read"])
    async def function() -> int:
        """Here today."""
        return value

    return function


class Clients:
    """Call until they are told to stop, and judge every result."""

    def __init__(self, url: str, ages: Ages) -> None:
        self.url = url
        self.ages = ages
        self.over = False
        self.good = self.gone = 0

    def judge(self, name: str, start: int, result: dict[str, Any]) -> None:
        possible = self.ages.since(name, start)
        if result["status"] == "ok":
            assert result["output"] in possible, (name, result, possible)
            self.good += 1
        else:
            assert result["error"]["reason"] in ("unknown_tool", "tool_unavailable"), result
            assert None in possible, (name, result, possible)
            self.gone += 1

    async def requester(self, http: aiohttp.ClientSession, seed: int) -> None:
        rng = random.Random(seed)
        while not self.over:
            name = rng.choice(NAMES)
            start = self.ages.now(name)
            async with http.post(f"{self.url}/v1/tools/{name}/call", headers=BEARER) as answer:
                self.judge(name, start, await answer.json())
            await asyncio.sleep(rng.random() * PAUSE)

    async def caller(self, socket: aiohttp.ClientWebSocketResponse, seed: int) -> None:
        rng = random.Random(seed)
        number = 0
        while not self.over:
            asked: dict[int, tuple[str, int]] = {}
            for _ in range(3):
                number += 1
                name = rng.choice(NAMES)
                asked[number] = (name, self.ages.now(name))
                params = {"name": name}
                message = {"jsonrpc": "2.0", "id": number, "method": "tools.call", "params": params}
                await socket.send_json(message)
            while asked:
                message = await socket.receive_json()
                if "id" in message:  # else it was told that the tools changed
                    self.judge(*asked.pop(message["id"]), message["result"])
            await asyncio.sleep(rng.random() * PAUSE)


def count() -> tuple[int, int, int]:
    """Tasks, descriptors and catalog entries that are alive."""
    gc.collect()
    entries = sum(issubclass(type(each), Entry) for each in gc.get_objects())
    return len(asyncio.all_tasks()), len(list(Path("/proc/self/fd").iterdir())), entries


async def test_a_thousand_tools_come_and_go_under_a_hundred_clients() -> None:
    ages = Ages()
    functions: list[weakref.ref[Any]] = []
    async with gateway(config=OPEN) as served:
        served.recorder.detach()
        before = count()
        clients = Clients(served.url, ages)
        async with AsyncExitStack() as stack:
            http = await stack.enter_async_context(
                aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
            )
            opening = (
                http.ws_connect(f"{served.url}/v1/ws", headers=BEARER) for _ in range(SOCKETS)
            )
            sockets = [await stack.enter_async_context(each) for each in opening]
            work = [clients.caller(socket, seed) for seed, socket in enumerate(sockets)]
            work += [clients.requester(http, 1000 + seed) for seed in range(REQUESTERS)]
            for name in NAMES:
                served.host.register(fleeting(name, -1))
                ages.begin(name, -1)
            for name in NAMES:  # so that each was prepared once for this caller
                async with http.post(
                    f"{served.url}/v1/tools/{name}/call", headers=BEARER
                ) as answer:
                    clients.judge(name, 1, await answer.json())
            tasks = [asyncio.ensure_future(each) for each in work]
            for turn in range(TURNS):
                name = NAMES[turn % len(NAMES)]
                function = fleeting(name, turn)
                functions.append(weakref.ref(function))
                ages.begin(name, turn)
                served.host.register(function, replace=True)
                del function
                await asyncio.sleep(0.002)
                if turn % 3 == 0 or turn >= TURNS - len(NAMES):
                    served.host.unregister(name)
                    ages.begin(name, None)
                    await asyncio.sleep(0)
            clients.over = True
            await asyncio.gather(*tasks)
        assert clients.good > 100
        assert clients.gone > 10
        for _ in range(50):  # connections take a moment to be gone
            if count() == before:
                break
            await asyncio.sleep(0.1)
        assert count() == before
        assert [each() for each in functions if each() is not None] == []
