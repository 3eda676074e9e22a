"""`tools/list` and `tools/call`, in both eras."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from toolcrib.core.result import ToolResult
from toolcrib.protocol.mcp import codes
from toolcrib.protocol.mcp.keys import OURS
from toolcrib.protocol.mcp.results import to_result, upstream_error
from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault
from toolcrib.transports.mcp.approvals import WAITING
from toolcrib.transports.mcp.asked import Asked, Channel, Endpoint
from toolcrib.transports.mcp.envelope import LONGEST_NAME
from toolcrib.transports.mcp.faults import McpFault, invalid
from toolcrib.transports.mcp.listing import Listing
from toolcrib.transports.mcp.run import Run
from toolcrib.transports.mcp.running import Running
from toolcrib.transports.mcp.tasks import Tasks
from toolcrib.transports.service import Service

APPROVAL = OURS + "approval"
"""Under this key of `_meta` stands the approval that a call waits for."""


class Tools:
    """Answers what concerns tools."""

    def __init__(self, service: Service, running: Running, tasks: Tasks) -> None:
        self._service = service
        self._running = running
        self._tasks = tasks
        self._listing = Listing(service.host)

    def list(self, caller: Caller, endpoint: Endpoint, asked: Asked) -> dict[str, Any]:
        """One page of the tools that the caller may call. Raises `McpFault`."""
        settings = self._service.settings.mcp
        modern = asked.era == "modern"
        page = self._listing.page(
            caller, endpoint, asked.params.get("cursor"), settings.page, modern=modern
        )
        found: dict[str, Any] = {"tools": page.tools}
        if page.next is not None:
            found["nextCursor"] = page.next
        if modern:
            found["resultType"] = "complete"
            found["ttlMs"] = int(settings.ttl * 1000)
            found["cacheScope"] = "private"
        return found

    async def call(
        self,
        caller: Caller,
        endpoint: Endpoint,
        asked: Asked,
        channel: Channel,
        begun: Run | None = None,
    ) -> dict[str, Any]:
        """The result of a call, or that input is needed for it. Raises `McpFault`."""
        if begun is not None:
            ending = await self._running.follow(begun, endpoint, asked, channel)
            return (
                ending if isinstance(ending, dict) else self.ended(caller, endpoint, asked, ending)
            )
        params = asked.params
        name = params.get("name")
        arguments: Any = params.get("arguments")
        if type(name) is not str or not name or len(name) > LONGEST_NAME:
            raise invalid("tools/call: name has to be the name of a tool")
        if arguments is not None and type(arguments) is not dict:
            raise invalid("tools/call: arguments has to be an object")
        ending = await self._running.run(
            caller, endpoint, asked, channel, name, cast("Mapping[str, Any] | None", arguments)
        )
        return ending if isinstance(ending, dict) else self.ended(caller, endpoint, asked, ending)

    def ended(
        self, caller: Caller, endpoint: Endpoint, asked: Asked, result: ToolResult
    ) -> dict[str, Any]:
        """How a call ended, as its client is told. Raises `McpFault`."""
        name: str = asked.params["name"]
        made = answered(result, name, modern=asked.era == "modern")
        if made.get("resultType") == "task":
            return self._tasks.created(caller, endpoint, name, made)
        return made


def answered(result: ToolResult, name: str, *, modern: bool) -> dict[str, Any]:
    """How a call ended, as its client is told. Raises `McpFault` for what the protocol has errors
    for: a tool that is not there, and what a server behind us answered so."""
    error = result.error
    if error is not None:
        if (upstream := upstream_error(result)) is not None:
            raise McpFault.of_upstream(upstream)
        if error.reason == "unknown_tool":
            # Under the name that was asked for: the tool's own may not be for this caller.
            data = {"reason": error.reason, "call_id": result.call_id}
            raise McpFault(codes.INVALID_PARAMS, f"Unknown tool: {name}", data)
        if error.reason == "unauthenticated":
            raise McpFault.of(Fault("unauthenticated", error.message))
    made = to_result(result, modern=modern)
    if error is not None and error.reason == WAITING:
        made["_meta"] = {**made.get("_meta", {}), APPROVAL: error.details["approval"]}
    return made
