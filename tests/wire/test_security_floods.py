"""Attacks by quantity: what little traffic must not make the host hold much, or work for long."""

from __future__ import annotations

import asyncio
import json
import re
import resource
from contextlib import AsyncExitStack
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from executing import until
from http_gateway import TOKENS, Gateway, gateway
from toolcrib.protocol.jsonrpc import INVALID_REQUEST
from toolcrib.transports.http.connection import MOST_QUEUED
from toolcrib.transports.http.exchange import Exchange
from toolcrib.transports.rpc import MOST_IN_BATCH


def socket_of(gate: Gateway) -> Any:
    headers = {"Authorization": f"Bearer {TOKENS['ci']}"}
    url = f"ws://127.0.0.1:{gate.port}/v1/ws"
    return connect(url, additional_headers=headers, proxy=None, max_size=None)


async def answer(socket: ClientConnection, text: str) -> Any:
    await socket.send(text)
    return json.loads(await asyncio.wait_for(socket.recv(), 20))


async def test_answers_let_no_more_requests_in_while_many_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a client that sends without a pause fills the memory: a load for every answer."""
    made = 0
    real = Exchange.__init__

    def counted(self: Exchange, *given: Any, **named: Any) -> None:
        nonlocal made
        made += 1
        real(self, *given, **named)

    monkeypatch.setattr(Exchange, "__init__", counted)
    async with gateway() as gate, await gate.connect() as wire:
        slow = gate.request("POST", "/v1/tools/slow/call", {"arguments": {"seconds": 0.01}})
        await wire.send(slow * 60)
        await until(lambda: made == 60)
        await wire.send(slow * 60)
        for _ in range(60 - 1 - MOST_QUEUED):
            assert (await wire.reply()).status == 200
            assert made == 60
        for _ in range(60 + 1 + MOST_QUEUED):
            assert (await wire.reply()).status == 200
        assert made == 120


async def test_requests_in_one_piece_have_a_limit() -> None:
    async with gateway() as gate, await gate.connect() as wire:
        one = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        await wire.send(one * 3000)
        statuses = re.findall(rb"HTTP/1.1 (\d+)", await wire.closed())
        assert statuses == [b"200"] * (len(statuses) - 1) + [b"429"]
        assert len(statuses) < 3000


async def test_a_batch_has_a_limit() -> None:
    count = MOST_IN_BATCH
    async with gateway() as gate, socket_of(gate) as socket:
        refused = await answer(socket, f"[{'1,' * count}1]")
        assert refused["error"]["code"] == INVALID_REQUEST
        assert str(count) in refused["error"]["message"]
        assert len(await answer(socket, f"[{'1,' * (count - 1)}1]")) == count


async def test_a_search_has_a_limit() -> None:
    async with gateway() as gate, socket_of(gate) as socket:
        words = " ".join(f"w{number}" for number in range(50_000))
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools.search", "params": {"query": words}}
        refused = await answer(socket, json.dumps(asked))
        assert refused["error"]["data"]["error"]["reason"] == "invalid_request"


async def test_connections_leave_descriptors_for_the_host() -> None:
    """Whoever connects needs no credentials, and must not keep calls from opening files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
    async with AsyncExitStack() as stack:
        try:
            gate = await stack.enter_async_context(gateway())
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(64):
            await stack.enter_async_context(await gate.connect())
        last = await stack.enter_async_context(await gate.connect())
        assert (await last.reply()).reason == "too_many_connections"
