"""A gateway with MCP servers behind it that live in this process and keep to the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pytest

from toolcrib import Principal, ToolContext, ToolHost, ToolSpec
from toolcrib.core.link import LINK, Era, Told, UpstreamError
from toolcrib.errors import ToolFailure
from toolcrib.protocol.mcp import codes
from toolcrib.protocol.mcp.definitions import relay_specs, spec_of
from toolcrib.protocol.mcp.keys import CAPABILITIES, VERSION
from toolcrib.protocol.mcp.results import from_result, upstream_failure
from toolcrib.transports.caller import Caller
from toolcrib.transports.mcp.asked import Asked, Endpoint, asked_handshake, asked_modern
from toolcrib.transports.mcp.dispatcher import Dispatcher
from toolcrib.transports.mcp.sessions import Connection
from toolcrib.transports.service import Service


class Server:
    """What an MCP server has; `Life` is one connection to it."""

    def __init__(self, name: str, *, prefix: str | None = None, era: Era = "handshake") -> None:
        self.name = name
        self.prefix = f"{name}-" if prefix is None else prefix
        self.era: Era = era
        self.capabilities: dict[str, Any] = {
            "prompts": {"listChanged": True},
            "resources": {"listChanged": True, "subscribe": True},
            "completions": {},
            "logging": {},
        }
        self.prompts: list[Any] = []
        self.resources: list[Any] = []
        self.templates: list[Any] = []
        self.texts: dict[str, str] = {}
        self.definitions: list[dict[str, Any]] = []
        self.page = 100
        self.extra: dict[str, Any] = {}
        """Further members of every list."""
        self.answers: dict[str, Callable[[Mapping[str, Any]], Any]] = {}
        """Other answers than usual, by method; may be coroutines."""
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.links: list[Any] = []
        """The line of each request."""
        self.subscribed: set[str] = set()
        self.level: str | None = None
        self.life: Life | None = None
        self.down = False

    def add(self, *uris: str, text: str = "text") -> None:
        for uri in uris:
            self.resources.append({"uri": uri, "name": uri, "mimeType": "text/plain"})
            self.texts[uri] = text

    def say(self, method: str, **params: Any) -> None:
        """A notification that belongs to no request."""
        assert self.life is not None
        for told in list(self.life.told):
            told(method, params)

    def count(self, method: str) -> int:
        return sum(asked == method for asked, _ in self.asked)

    async def handle(self, method: str, params: Mapping[str, Any]) -> Any:
        self.asked.append((method, dict(params)))
        self.links.append(LINK.get())
        special = self.answers.get(method)
        if special is not None:
            answer = special(params)
            return await answer if asyncio.iscoroutine(answer) else answer
        match method:
            case "prompts/list":
                return self._list("prompts", self.prompts, params)
            case "resources/list":
                return self._list("resources", self.resources, params)
            case "resources/templates/list":
                return self._list("resourceTemplates", self.templates, params)
            case "prompts/get":
                return {
                    "messages": [
                        {"role": "user", "content": {"type": "text", "text": repr(params)}}
                    ]
                }
            case "resources/read":
                return self._read(params["uri"])
            case "resources/subscribe":
                self.subscribed.add(params["uri"])
                return {}
            case "resources/unsubscribe":
                self.subscribed.remove(params["uri"])
                return {}
            case "completion/complete":
                return {"completion": {"values": [params["argument"]["value"] + "!"]}}
            case "logging/setLevel":
                self.level = params["level"]
                return {}
            case _:
                raise UpstreamError(codes.METHOD_NOT_FOUND, f"no method {method}")

    def _read(self, uri: str) -> dict[str, Any]:
        if uri not in self.texts:
            code = codes.RESOURCE_NOT_FOUND if self.era == "handshake" else codes.INVALID_PARAMS
            raise UpstreamError(code, "Resource not found", {"uri": uri})
        return {"contents": [{"uri": uri, "text": self.texts[uri], "x-new": 1}], "x-more": True}

    def _list(self, member: str, items: list[Any], params: Mapping[str, Any]) -> dict[str, Any]:
        at = int(params.get("cursor", "0"))
        made: dict[str, Any] = {member: items[at : at + self.page], **self.extra}
        if at + self.page < len(items):
            made["nextCursor"] = str(at + self.page)
        return made


class Life:
    """A provider, and its own relay, from connecting to leaving."""

    kind = "mcp"

    def __init__(self, server: Server) -> None:
        self.server = server
        self.name = server.name
        self.prefix = server.prefix
        self.era = server.era
        self.relay = self
        self.told: list[Told] = []
        self.tools: dict[str, str] = {}
        self._changed: Callable[[], None] | None = None

    @property
    def capabilities(self) -> Mapping[str, Any]:
        return self.server.capabilities

    async def __aenter__(self) -> Life:
        if self.server.down:
            raise ConnectionRefusedError(111, "refused")
        self.server.subscribed.clear()
        self.server.life = self
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.server.life = None

    def follow(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def tools_changed(self) -> None:
        assert self._changed is not None
        self._changed()

    async def health(self) -> None:
        if self.server.down:
            raise ConnectionResetError(104, "reset")

    async def list_tools(self) -> list[ToolSpec]:
        specs = [spec_of(self.name, self.prefix, raw) for raw in self.server.definitions]
        relays = relay_specs(self.name, self.capabilities, [spec.name for spec in specs])
        self.tools = {str(spec.annotations["toolcrib/relay"]): spec.name for spec in relays}
        return [*specs, *relays]

    async def execute(self, ctx: ToolContext) -> Any:
        config = ctx.spec.config
        try:
            if "relay" in config:
                return await self.server.handle(config["relay"], ctx.arguments)
            params = {"name": config["tool"], "arguments": ctx.arguments}
            return from_result(await self.server.handle("tools/call", params), ctx.call_id)
        except UpstreamError as error:
            raise upstream_failure(error) from None

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if self.server.down:
            raise ToolFailure("the connection is gone", reason="tool_unavailable")
        return await self.server.handle(method, params)

    def watch(self, told: Told) -> Callable[[], None]:
        self.told.append(told)
        return lambda: self.told.remove(told)


class Channel:
    """The transport's side of one request."""

    def __init__(self, connection: Connection | None = None) -> None:
        self.connection = connection
        self.sent: list[tuple[str, Any]] = []

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        self.sent.append((method, params))

    async def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        raise AssertionError("nobody asks")

    def on_gone(self, told: Callable[[], None]) -> None:
        pass


class Sink:
    """What a client of a connection was told."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def push(self, frame: bytes) -> None:
        self.frames.append(frame)


class Gateway:
    """A service with its dispatcher, and ways to ask it."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.host = service.host
        self.dispatcher = Dispatcher(service)
        self.changes = self.dispatcher.changes
        self._count = 0

    def caller(self, name: str = "ann", profile: str | None = None) -> Caller:
        known = self.host.config.principals.get(name) or Principal(name)
        return Caller(known, door="mcp", profile=profile, profiles=None)

    async def modern(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        caller: Caller | None = None,
        endpoint: Endpoint | None = None,
        capabilities: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """What a modern client is answered, without who we are."""
        self._count += 1
        meta = {VERSION: "2026-07-28", CAPABILITIES: dict(capabilities or {})}
        asked = asked_modern(self._count, method, {**(params or {}), "_meta": meta})
        made = await self._answer(caller, endpoint, asked, Channel())
        made.pop("_meta", None)
        return made

    async def old(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        caller: Caller | None = None,
        endpoint: Endpoint | None = None,
        connection: Connection | None = None,
    ) -> dict[str, Any]:
        """What a client of the handshake era is answered."""
        self._count += 1
        asked = asked_handshake(self._count, method, dict(params or {}), version="2025-11-25")
        return await self._answer(caller, endpoint, asked, Channel(connection))

    async def _answer(
        self, caller: Caller | None, endpoint: Endpoint | None, asked: Asked, channel: Channel
    ) -> dict[str, Any]:
        return await self.dispatcher.answer(
            caller or self.caller(), endpoint or Endpoint(), asked, channel
        )

    def connect(self, caller: Caller | None = None) -> tuple[Connection, list[bytes]]:
        """A connection of the handshake era, and what its client is told on it."""
        sink = Sink()
        asked = asked_handshake(0, "initialize", {}, version="2025-11-25")
        caller = caller or self.caller()
        made = Connection(self.dispatcher, caller, Endpoint(), asked, "2025-11-25", sink)
        made.follow()
        return made, sink.frames

    async def until(self, true: Callable[[], Any]) -> None:
        """Wait for what comes without being asked for."""
        async with asyncio.timeout(10):
            while not true():  # noqa: ASYNC110 - what it waits for has no event
                await asyncio.sleep(0.005)

    async def add(self, server: Server) -> None:
        await self.host.add_provider(server.name, lambda: Life(server))

    async def restart(self, server: Server) -> None:
        await self.host.sources.restart(server.name)


CONFIG: dict[str, Any] = {
    "version": 1,
    "host": {"profile": "all"},
    "profiles": {
        "all": {"default": "allow"},
        "none": {"default": "deny"},
        "hidden": {"default": "deny", "conceal": True},
        "one": {"default": "deny", "rules": [{"allow": "one-*"}]},
        "part": {
            "default": "deny",
            "rules": [
                {
                    "allow": "one-read_*",
                    "when": {"arguments": {"uri": {"glob": "test://public/*"}}},
                },
                {"allow": "one-get_*", "when": {"arguments": {"name": {"in": ["open"]}}}},
            ],
        },
    },
    "principals": {"ann": {}, "bob": {}},
}


@pytest.fixture
async def start() -> AsyncIterator[Callable[..., Any]]:
    """Starts a gateway with these servers behind it."""
    made: list[Gateway] = []

    async def begin(*servers: Server, config: dict[str, Any] | None = None) -> Gateway:
        host = ToolHost(config=config or deepcopy(CONFIG))
        service = Service(host)
        await service.start()
        gateway = Gateway(service)
        made.append(gateway)
        for server in servers:
            await gateway.add(server)
        return gateway

    yield begin
    for gateway in made:
        await gateway.dispatcher.stop()
        await gateway.service.stop()


@pytest.fixture
def kit() -> SimpleNamespace:
    """The classes of this file."""
    return SimpleNamespace(Server=Server, Endpoint=Endpoint, Channel=Channel, Sink=Sink)
