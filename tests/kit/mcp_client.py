"""An MCP client that controls every byte it sends over HTTP, in both eras."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from http_gateway import Gateway, Reply, Wire

MODERN = "2026-07-28"
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
BOTH = "application/json, text/event-stream"
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


def meta(**more: Any) -> dict[str, Any]:
    """The `_meta` of a modern request."""
    return {VERSION: MODERN, CAPABILITIES: {}, **more}


def message(method: str, params: Any = None, id: Any = 1) -> dict[str, Any]:
    """A request; without an id a notification."""
    made: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if id is not None:
        made["id"] = id
    if params is not None:
        made["params"] = params
    return made


def modern(method: str, params: Mapping[str, Any] | None = None, id: Any = 1) -> dict[str, Any]:
    """A request that stands alone."""
    return message(method, {"_meta": meta(), **(params or {})}, id)


def modern_headers(body: Mapping[str, Any]) -> dict[str, str]:
    """The headers that go with it."""
    found = {"Accept": BOTH, "MCP-Protocol-Version": MODERN, "Mcp-Method": body["method"]}
    member = _NAMED.get(body["method"])
    if member is not None and member in body.get("params", {}):
        found["Mcp-Name"] = body["params"][member]
    return found


@dataclass
class Event:
    """One event of a stream."""

    id: str | None
    data: str
    retry: str | None = None

    def json(self) -> Any:
        return json.loads(self.data)


class Stream:
    """An answer that is an event stream, read as it comes."""

    def __init__(self, wire: Wire, status: int, headers: dict[str, str]) -> None:
        self.wire = wire
        self.status = status
        self.headers = headers
        self._text = b""
        self.ended = False
        self.beats = 0

    async def next(self) -> Event | None:
        """The next event; None at the end of the stream."""
        while True:
            while b"\n\n" not in self._text:
                if not await self._more():
                    return None
            block, _, self._text = self._text.partition(b"\n\n")
            fields = [line.partition(": ") for line in block.decode().split("\n")]
            found = {name: value for name, _, value in fields if name}
            if block.startswith(b":"):
                self.beats += 1
            elif "data" in found or "data:" in found or "id" in found:
                return Event(found.get("id"), found.get("data", ""), found.get("retry"))

    async def message(self) -> Any:
        """The next message."""
        while (event := await self.next()) is not None:
            if event.data:
                return event.json()
        return None

    async def rest(self) -> list[Any]:
        """All messages until the end."""
        found: list[Any] = []
        while (one := await self.message()) is not None:
            found.append(one)
        return found

    async def beat(self) -> None:
        """Wait for a sign of life."""
        while not self.beats:
            assert await self._more()
            self.beats += self._text.count(b":\n\n")

    async def _more(self) -> bool:
        if self.ended:
            return False
        size = int(await asyncio.wait_for(self.wire.reader.readuntil(b"\r\n"), 10), 16)
        data = await self.wire.reader.readexactly(size + 2)
        self._text += data[:-2]
        self.ended = size == 0
        return not self.ended

    async def close(self) -> None:
        await self.wire.close()


class Client:
    """One client; in the handshake era after `open`."""

    wires: ClassVar[list[Wire]] = []
    """What streams came on, for whoever has to close them after a test."""

    def __init__(self, gate: Gateway, *, path: str = "/mcp", who: str | None = "boss") -> None:
        self.gate = gate
        self.path = path
        self.who = who
        self.session: str | None = None
        self.version: str | None = None

    def headers(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        found = {"Accept": BOTH}
        if self.session is not None:
            found["Mcp-Session-Id"] = self.session
        if self.version is not None:
            found["MCP-Protocol-Version"] = self.version
        return {**found, **(more or {})}

    async def post(self, body: Any, headers: Mapping[str, str] | None = None) -> Reply:
        """One message, and the whole answer to it."""
        return await self.gate.ask(
            "POST", self.path, body, who=self.who, headers=self.headers(headers)
        )

    async def stream(
        self, verb: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Stream:
        """One request whose answer is a stream; the caller closes it."""
        wire = await self.gate.connect()
        self.wires.append(wire)
        made = self.gate.request(verb, self.path, body, who=self.who, headers=self.headers(headers))
        await wire.send(made)
        head = await asyncio.wait_for(wire.reader.readuntil(b"\r\n\r\n"), 10)
        first, *lines = head[:-4].decode("latin-1").split("\r\n")
        found = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
        return Stream(wire, int(first.split()[1]), found)

    async def modern(self, method: str, params: Any = None, id: Any = 1) -> Reply:
        """One request that stands alone."""
        body = modern(method, params, id)
        return await self.post(body, modern_headers(body))

    async def open(self, version: str = "2025-11-25", **capabilities: Any) -> Any:
        """`initialize`; what the server said."""
        params = {
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        }
        reply = await self.post(message("initialize", params, 0))
        assert reply.status == 200, reply
        self.session = reply.headers["mcp-session-id"]
        self.version = reply.json()["result"]["protocolVersion"]
        told = await self.post(message("notifications/initialized", id=None))
        assert (told.status, told.body) == (202, b"")
        return reply.json()["result"]

    async def ask(self, method: str, params: Any = None, id: Any = 1) -> Any:
        """The answer to a request of the handshake era, as JSON."""
        reply = await self.post(message(method, params, id))
        assert reply.status == 200, reply
        return reply.json()


@asynccontextmanager
async def streams_closed() -> AsyncIterator[None]:
    """Close what clients opened, at the end."""
    try:
        yield
    finally:
        while Client.wires:
            await Client.wires.pop().close()
