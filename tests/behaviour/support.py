"""What the behaviour tests share: tools that count their runs, and a look at the trail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from toolcrib import ApprovalRequest, Event, ToolHost, ToolResult, tool

ENDINGS = ("call.finished", "call.denied")
VOLATILE = {"timings", "total_s", "wait_s"}
"""What differs from one run to the next: durations."""


class Counted:
    """A tool that counts how often it really ran."""

    def __init__(self, name: str = "work", *, sync: bool = False, **fields: Any) -> None:
        self.runs = 0
        fields.setdefault("effects", {"read"})

        async def work(n: int = 1) -> int:
            self.runs += 1
            return n

        def work_now(n: int = 1) -> int:
            self.runs += 1
            return n

        self.tool: Callable[..., Any] = tool(name=name, **fields)(work_now if sync else work)


def allowing(*names: str, **more: Any) -> dict[str, Any]:
    """A configuration of one profile that allows these tools."""
    return {"profiles": {"only": {"rules": [{"allow": list(names or ("*",))}], **more}}}


async def asked(host: ToolHost) -> ApprovalRequest:
    """The first request that waits for a person, as soon as there is one."""
    for _ in range(1000):
        if pending := await host.approvals.list():
            return pending[0]
        await asyncio.sleep(0.005)
    raise AssertionError("nobody was asked")


async def story(host: ToolHost, call_id: str) -> list[Event]:
    """The stored events of one call."""
    return await host.trail(call_id=call_id)


async def assert_one_ending(host: ToolHost, call_id: str) -> Event:
    """The call was received once and ended once; gives the ending."""
    events = await story(host, call_id)
    types = [event.type for event in events]
    assert types.count("call.received") == 1, types
    endings = [event for event in events if event.type in ENDINGS]
    assert len(endings) == 1, types
    return endings[0]


async def assert_refused(
    host: ToolHost, result: ToolResult, reason: str, counted: Counted, status: str = "denied"
) -> None:
    """The call did not run, says why, and left exactly one ending that says the same."""
    assert counted.runs == 0
    assert (result.status, result.reason) == (status, reason), result
    ending = await assert_one_ending(host, result.call_id)
    assert (ending.data["status"], ending.data["reason"]) == (status, reason)
    assert ending.type == ("call.denied" if status == "denied" else "call.finished")


def lasting(event: Event) -> tuple[str, Mapping[str, Any]]:
    """An event without its id, its time and its durations."""
    return event.type, {key: value for key, value in event.data.items() if key not in VOLATILE}


def numbers(event: Event) -> tuple[int, int]:
    """The record's number and the event's place in it."""
    _, seq, index = event.id.rsplit(".", 2)
    return int(seq), int(index)
