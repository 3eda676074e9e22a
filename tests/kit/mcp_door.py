"""The MCP door without a transport: a real service, the real dispatcher, and the client's side of
each request written by hand."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from toolcrib import Principal, ToolHost
from toolcrib.core.serving import McpSettings, ServeSettings
from toolcrib.protocol.mcp import keys
from toolcrib.transports.caller import Caller
from toolcrib.transports.mcp.asked import Asked, Endpoint, asked_handshake, asked_modern
from toolcrib.transports.mcp.dispatcher import Dispatcher
from toolcrib.transports.service import Service

EVERYTHING: dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}
HERE = Endpoint()


class Client:
    """The other side of one request."""

    def __init__(
        self, answers: Callable[[str, Mapping[str, Any]], Awaitable[Any]] | None = None
    ) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._answers = answers
        self._gone: list[Callable[[], None]] = []
        self._left = False

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        self.told.append((method, dict(params)))

    async def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        self.asked.append((method, dict(params)))
        assert self._answers is not None, "this client is not asked anything"
        return await self._answers(method, params)

    def on_gone(self, told: Callable[[], None]) -> None:
        if self._left:
            told()
        else:
            self._gone.append(told)

    def leave(self) -> None:
        """Go away, or take the request back."""
        self._left = True
        for told in self._gone:
            told()

    def of(self, method: str) -> list[dict[str, Any]]:
        """What it was told by notifications of one method."""
        return [params for name, params in self.told if name == method]


def modern(
    method: str,
    params: Mapping[str, Any] | None = None,
    *,
    capabilities: Mapping[str, Any] = EVERYTHING,
    **meta: Any,
) -> Asked:
    """A request that stands alone; more members of `_meta` as keywords."""
    told = {keys.VERSION: "2026-07-28", keys.CAPABILITIES: dict(capabilities), **meta}
    return asked_modern(1, method, {**(params or {}), "_meta": told})


def handshake(
    method: str,
    params: Mapping[str, Any] | None = None,
    *,
    capabilities: Mapping[str, Any] = EVERYTHING,
    log_level: str | None = None,
    **meta: Any,
) -> Asked:
    """A request on a connection that was opened by `initialize`."""
    given = {**(params or {}), **({"_meta": meta} if meta else {})}
    return asked_handshake(
        1,
        method,
        given,
        version="2025-11-25",
        capabilities=capabilities,
        client={"name": "hand", "version": "1"},
        log_level=log_level,
    )


ERAS: dict[str, Callable[..., Asked]] = {"modern": modern, "handshake": handshake}


class Door:
    """A dispatcher on a running service."""

    def __init__(self, service: Service, dispatcher: Dispatcher) -> None:
        self.service = service
        self.host = service.host
        self.dispatcher = dispatcher

    def caller(self, name: str = "ann", profile: str | None = None, **more: Any) -> Caller:
        """Somebody at the door."""
        found = self.host.config.principals.get(name) or Principal(name)
        more = {"local": True, "profiles": None, **more}
        return Caller(found, door="mcp", profile=profile or "plain", **more)

    async def answer(
        self,
        asked: Asked,
        *,
        caller: Caller | None = None,
        endpoint: Endpoint = HERE,
        client: Client | None = None,
    ) -> dict[str, Any]:
        """What a request is answered with, as JSON values."""
        found = await self.dispatcher.answer(
            caller or self.caller(), endpoint, asked, client or Client()
        )
        return msgspec.json.decode(msgspec.json.encode(found))

    async def endings(self) -> list[tuple[str, str | None, str | None]]:
        """How calls ended on the trail: tool, status, reason."""
        parts = await self.host.start()
        await parts.store.flush()
        done = [e for e in await self.host.trail() if e.type in ("call.finished", "call.denied")]
        return [(e.data["tool"], e.data.get("status"), e.data.get("reason")) for e in done]


@contextlib.asynccontextmanager
async def opened(
    tools: list[Any],
    config: dict[str, Any] | Path,
    *,
    store: str = "memory",
    gates: Sequence[Any] = (),
    **settings: Any,
) -> AsyncIterator[Door]:
    """A door; settings of `serve.mcp` as keywords."""
    host = ToolHost(tools, config=config, store=store, gates=gates)
    made = Service(host, replace(ServeSettings(), mcp=McpSettings(**settings)))
    await made.start()
    door = Door(made, Dispatcher(made))
    try:
        yield door
    finally:
        await door.dispatcher.stop()
        await made.stop()


async def until(true: Callable[[], Any]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0.005)
