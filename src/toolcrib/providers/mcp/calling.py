"""One call of a server's tool."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractContextManager
from time import monotonic
from typing import Any, cast

from toolcrib.core.context import ToolContext
from toolcrib.core.link import LINK, UpstreamError
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import ToolFailure
from toolcrib.protocol.mcp.headers import Mirror, param_headers
from toolcrib.protocol.mcp.results import from_result, upstream_failure
from toolcrib.providers.mcp.exchange import Behalf, Lost
from toolcrib.providers.mcp.listing import PlainTool
from toolcrib.providers.mcp.upstream import Upstream

_EVERY = 0.05
"""Seconds between two steps of progress that are written down; the caller gets all of them."""


async def call_plain(upstream: Upstream, tool: PlainTool, ctx: ToolContext) -> Any:
    """Run a tool that has nothing special about it. What the server answers is given back as it
    came."""
    behalf = _Call(ctx)
    try:
        raw = await upstream.call(tool.name, ctx, behalf, repeatable=tool.repeatable)
    except UpstreamError as error:
        raise upstream_failure(error) from error
    except asyncio.CancelledError:
        behalf.stopped(repeatable=tool.repeatable)
        raise
    return from_result(raw, ctx.call_id)


async def call_tool(
    upstream: Upstream, spec: ToolSpec, ctx: ToolContext, mirrored: tuple[Mirror, ...]
) -> Any:
    """The same for any tool."""
    params = {"name": spec.config["tool"], "arguments": ctx.arguments}
    try:
        headers = param_headers(mirrored, ctx.arguments) if mirrored else None
    except ValueError as error:
        raise ToolFailure(str(error), reason="invalid_arguments") from None
    if _only_as_task(spec, upstream):
        raw = await _as_task(upstream, params, spec, ctx)
    else:
        raw = await _ask(upstream, "tools/call", params, spec, ctx, headers)
    return from_result(raw, ctx.call_id)


async def call_relay(upstream: Upstream, spec: ToolSpec, ctx: ToolContext) -> Any:
    """Read a resource, or get a prompt."""
    return await _ask(upstream, spec.config["relay"], ctx.arguments, spec, ctx)


async def _ask(
    upstream: Upstream,
    method: str,
    params: Mapping[str, Any],
    spec: ToolSpec,
    ctx: ToolContext,
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    behalf = _Call(ctx)
    try:
        return await upstream.send(
            method, params, behalf, repeatable=spec.repeatable, headers=headers
        )
    except UpstreamError as error:
        raise upstream_failure(error) from error
    except asyncio.CancelledError:
        behalf.stopped(repeatable=spec.repeatable)
        raise


class _Call(Behalf):
    """The call of a tool: its caller is told and asked what the server says and wants to know."""

    heard = True
    _due = 0.0

    def __init__(self, ctx: ToolContext) -> None:
        self.link = LINK.get()
        self._ctx = ctx

    def told(self, method: str, params: dict[str, Any]) -> None:
        """Pass on what the server says; steps of progress are written down, but not each."""
        if self.link is not None:
            self.link.notify(method, {k: v for k, v in params.items() if k != "progressToken"})
        if method == "notifications/progress" and monotonic() >= self._due:
            self._due = monotonic() + _EVERY
            message = params.get("message")
            self._ctx.progress(_fraction(params), message if isinstance(message, str) else None)

    def waiting(self) -> AbstractContextManager[None]:
        """The clock of the call stands still meanwhile."""
        return self._ctx.waiting()

    def stopped(self, *, repeatable: bool) -> None:
        """It was cancelled: the server was told, and may not have heard in time."""
        if self.unanswered and not repeatable:
            self._ctx.still_running = True


def _only_as_task(spec: ToolSpec, upstream: Upstream) -> bool:
    """Whether a server of 2025-11-25 runs this tool only as a task, and can."""
    execution: Any = spec.config["definition"].get("execution")
    if not isinstance(execution, dict):
        return False
    if cast("dict[str, Any]", execution).get("taskSupport") != "required":
        return False
    try:
        session = upstream.session
    except Lost:
        return False  # and the call says so
    found: Any = session.capabilities if session.era == "handshake" else None
    for name in ("tasks", "requests", "tools", "call"):
        found = cast("Mapping[str, Any]", found).get(name) if isinstance(found, Mapping) else None
    return found is not None


async def _as_task(
    upstream: Upstream, params: Mapping[str, Any], spec: ToolSpec, ctx: ToolContext
) -> dict[str, Any]:
    """One call all the same: begun as a task, and waited for."""
    made = await _ask(upstream, "tools/call", {**params, "task": {}}, spec, ctx)
    task: Any = made.get("task")
    name: Any = cast("Any", task).get("taskId") if isinstance(task, dict) else None
    if not isinstance(name, str):
        return made  # it was done at once
    try:
        return await _ask(upstream, "tasks/result", {"taskId": name}, spec, ctx)
    except asyncio.CancelledError:
        upstream.send_aside("tasks/cancel", {"taskId": name})
        raise


def _fraction(params: Mapping[str, Any]) -> float | None:
    progress, total = params.get("progress"), params.get("total")
    if not isinstance(progress, int | float) or not isinstance(total, int | float) or total <= 0:
        return None
    return min(max(progress / total, 0.0), 1.0)
