"""A real gateway on loopback, and a client that controls every byte it sends."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from toolcrib import ToolHost, tool
from toolcrib.core.context import ToolContext
from toolcrib.core.serving import HttpSettings, Listen, ServeSettings, TokenSettings
from toolcrib.errors import ToolFailure
from toolcrib.host.host import ToolHost as Host
from toolcrib.testing import EventRecorder
from toolcrib.transports.serving import Serving, serve

TOKENS = {"boss": "tcr_boss_0123456789abcdef", "ci": "tcr_ci_0123456789abcdef"}
"""The secret of each principal; the boss holds every right, ci none."""
RULES = {
    "rules": [
        {"allow": ["add", "slow", "fail", "echo", "stubborn"]},
        {"ask": "risky"},
        {"deny": "forbidden"},
    ],
    "approval": {"timeout": "30s", "via": ["cli", "client"]},
}
CONFIG: dict[str, Any] = {
    "version": 1,
    "profiles": {"work": RULES, "other": {"rules": [{"allow": "add"}]}},
    "principals": {
        "boss": {
            "permissions": ["toolcrib.approve", "toolcrib.audit", "toolcrib.admin"],
            "profiles": ["work", "other"],
        },
        "ci": {"profiles": ["work"]},
    },
}
LOCAL = Listen(host="127.0.0.1", port=0)


def tools() -> list[Any]:
    """What the gateway serves."""

    @tool(effects=["read"])
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @tool(effects=["read"])
    async def slow(seconds: float) -> str:
        """Take some time."""
        await asyncio.sleep(seconds)
        return "done"

    @tool(effects=["read"])
    async def echo(value: Any = None) -> Any:
        """Give back what came."""
        return value

    @tool(effects=["read"])
    async def fail() -> str:
        """Report a failure."""
        raise ToolFailure("it did not work")

    @tool(effects=["write"])
    async def risky(what: str) -> str:
        """Do what a person has to allow."""
        return f"did {what}"

    @tool(effects=["read"])
    async def forbidden() -> str:
        """Never allowed."""
        return "no"

    @tool(effects=["read"])
    async def stubborn(ctx: ToolContext, seconds: float) -> str:
        """Say how far it is."""
        ctx.progress(0.5, "half way")
        await asyncio.sleep(seconds)
        return "done"

    return [add, slow, echo, fail, risky, forbidden, stubborn]


@dataclass
class Reply:
    """An answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes
    names: list[str] = field(default_factory=list)

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def reason(self) -> str | None:
        error = self.json().get("error")
        return None if error is None else error["reason"]


@dataclass
class Gateway:
    """A running gateway."""

    serving: Serving
    host: Host
    recorder: EventRecorder
    stop: asyncio.Event
    task: asyncio.Future[None]

    @property
    def url(self) -> str:
        return self.serving.urls[0]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    async def connect(self) -> Wire:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        return Wire(reader, writer)

    async def ask(
        self,
        verb: str,
        path: str,
        body: Any = None,
        *,
        who: str | None = "boss",
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """One request on a connection of its own."""
        async with await self.connect() as wire:
            await wire.send(self.request(verb, path, body, who=who, headers=headers))
            return await wire.reply(verb)

    def request(
        self,
        verb: str,
        path: str,
        body: Any = None,
        *,
        who: str | None = "boss",
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """A request's bytes; `body` is JSON, or bytes as they are."""
        found = {"Host": f"127.0.0.1:{self.port}"}
        if who is not None:
            found["Authorization"] = f"Bearer {TOKENS.get(who, who)}"
        data = b""
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            found |= {"Content-Type": "application/json", "Content-Length": str(len(data))}
        found |= headers or {}
        lines = [f"{verb} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in found.items())]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + data

    async def call(self, name: str, arguments: Any = None, **options: Any) -> Reply:
        body = {} if arguments is None else {"arguments": arguments}
        query = options.pop("query", "")
        return await self.ask("POST", f"/v1/tools/{name}/call{query}", body, **options)


class Wire:
    """One connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def __aenter__(self) -> Wire:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        with suppress(ConnectionError):
            await self.writer.drain()

    async def reply(self, verb: str = "GET") -> Reply:
        """The next answer."""
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 10)
        first, *lines = head[:-4].decode("latin-1").split("\r\n")
        pairs = [(k.lower(), v.strip()) for k, _, v in (line.partition(":") for line in lines)]
        headers = dict(pairs)
        status = int(first.split()[1])
        body = b""
        if verb != "HEAD" and status not in (204, 304):
            if headers.get("transfer-encoding") == "chunked":
                while size := int(await self.reader.readuntil(b"\r\n"), 16):
                    body += (await self.reader.readexactly(size + 2))[:-2]
                await self.reader.readexactly(2)
            else:
                body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return Reply(status, headers, body, [name for name, _ in pairs])

    async def closed(self) -> bytes:
        """What comes until the other side closes."""
        return await asyncio.wait_for(self.reader.read(), 10)

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


def settings(*, guarded: bool = True, **http: Any) -> ServeSettings:
    """Settings with a free port, and with tokens unless it is not `guarded`."""
    given: dict[str, Any] = {"listen": (LOCAL,), "profile": "work", **http}
    tokens = tuple(
        TokenSettings(
            name=name,
            hash=f"sha256:{hashlib.sha256(secret.encode()).hexdigest()}",
            principal=name,
            profile="work",
        )
        for name, secret in TOKENS.items()
    )
    return ServeSettings(http=HttpSettings(**given), tokens=tokens if guarded else ())


@asynccontextmanager
async def gateway(
    *,
    guarded: bool = True,
    config: Mapping[str, Any] | Path | None = None,
    store: str = "memory",
    more: Sequence[Any] = (),
    other: Mapping[str, Any] | None = None,
    **http: Any,
) -> AsyncIterator[Gateway]:
    """A gateway for as long as the block lasts; `http` are settings of the door, `other` those
    beside it."""
    host = ToolHost([*tools(), *more], config=config or CONFIG, store=store)
    stop = asyncio.Event()
    opened: asyncio.Future[Serving] = asyncio.get_running_loop().create_future()
    doors = replace(settings(guarded=guarded, **http), **(other or {}))
    task = asyncio.ensure_future(serve(host, doors, ready=opened.set_result, stop=stop))
    await asyncio.wait({task, opened}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        opened.cancel()
        task.result()
    made = Gateway(await opened, host, EventRecorder(host), stop, task)
    try:
        yield made
    finally:
        stop.set()
        await task


def short(config: Mapping[str, Any], **host: Any) -> dict[str, Any]:
    """The configuration with other settings of the host."""
    return {**config, "host": {**config.get("host", {}), **host}}


__all__ = [
    "CONFIG",
    "LOCAL",
    "TOKENS",
    "Gateway",
    "Reply",
    "Wire",
    "gateway",
    "replace",
    "settings",
    "short",
]
