"""An inbox with a clock that the test moves, and what it announced."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from toolcrib.approvals.inbox import Inbox
from toolcrib.core.approval import ApprovalRequest
from toolcrib.core.protocols import Store
from toolcrib.stores.memory import MemoryStore


class Clock:
    """Shows what it is told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Desk:
    """Builds inboxes over one store and collects their events."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self.events: list[tuple[str, str | None, dict[str, Any]]] = []
        self.inboxes: list[Inbox] = []
        self._numbers = itertools.count(1)

    def inbox(self, approver: Any = None, *, store: Store | None = None) -> Inbox:
        inbox = Inbox(
            store or self.store,
            approver=approver,
            announce=lambda *event: self.events.append(event),
            clock=self.clock,
            new_id=lambda: f"id-{next(self._numbers)}",
        )
        self.inboxes.append(inbox)
        return inbox

    async def pending(self, inbox: Inbox, count: int = 1) -> list[ApprovalRequest]:
        """The pending requests, once there are so many."""
        for _ in range(10_000):
            found = await inbox.list()
            if len(found) >= count:
                return found
            await asyncio.sleep(0.001)
        raise AssertionError(f"fewer than {count} requests are pending")

    def types(self) -> list[str]:
        return [event[0] for event in self.events]

    def data(self, type: str) -> dict[str, Any]:
        [found] = [event[2] for event in self.events if event[0] == type]
        return found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def desk(clock: Clock) -> AsyncIterator[Desk]:
    store = MemoryStore(clock=clock)
    await store.open()
    desk = Desk(store, clock)
    yield desk
    for inbox in desk.inboxes:
        await inbox.close()
    await store.close()


@pytest.fixture
def make_request(clock: Clock) -> Callable[..., ApprovalRequest]:
    numbers = itertools.count(1)

    def make(**changes: Any) -> ApprovalRequest:
        number = next(numbers)
        fields: dict[str, Any] = {
            "id": f"r{number}",
            "call_id": f"c{number}",
            "key": f"k{number}",
            "tool": "run_tests",
            "digest": "d1",
            "arguments": {"path": "tests/integration"},
            "effects": None,
            "principal": "claude-code",
            "session": "s1",
            "profile": "reviewer",
            "door": "python",
            "revision": "v1",
            "gate": "profile",
            "message": "effects other than read are asked",
            "rule": "ask: {effects: [write]}",
            "source": "toolcrib.yaml:31",
            "offered": ("once", "session"),
            "via": ("host", "cli", "console", "client"),
            "edit": False,
            "created": clock.now,
            "expires": clock.now + 300.0,
        }
        return ApprovalRequest(**(fields | changes))

    return make
