"""Small HTTP servers on 127.0.0.1, under the test's full control down to the bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import pytest

from toolcrib.errors import Denial, ToolFailure
from toolcrib.net.addresses import private_from
from toolcrib.net.client import Client
from toolcrib.net.exchange import Limits, Request
from toolcrib.net.guard import Guard
from toolcrib.net.url import parse_url


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> list[tuple[str, str]]:
        return parse_qsl(self.target.partition("?")[2], keep_blank_values=True)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Server:
    """A running server, and what was asked of it."""

    port: int
    secure: bool = False
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http{'s' if self.secure else ''}://127.0.0.1:{self.port}"


Raw = Callable[[Seen, asyncio.StreamWriter], Awaitable[None]]
"""Writes what it wants to the connection; it is closed afterwards."""
Answer = bytes | Raw
Handler = Callable[[Seen], Answer]


def reply(
    body: bytes | str = b"",
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    *,
    length: bool = True,
) -> bytes:
    """The bytes of an answer."""
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} Words"]
    if length:
        lines.append(f"Content-Length: {len(data)}")
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode() + data


def reply_json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> bytes:
    """The bytes of an answer in JSON."""
    said = {"Content-Type": "application/json", **(headers or {})}
    return reply(json.dumps(value), status, said)


@asynccontextmanager
async def serve(handler: Handler, *, tls: Any = None) -> AsyncIterator[Server]:
    """A server that answers every request with what `handler` gives."""
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        server.connections += 1
        try:
            while (seen := await _request(reader)) is not None:
                server.seen.append(seen)
                answer = handler(seen)
                if not isinstance(answer, bytes):
                    await answer(seen, writer)
                    return
                writer.write(answer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return
        finally:
            writer.close()

    listening = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    server = Server(listening.sockets[0].getsockname()[1], secure=tls is not None)
    try:
        yield server
    finally:
        listening.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await listening.wait_closed()


async def _request(reader: asyncio.StreamReader) -> Seen | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    pairs = (line.split(":", 1) for line in lines if line)
    headers = {name.lower(): value.strip() for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Seen(method, target, headers, body)


HERE = Guard(private=private_from(True))
"""A guard that lets loopback through."""


def get(url: str, **more: Any) -> Request:
    """A request for a URL."""
    return Request(method="GET", url=parse_url(url), repeatable=True, **more)


def names(**table: Sequence[str]) -> Client:
    """A client for which `NAME.test` leads where the test says."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return table[host.removesuffix(".test")]

    return Client(resolve=resolve)


async def refused(client: Client, request: Request, guard: Guard = HERE) -> str:
    """The reason why a request is refused."""
    with pytest.raises(Denial) as raised:
        await client.send(request, guard)
    return raised.value.reason


async def failed(client: Client, request: Request, **limits: Any) -> ToolFailure:
    """How a request fails."""
    with pytest.raises(ToolFailure) as raised:
        await client.send(request, HERE, Limits(**limits))
    return raised.value
