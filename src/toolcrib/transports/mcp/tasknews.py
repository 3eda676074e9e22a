"""`notifications/tasks`: what servers say by themselves of the tasks that a client follows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, cast

from toolcrib.core.link import LINK, Era, InputRefused, UpstreamError
from toolcrib.errors import ToolFailure
from toolcrib.protocol.mcp.hops import passed_on
from toolcrib.transports.caller import Caller
from toolcrib.transports.mcp.asked import Asked, Endpoint
from toolcrib.transports.mcp.faults import McpFault, invalid
from toolcrib.transports.mcp.home import Home
from toolcrib.transports.mcp.tasks import Task, Tasks, knows_tasks
from toolcrib.transports.mcp.watching import Tell

_log = logging.getLogger("toolcrib")
MEMBER = "taskIds"
MOST = 100
"""Tasks that one stream tells of."""
PATIENCE = 10.0
"""Seconds for a server to say which of them it tells of."""
_WAIT_MOST = 30.0
_NEWS = "notifications/tasks"
_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"

Ids = Mapping[str, str]
"""The client's own ids of tasks, by what their server calls them."""


class TaskNews:
    """Holds a stream open at each server that has some of the tasks."""

    def __init__(
        self, tasks: Tasks, asked: Asked, caller: Caller, endpoint: Endpoint, tell: Tell
    ) -> None:
        self._tasks = tasks
        self._asked = asked
        self._caller = caller
        self._endpoint = endpoint
        self._tell = tell
        self._streams: list[asyncio.Task[None]] = []
        self._early: list[dict[str, Any]] | None = []
        """What came before the client was told that it would be."""

    async def open(self) -> list[str]:
        """Have the servers tell; the client's ids of the tasks of which they do. What is not the
        caller's is left out without a word. Raises `McpFault`."""
        groups: dict[str, dict[str, str]] = {}
        for name in self._wanted():
            task = self._known(name)
            if task is not None:
                groups.setdefault(task.provider, {})[task.id] = name
        try:
            told = await asyncio.gather(*(self._follow(p, ids) for p, ids in groups.items()))
        except BaseException:
            self.close()
            raise
        return sorted(name for names in told for name in names)

    def begin(self) -> None:
        """Tell from now on."""
        early, self._early = self._early or [], None
        for params in early:
            self._tell(_NEWS, params)

    def close(self) -> None:
        """Tell nothing more."""
        for stream in self._streams:
            stream.cancel()
        self._streams.clear()

    def _wanted(self) -> list[str]:
        notifications: Any = self._asked.params.get("notifications")
        given: Any = notifications.get(MEMBER)
        if given is None or not knows_tasks(self._asked):
            return []
        names = cast("list[Any]", given) if isinstance(given, list) else None
        if names is None or not all(isinstance(name, str) for name in names):
            raise invalid(f"subscriptions/listen: {MEMBER} has to be a list of ids")
        if len(names) > MOST:
            raise invalid(f"one stream tells of {MOST} tasks at most")
        return cast("list[str]", names)

    def _known(self, name: str) -> Task | None:
        """The task, if the caller may ask about it now."""
        try:
            return self._tasks.find(self._caller, self._endpoint, name)
        except McpFault:
            return None

    async def _follow(self, provider: str, ids: Ids) -> list[str]:
        """Those of its tasks that a server tells of."""
        ready: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        stream = asyncio.ensure_future(self._listen(provider, ids, ready))
        self._streams.append(stream)
        await asyncio.wait({ready, stream}, timeout=PATIENCE, return_when="FIRST_COMPLETED")
        honoured = ready.result() if ready.done() else []
        if not honoured:
            stream.cancel()
        return honoured

    async def _listen(self, provider: str, ids: Ids, ready: asyncio.Future[list[str]]) -> None:
        """Listen, and again when the server was away; not if it never agreed to."""
        home = Home.here()
        LINK.set(_Line(self._asked, lambda m, p: home.do(self._heard, m, p, ids, ready)))
        pause = 0.5
        while True:
            relay = self._tasks.relay(provider)
            if relay is not None:
                try:
                    wanted = {"notifications": {MEMBER: sorted(ids)}}
                    await relay.request("subscriptions/listen", wanted)
                except (UpstreamError, ToolFailure, InputRefused) as error:
                    _log.debug("provider %s tells nothing of its tasks: %s", provider, error)
            if not ready.done():
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, _WAIT_MOST)

    def _heard(
        self, method: str, params: Mapping[str, Any], ids: Ids, ready: asyncio.Future[list[str]]
    ) -> None:
        if not ready.done():
            if method != _ACKNOWLEDGED:
                return
            told: Any = params.get("notifications")
            named: Any = cast("Any", told).get(MEMBER) if isinstance(told, dict) else None
            honoured = cast("list[Any]", named) if isinstance(named, list) else []
            ready.set_result([name for theirs, name in ids.items() if theirs in honoured])
        elif method == _NEWS:
            theirs = params.get("taskId")
            name = ids.get(theirs, "") if isinstance(theirs, str) else ""
            if name in ready.result() and self._known(name) is not None:
                made = {**passed_on(params), "taskId": name}
                if self._early is None:
                    self._tell(_NEWS, made)
                elif len(self._early) < MOST:
                    self._early.append(made)


class _Line:
    """The line of a stream that a client listens on: nobody is asked anything there."""

    client = None
    wants_progress = False
    log_level = None

    def __init__(self, asked: Asked, notify: Tell) -> None:
        self.era: Era = asked.era
        self.version = asked.version
        self.capabilities = asked.capabilities
        self.meta = asked.meta
        self.notify: Any = notify

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Raises `InputRefused`."""
        raise InputRefused("nobody can be asked on a stream of changes")
