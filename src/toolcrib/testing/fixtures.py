"""Fixtures for pytest, there as soon as Toolcrib is installed. Importing them costs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from toolcrib.host.host import ToolHost
    from toolcrib.testing.approvals import ApprovalSimulator
    from toolcrib.testing.clock import FakeClock
    from toolcrib.testing.recorder import EventRecorder


class HostFactory:
    """Makes hosts as `make_host` does, with a recorder attached, and stops what is left running."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder
        self._made: list[ToolHost] = []

    def __call__(self, tools: Iterable[Any] = (), **options: Any) -> ToolHost:
        """A host; takes what `make_host` takes."""
        from toolcrib.testing.hosts import make_host

        host = make_host(tools, **options)
        self._recorder.attach(host)
        self._made.append(host)
        return host

    def stop(self) -> None:
        """Stop the hosts that the test did not stop."""
        import asyncio
        import threading

        async def stop_all() -> None:
            for host in self._made:
                await host.stop()

        if self._made:
            # In a thread of its own: this thread's loop, if it has one, belongs to the test.
            thread = threading.Thread(target=lambda: asyncio.run(stop_all()))
            thread.start()
            thread.join()


@pytest.fixture
def event_recorder() -> EventRecorder:
    """An `EventRecorder`; hosts made by `tool_host` report to it."""
    from toolcrib.testing.recorder import EventRecorder

    return EventRecorder()


@pytest.fixture
def fake_clock() -> FakeClock:
    """A `FakeClock`, for `tool_host(…, clock=fake_clock)`."""
    from toolcrib.testing.clock import FakeClock

    return FakeClock()


@pytest.fixture
def approvals() -> ApprovalSimulator:
    """An `ApprovalSimulator` that says no, for `tool_host(…, approver=approvals)`."""
    from toolcrib.testing.approvals import ApprovalSimulator

    return ApprovalSimulator()


@pytest.fixture
def tool_host(event_recorder: EventRecorder) -> Iterator[HostFactory]:
    """Makes hosts: `tool_host([add], profile={"rules": [{"allow": "add"}]})`."""
    factory = HostFactory(event_recorder)
    yield factory
    factory.stop()
