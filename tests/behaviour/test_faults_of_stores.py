"""Approvers and stores that fail: nothing runs without an answer or without a record."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support import Counted, allowing, assert_one_ending, assert_refused, story

from toolcrib import StoreError, ToolHost, tool
from toolcrib.stores.memory import MemoryStore
from toolcrib.testing import ApprovalSimulator


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("crash", "approval_rejected"),
        ("nonsense", "approval_rejected"),
        (TimeoutError, "approval_rejected"),
        (lambda request: None, "approval_rejected"),
        (False, "approval_rejected"),
        ("expire", "approval_expired"),
        ("escalate", "approval_expired"),
    ],
    ids=["crash", "nonsense", "timeout", "none", "no", "hangs", "escalates"],
)
async def test_an_approver_that_gives_no_yes(script: Any, reason: str) -> None:
    work = Counted(requires_approval=True)
    config = allowing("work", approval={"timeout": "80ms"})
    approver = ApprovalSimulator({"work": script})
    async with ToolHost([work.tool], config=config, approver=approver) as host:
        await assert_refused(host, await host.call("work"), reason, work)


@pytest.mark.parametrize("script", ["crash", "nonsense", TimeoutError, lambda request: None])
async def test_an_approvers_fault_is_told_from_a_persons_no(script: Any) -> None:
    work = Counted(requires_approval=True)
    async with ToolHost([work.tool], approver=ApprovalSimulator({"work": script})) as host:
        result = await host.call("work")
        decided = [e.data for e in await host.trail() if e.type == "approval.decided"]
        assert [bool(data.get("fault")) for data in decided] == [True]
        assert "person" not in result.error.message


async def test_an_approval_that_works_lets_the_call_run_once() -> None:
    work = Counted(requires_approval=True)
    async with ToolHost([work.tool], approver=ApprovalSimulator({"work": "allow"})) as host:
        assert (await host.call("work")).success
        assert work.runs == 1


async def test_nobody_may_answer() -> None:
    work = Counted(requires_approval=True)
    config = allowing("work", approval={"via": []})
    async with ToolHost([work.tool], config=config) as host:
        await assert_refused(host, await host.call("work"), "no_approver", work)


class Unwilling(MemoryStore):
    """A store in which one method fails."""

    def __init__(self, method: str, error: Exception | None) -> None:
        super().__init__()
        if error is None:
            setattr(self, method, self._nothing)
        else:
            setattr(self, method, self._fail)
        self._error = error

    async def _fail(self, *args: Any, **kwargs: Any) -> Any:
        assert self._error is not None
        raise self._error

    async def _nothing(self, *args: Any, **kwargs: Any) -> Any:
        return None


METHODS = ["grants", "requests", "put_request", "get_request", "redeem_request"]


@pytest.mark.parametrize("method", METHODS)
async def test_a_store_that_cannot_keep_an_approval(method: str) -> None:
    work = Counted(requires_approval=True)
    store = Unwilling(method, StoreError("the disk is full"))
    approver = ApprovalSimulator({"work": "allow"})
    async with ToolHost([work.tool], store=store, approver=approver) as host:
        await assert_refused(host, await host.call("work"), "audit_unavailable", work)


@pytest.mark.parametrize("method", METHODS)
async def test_a_store_that_fails_in_another_way(method: str) -> None:
    work = Counted(requires_approval=True)
    store = Unwilling(method, OSError("no such device"))
    approver = ApprovalSimulator({"work": "allow"})
    async with ToolHost([work.tool], store=store, approver=approver) as host:
        await assert_refused(host, await host.call("work"), "guard_failed", work)


@pytest.mark.parametrize("method", ["put_request", "get_request", "grants"])
async def test_a_store_that_answers_nothing(method: str) -> None:
    work = Counted(requires_approval=True)
    store = Unwilling(method, None)
    approver = ApprovalSimulator({"work": "allow"})
    async with ToolHost([work.tool], store=store, approver=approver) as host:
        result = await host.call("work")
        assert result.status == "denied"
        assert result.reason in ("guard_failed", "audit_unavailable")
        assert work.runs == 0
        await assert_one_ending(host, result.call_id)


async def test_an_answer_cannot_be_redeemed_when_the_store_says_nothing() -> None:
    work = Counted(requires_approval=True)
    config = allowing("work", approval={"timeout": "100ms"})
    store = Unwilling("redeem_request", None)
    approver = ApprovalSimulator({"work": "allow"})
    async with ToolHost([work.tool], store=store, approver=approver, config=config) as host:
        result = await asyncio.wait_for(host.call("work"), 1)
        assert result.status == "denied"
        assert work.runs == 0


class Full(MemoryStore):
    """A durable store whose transactions fail while `full` is set."""

    durable = True

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path / "store"
        self.full = False

    def _take(self) -> None:
        if not self.full:
            return super()._take()
        for trail in self._trails:
            block = trail.take()
            if block is not None:
                trail.failed(block, OSError("no space left on device"))
        return None


async def test_a_trail_that_cannot_be_written_denies(tmp_path: Path) -> None:
    work, store = Counted(effects={"write"}), Full(tmp_path)
    async with ToolHost([work.tool], store=store) as host:
        assert (await host.call("work")).success
        work.runs, store.full = 0, True
        denied = [await host.call("work") for _ in range(3)]
        store.full = False
        for result in denied:
            await assert_refused(host, result, "audit_unavailable", work)
            assert result.error.retryable is True


async def test_a_broken_trail_also_refuses_calls_that_only_read(tmp_path: Path) -> None:
    write, read, store = Counted("write", effects={"write"}), Counted("read"), Full(tmp_path)
    async with ToolHost([write.tool, read.tool], store=store) as host:
        store.full = True
        assert (await host.call("write")).reason == "audit_unavailable"
        assert (await host.call("read")).reason == "audit_unavailable"
        assert (write.runs, read.runs) == (0, 0)
        store.full = False
        await host.trail()
        assert (await host.call("write")).success
        assert (await host.call("read")).success


async def test_a_trail_that_breaks_while_a_tool_runs_does_not_hide_that_it_ran(
    tmp_path: Path,
) -> None:
    store = Full(tmp_path)

    @tool(effects={"write"}, name="spend")
    async def spend() -> str:
        store.full = True
        return "spent"

    async with ToolHost([spend], store=store) as host:
        result = await host.call("spend")
        assert (result.status, result.output) == ("ok", "spent")
        assert result.metadata["trail"] == "unwritten"
        store.full = False
        ending = await assert_one_ending(host, result.call_id)
        assert ending.data["status"] == "ok"


async def test_the_decision_is_on_disk_before_the_tool_runs(tmp_path: Path) -> None:
    store, on_disk = Full(tmp_path), list[int]()

    @tool(effects={"write"}, name="spend")
    async def spend() -> int:
        on_disk.append(store._records)
        return 1

    async with ToolHost([spend], store=store) as host:
        result = await host.call("spend")
        events = await story(host, result.call_id)
        assert [e.type for e in events][:2] == ["call.received", "call.decided"]
    assert on_disk[0] >= 2  # host.started, and this call's decision


UNWRITABLE = {"half a pair": "\udc80", "not a number": float("nan"), "large": 2**70}


@pytest.mark.parametrize("odd", UNWRITABLE.values(), ids=UNWRITABLE.keys())
async def test_what_a_tool_puts_on_the_trail_cannot_break_it(odd: Any) -> None:
    from toolcrib import ToolContext, ToolFailure

    @tool(effects={"read"}, name="odd")
    async def emit(ctx: ToolContext) -> int:
        ctx.emit("odd", value=odd, inside=[odd])
        raise ToolFailure(f"no such file: {odd}", details={"value": odd})

    work = Counted()
    async with ToolHost([emit, work.tool]) as host:
        first = await host.call("odd")
        assert first.reason == "tool_error"
        after = await host.call("work")
        await assert_one_ending(host, first.call_id)
        await assert_one_ending(host, after.call_id)


@pytest.mark.parametrize(("name", "who"), [("\udc80", "ann"), ("work", "\udc80")])
async def test_odd_names_cannot_break_the_trail(name: str, who: str) -> None:
    work = Counted()
    async with ToolHost([work.tool]) as host:
        first = await host.call(name, principal=who)
        after = await host.call("work")
        await assert_one_ending(host, first.call_id)
        await assert_one_ending(host, after.call_id)
