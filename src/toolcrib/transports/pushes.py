"""What clients are told without asking: progress, approvals, and that the tools have changed."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from toolcrib.core.approval import ApprovalRequest
from toolcrib.core.events import Event
from toolcrib.errors import NotFound, StoreError
from toolcrib.host.host import ToolHost
from toolcrib.protocol.jsonrpc import Id

_log = logging.getLogger("toolcrib")
PAUSE = 0.05
"""Seconds in which changes of the tools are told as one."""
_CHANGES = frozenset({"catalog.changed", "config.loaded", "provider.up", "provider.down"})
_ABOUT_CALLS = frozenset({"call.progress", "approval.requested", "approval.decided"})


class Listener(Protocol):
    """A connection, as far as it is told things."""

    @property
    def session_id(self) -> str | None: ...
    def notify(self, method: str, params: Any, *, droppable: bool = False) -> None: ...


class Followed(Protocol):
    """A request that made a call."""

    listener: Any
    """The `Listener` that is told."""
    id: Id
    questions: Questions | None


class Questions:
    """What people were asked about one call."""

    __slots__ = ("asked", "early")

    def __init__(self) -> None:
        self.asked: dict[str, ApprovalRequest] = {}
        """What the client was told of."""
        self.early: dict[str, Event] = {}
        """Answers that came before the client was told of the question."""


class Pushes:
    """One for all connections of a host; listens only while there are some."""

    def __init__(self, host: ToolHost) -> None:
        self.calls: dict[str, Followed] = {}
        """By call id."""
        self._host = host
        self._listeners: set[Listener] = set()
        self._changed: set[Listener] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._stop: Callable[[], None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    def of(cls, host: ToolHost) -> Pushes:
        """The one of this host on the running loop."""
        found = _known.get(host)
        if found is None or found._loop is not asyncio.get_running_loop():
            found = _known[host] = cls(host)
        return found

    def add(self, listener: Listener) -> None:
        """Tell this one from now on."""
        self._listeners.add(listener)
        if self._stop is None:
            self._stop = self._host.bus.on_fact(self._hear)

    def remove(self, listener: Listener) -> None:
        """Tell it nothing more."""
        self._listeners.discard(listener)
        self._changed.discard(listener)
        if self._listeners or self._stop is None:
            return
        self._stop()
        self._stop = None
        _known.pop(self._host, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _hear(self, event: Event) -> None:
        """A fact, in whatever thread it came up."""
        if event.type in _ABOUT_CALLS:
            if event.call_id not in self.calls:
                return
        elif event.type not in _CHANGES:
            return
        if threading.get_ident() == self._thread:
            self._tell(event)
        else:
            self._loop.call_soon_threadsafe(self._tell, event)

    def _tell(self, event: Event) -> None:
        if event.type in _CHANGES:
            self._tools_changed(event.data.get("session"))
            return
        followed = self.calls.get(event.call_id or "")
        if followed is None:
            return
        if event.type == "call.progress":
            params = {
                "call_id": event.call_id,
                "id": followed.id,
                "fraction": event.data.get("fraction"),
                "message": event.data.get("message"),
            }
            followed.listener.notify("call.progress", params, droppable=True)
            return
        questions = followed.questions = followed.questions or Questions()
        name = event.data["request"]
        if event.type == "approval.requested":
            self._spawn(self._asked(followed, questions, name))
        elif name in questions.asked:
            self._answered(followed, questions.asked[name], event)
        else:
            questions.early[name] = event

    async def _asked(self, followed: Followed, questions: Questions, id: str) -> None:
        """Tell of a question in full, and of its answer if that was quicker."""
        request = await self._host.approvals.get(id)
        early = questions.early.pop(id, None)
        asked = request if early is None else msgspec.structs.replace(request, state="pending")
        questions.asked[id] = asked
        followed.listener.notify("approval.requested", {"approval": asked})
        if early is not None:
            self._answered(followed, request, early)

    def _answered(self, followed: Followed, asked: ApprovalRequest, event: Event) -> None:
        if event.data.get("edited") and asked.edited is None:
            self._spawn(self._edited(followed, asked.id, event))
        else:
            self._say_answer(followed, asked, event)

    async def _edited(self, followed: Followed, id: str, event: Event) -> None:
        """The same with the changed arguments, which the trail does not tell."""
        self._say_answer(followed, await self._host.approvals.get(id), event)

    def _say_answer(self, followed: Followed, asked: ApprovalRequest, event: Event) -> None:
        said = event.data
        # Not looked up: by now the call may have used the answer, and what was said is the news.
        answer = msgspec.structs.replace(
            asked,
            state=said["state"],
            note=said.get("note"),
            by=said.get("by"),
            reach=said.get("reach"),
            decided=event.time,
        )
        followed.listener.notify("approval.decided", {"approval": answer})

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(self._quietly(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _quietly(self, work: Any) -> None:
        try:
            await work
        except (NotFound, StoreError) as error:
            _log.warning("a client is not told of an approval: %s", error)

    def _tools_changed(self, session: str | None) -> None:
        """Tell everybody, or the one whose own tools changed; soon, and many changes as one."""
        if session is None:
            self._changed |= self._listeners
        else:
            self._changed |= {one for one in self._listeners if one.session_id == session}
        if self._changed and self._timer is None:
            self._timer = self._loop.call_later(PAUSE, self._tell_changes)

    def _tell_changes(self) -> None:
        self._timer = None
        changed, self._changed = self._changed, set()
        for listener in changed:
            listener.notify("tools.changed", {})


_known: dict[ToolHost, Pushes] = {}
"""Those that have somebody to tell."""
