"""Arguments belong to the call once it was made."""

from __future__ import annotations

import asyncio
from typing import Any

from toolcrib import ToolHost, tool
from toolcrib.testing import EventRecorder


async def test_what_was_approved_is_what_runs() -> None:
    seen: list[Any] = []

    @tool(effects=["write"], requires_approval=True)
    async def pay(orders: list[dict[str, int]]) -> int:
        seen.append(orders)
        return len(orders)

    async with ToolHost([pay]) as host:
        recorder = EventRecorder(host)
        arguments: dict[str, Any] = {"orders": [{"amount": 1}]}
        call = asyncio.ensure_future(host.call("pay", arguments))
        await recorder.wait_for("approval.requested", timeout=5)
        waiting = await host.approvals.list()
        arguments["orders"][0]["amount"] = 1_000_000
        arguments["orders"].append({"amount": 5})
        await host.approvals.decide(waiting[0].id)
        assert (await call).output == 1
    assert seen == [[{"amount": 1}]]
    assert waiting[0].arguments == {"orders": [{"amount": 1}]}


async def test_a_tool_that_changes_its_arguments_changes_nothing_of_the_callers() -> None:
    @tool(effects=["read"])
    async def sort(numbers: list[int]) -> list[int]:
        numbers.sort()
        return numbers

    async with ToolHost([sort]) as host:
        arguments = {"numbers": [3, 1, 2]}
        assert (await host.call("sort", arguments)).output == [1, 2, 3]
        assert arguments == {"numbers": [3, 1, 2]}
