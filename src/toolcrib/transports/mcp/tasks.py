"""Tasks of the servers behind the host: calls that go on there after they were answered.

The call itself has ended with the task made; what becomes of the task is between the client and
its server. A client knows its tasks by ids of ours, which nobody else can use.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from typing import Any, cast

import msgspec

from toolcrib.core.link import Relay
from toolcrib.host.host import ToolHost
from toolcrib.protocol.mcp import codes
from toolcrib.protocol.mcp.definitions import KIND
from toolcrib.protocol.mcp.keys import TASKS
from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault
from toolcrib.transports.mcp.asked import Asked, Endpoint
from toolcrib.transports.mcp.faults import McpFault, invalid
from toolcrib.transports.mcp.offers import Offers, offers_for
from toolcrib.transports.mcp.upstreams import Upstream, Upstreams

MOST = 10_000
"""Tasks that are remembered; the oldest make room."""
MOST_EACH = 1000
"""Tasks of one principal; its own oldest make room."""
LONGEST = 7 * 24 * 3600.0
"""Seconds that a task is remembered whose server names no time."""


class Task(msgspec.Struct, frozen=True):
    """A task, and whose it is."""

    principal: str
    tool: str
    provider: str
    id: str
    """As its server calls it."""
    until: float


class Tasks:
    """The tasks that clients of one service may ask about."""

    def __init__(self, host: ToolHost, upstreams: Upstreams) -> None:
        self._host = host
        self._upstreams = upstreams
        self._tasks: OrderedDict[str, Task] = OrderedDict()
        self._counts: dict[str, int] = {}

    def created(
        self, caller: Caller, endpoint: Endpoint, tool: str, raw: dict[str, Any]
    ) -> dict[str, Any]:
        """What a call ended with, under an id that its client may use. Raises `McpFault`."""
        held = offers_for(self._host, caller, endpoint)
        plan = self._host.calling.plan(tool, held.profile, held.session)
        provider = plan.spec.category if plan is not None and plan.spec.kind == KIND else None
        theirs = raw.get("taskId")
        if plan is None or provider is None or not isinstance(theirs, str):
            raise McpFault.of(Fault("upstream_error", "the server made a task without an id"))
        ttl = raw.get("ttlMs")
        seconds = ttl / 1000 if isinstance(ttl, int | float) and ttl >= 0 else LONGEST
        until = time.monotonic() + min(seconds + 60.0, LONGEST)
        name = secrets.token_urlsafe(24)
        self._keep(name, Task(held.who.name, plan.name, provider, theirs, until))
        return {**raw, "taskId": name}

    async def answer(self, held: Offers, asked: Asked) -> dict[str, Any]:
        """What the task's server says to `tasks/get`, `tasks/update` or `tasks/cancel`. Raises
        `McpFault`."""
        if not knows_tasks(asked):
            need: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            text = f"{asked.method} is for clients that declare {TASKS}"
            raise McpFault(codes.MISSING_CAPABILITY, text, need)
        name = asked.params.get("taskId")
        task, upstream = self._find(held, name)
        params = {k: v for k, v in asked.params.items() if k != "_meta"}
        params["taskId"] = task.id
        raw = await upstream.request(asked.method, params)
        if raw.get("taskId") == task.id:
            raw = {**raw, "taskId": name}
        return raw

    def find(self, caller: Caller, endpoint: Endpoint, name: str) -> Task:
        """The caller's own task. Raises `McpFault`."""
        return self._find(offers_for(self._host, caller, endpoint), name)[0]

    def relay(self, provider: str) -> Relay | None:
        """The way to a server; None while it is down."""
        upstream = self._upstreams.get(provider)
        return None if upstream is None else upstream.relay

    def _find(self, held: Offers, name: Any) -> tuple[Task, Upstream]:
        """The caller's own task. It says the same of somebody else's as of one that never was."""
        task = self._tasks.get(name) if isinstance(name, str) else None
        upstream = None
        if task is not None and task.principal == held.who.name:
            if task.until < time.monotonic():
                self._drop(cast("str", name))
            else:
                plan = self._host.calling.plan(task.tool, held.profile, held.session)
                # Who may not make the call any more has nothing to do with its task either.
                if plan is not None and plan.listed(held.who):
                    upstream = self._upstreams.get(task.provider)
        if task is None or upstream is None:
            raise invalid(f"there is no task {ascii(name)[:100]}")
        return task, upstream

    def _keep(self, name: str, task: Task) -> None:
        who = task.principal
        if self._counts.get(who, 0) >= MOST_EACH:
            self._drop(next(key for key, one in self._tasks.items() if one.principal == who))
        elif len(self._tasks) >= MOST:
            self._drop(next(iter(self._tasks)))
        self._tasks[name] = task
        self._counts[who] = self._counts.get(who, 0) + 1

    def _drop(self, name: str) -> None:
        task = self._tasks.pop(name)
        left = self._counts[task.principal] - 1
        if left:
            self._counts[task.principal] = left
        else:
            del self._counts[task.principal]


def knows_tasks(asked: Asked) -> bool:
    """Whether the client says that it knows the extension."""
    extensions: Any = asked.capabilities.get("extensions")
    return isinstance(extensions, dict) and TASKS in extensions
