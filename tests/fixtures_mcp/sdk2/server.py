"""An MCP server for both eras with everything that the conformance suites look for.

    python server.py --port 0          streamable HTTP on loopback, both eras on one address
    python server.py --stdio           the same on stdin and stdout
    python server.py --only modern     refuses the other era

It runs in an environment of its own, with the Python SDK 2.x and without Toolcrib, and prints its
address when it is ready.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import asking  # noqa: F401, the import offers its tools
import library
import mcp_types as types
import uvicorn
from blocks import NOTHING, text
from call import Call, InputNeeded
from events import Remembered
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import PromptsListChanged, ResourceUpdated, ToolsListChanged
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from tasks import EXTENSION, tasks
from tools import TOOLS, Tool, content, tool

Handler = Callable[[Any, Any], Awaitable[dict[str, Any]]]
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
CACHEABLE = frozenset((*LISTS, "resources/read"))
CACHED = {"ttlMs": 1000, "cacheScope": "public"}


class Fixture(Server[dict[str, Any]]):
    """Says in the handshake, too, that its lists change."""

    def create_initialization_options(
        self, notification_options: Any = None, *more: Any, **named: Any
    ) -> InitializationOptions:
        told = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        return super().create_initialization_options(told, *more, **named)


server = Fixture("fixture", version="1.0", instructions="Made for tests.")
server.middleware.append(
    RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=None)
)
server.middleware.append(tasks)
server.extensions[EXTENSION] = {}
bus = InMemorySubscriptionBus()
subscribed: dict[str, list[Any]] = {}
sessions: list[Any] = []


async def tell(event: Any, method: str) -> None:
    """Publish a change to modern listeners and to everybody who shook hands."""
    await bus.publish(event)
    for session in tuple(sessions):
        with contextlib.suppress(Exception):
            await getattr(session, method)()


def _offer_changing() -> None:
    async def run(call: Call) -> dict[str, Any]:
        return content(text("I come and go."))

    name = "test_dynamic_tool"
    if TOOLS.pop(name, None) is None:
        described = {"name": name, "description": "Comes and goes.", "inputSchema": NOTHING}
        TOOLS[name] = Tool(described, run)


@tool("test_trigger_tool_change")
async def change_tools(call: Call) -> dict[str, Any]:
    """Adds a tool, or removes it when it is there."""
    _offer_changing()
    await tell(ToolsListChanged(), "send_tool_list_changed")
    return content(text("The tools changed."))


@tool("test_trigger_prompt_change")
async def change_prompts(call: Call) -> dict[str, Any]:
    """Adds a prompt, or removes it when it is there."""
    library.toggle_prompt()
    await tell(PromptsListChanged(), "send_prompt_list_changed")
    return content(text("The prompts changed."))


@tool("test_change_resource")
async def change_resource(call: Call) -> dict[str, Any]:
    """Changes the watched resource."""
    library.WATCHED["count"] += 1
    uri = "test://watched-resource"
    await bus.publish(ResourceUpdated(uri=uri))
    for session in list(subscribed.get(uri, ())):
        with contextlib.suppress(Exception):
            await session.send_resource_updated(uri)
    return content(text("The resource changed."))


def answers(method: str, params: Any) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        async def run(ctx: Any, given: Any) -> dict[str, Any]:
            try:
                result = await handler(ctx, given)
            except InputNeeded as needed:
                return needed.result
            if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
                return result
            return {"resultType": "complete", **result, **(CACHED if method in CACHEABLE else {})}

        server.add_request_handler(method, params, run)
        return handler

    return register


@answers("tools/list", types.PaginatedRequestParams)
async def list_tools(ctx: Any, params: Any) -> dict[str, Any]:
    return {"tools": [TOOLS[name].definition for name in sorted(TOOLS)]}


@answers("tools/call", types.CallToolRequestParams)
async def call_tool(ctx: Any, params: Any) -> dict[str, Any]:
    called = TOOLS.get(params.name)
    if called is None:
        raise MCPError(-32602, f"Unknown tool: {params.name}")
    return await called.run(Call(ctx))


@answers("resources/list", types.PaginatedRequestParams)
async def list_resources(ctx: Any, params: Any) -> dict[str, Any]:
    return {"resources": library.RESOURCES}


@answers("resources/templates/list", types.PaginatedRequestParams)
async def list_templates(ctx: Any, params: Any) -> dict[str, Any]:
    return {"resourceTemplates": library.TEMPLATES}


@answers("resources/read", types.ReadResourceRequestParams)
async def read_resource(ctx: Any, params: Any) -> dict[str, Any]:
    return library.read(ctx.params["uri"], ctx.protocol_version in MODERN_PROTOCOL_VERSIONS)


@answers("resources/subscribe", types.SubscribeRequestParams)
async def subscribe(ctx: Any, params: Any) -> dict[str, Any]:
    subscribed.setdefault(ctx.params["uri"], []).append(ctx.session)
    return {}


@answers("resources/unsubscribe", types.UnsubscribeRequestParams)
async def unsubscribe(ctx: Any, params: Any) -> dict[str, Any]:
    subscribed.pop(ctx.params["uri"], None)
    return {}


@answers("prompts/list", types.PaginatedRequestParams)
async def list_prompts(ctx: Any, params: Any) -> dict[str, Any]:
    return {"prompts": [library.PROMPTS[name] for name in sorted(library.PROMPTS)]}


@answers("prompts/get", types.GetPromptRequestParams)
async def get_prompt(ctx: Any, params: Any) -> dict[str, Any]:
    return await library.get_prompt(Call(ctx))


@answers("completion/complete", types.CompleteRequestParams)
async def complete(ctx: Any, params: Any) -> dict[str, Any]:
    return await library.complete(ctx.params)


@answers("logging/setLevel", types.SetLevelRequestParams)
async def set_level(ctx: Any, params: Any) -> dict[str, Any]:
    return {}


async def remember(ctx: Any, params: Any) -> None:
    sessions.append(ctx.session)


server.add_notification_handler("notifications/initialized", types.NotificationParams, remember)
server.add_request_handler(
    "subscriptions/listen", types.SubscriptionsListenRequestParams, ListenHandler(bus)
)


def only(era: str) -> Callable[[Any, CallNext], Awaitable[HandlerResult]]:
    """Refuse every request of the other era, as a server does that never heard of it."""

    async def refuse(ctx: Any, call_next: CallNext) -> HandlerResult:
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS and ctx.method != "initialize"
        if modern != (era == "modern") and ctx.request_id is not None:
            raise MCPError(-32601, f"Method not found: {ctx.method}")
        return await call_next(ctx)

    return refuse


class Announced(uvicorn.Server):
    """Says where it is once it answers."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        assert sockets
        print(f"ready http://127.0.0.1:{sockets[0].getsockname()[1]}/mcp", flush=True)


async def serve_http(port: int) -> None:
    listening = socket.create_server(("127.0.0.1", port))
    app = server.streamable_http_app(event_store=Remembered(), retry_interval=100)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    await Announced(config).serve(sockets=[listening])


async def serve_stdio() -> None:
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--stdio", action="store_true")
    parser.add_argument("--only", choices=["modern", "handshake"])
    chosen = parser.parse_args()
    if chosen.only:
        server.middleware.append(only(chosen.only))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    asyncio.run(serve_stdio() if chosen.stdio else serve_http(chosen.port))


if __name__ == "__main__":
    main()
