"""The approval simulator: somebody who answers as told, well or badly."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolcrib import ApprovalDecision, ApprovalRequest, ToolHost
from toolcrib.testing import ApprovalSimulator, EventRecorder, MockTool, assert_denied, assert_ok
from toolcrib.testing import make_host as make


def host(simulator: ApprovalSimulator, *tools: MockTool, **approval: Any) -> ToolHost:
    profile = {"default": "ask", "approval": {"edit": True} | approval}
    return make(tools or [MockTool("deploy")], profile=profile, approver=simulator)


async def test_answers_by_tool() -> None:
    simulator = ApprovalSimulator({"deploy": "allow", "rm": False})
    tools = MockTool("deploy"), MockTool("rm"), MockTool("unheard_of")
    async with host(simulator, *tools) as running:
        assert_ok(await running.call("deploy", {"env": "staging"}))
        assert_denied(await running.call("rm"), "approval_rejected")
        assert_denied(await running.call("unheard_of"), "approval_rejected")
    assert [mock.call_count for mock in tools] == [1, 0, 0]
    assert [request.tool for request in simulator.requests] == ["deploy", "rm", "unheard_of"]
    assert simulator.asked("deploy")[0].arguments == {"env": "staging"}


async def test_answers_in_turn() -> None:
    simulator = ApprovalSimulator({"deploy": ["deny", "allow"]}, default="deny")
    async with host(simulator) as running:
        statuses = [(await running.call("deploy", {"n": n})).status for n in range(3)]
    assert statuses == ["denied", "ok", "denied"]


async def test_answers_are_scripted_on_the_way() -> None:
    simulator = ApprovalSimulator(default="allow")
    async with host(simulator) as running:
        assert_ok(await running.call("deploy", {"n": 1}))
        simulator.script("deploy", "deny", True)
        assert_denied(await running.call("deploy", {"n": 2}), "approval_rejected")
        assert_ok(await running.call("deploy", {"n": 3}))
        simulator.script("deploy", "deny")
        for n in (4, 5):
            assert_denied(await running.call("deploy", {"n": n}), "approval_rejected")


async def test_answers_by_a_function() -> None:
    def check(request: ApprovalRequest) -> bool:
        return request.arguments["env"] == "staging"

    async def edit(request: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision(answer="allow", note="smaller", arguments={"n": 1}, by="ann")

    deploy, scale = MockTool("deploy"), MockTool("scale")
    simulator = ApprovalSimulator({"deploy": check, "scale": edit})
    async with host(simulator, deploy, scale) as running:
        assert_ok(await running.call("deploy", {"env": "staging"}))
        assert_denied(await running.call("deploy", {"env": "live"}), "approval_rejected")
        result = await running.call("scale", {"n": 100})
    assert scale.last_input == {"n": 1}
    assert result.metadata["approval"] == {"by": "ann", "note": "smaller"}


@pytest.mark.parametrize("step", ["crash", "nonsense", RuntimeError("x"), KeyError])
async def test_one_who_fails_lets_nothing_run(step: Any) -> None:
    mock = MockTool("deploy")
    async with host(ApprovalSimulator({"deploy": step}), mock) as running:
        recorder = EventRecorder(running)
        assert_denied(await running.call("deploy"), "approval_rejected")
        assert recorder.only("approval.decided")[0].data["fault"]
    assert mock.call_count == 0


async def test_one_who_never_answers() -> None:
    mock = MockTool("deploy")
    simulator = ApprovalSimulator({"deploy": "expire"})
    async with host(simulator, mock, timeout="50ms") as running:
        assert_denied(await running.call("deploy"), "approval_expired")
    assert mock.call_count == 0


async def test_one_who_passes_the_question_on() -> None:
    async with host(ApprovalSimulator(default="escalate")) as running:
        recorder = EventRecorder(running)
        calling = asyncio.create_task(running.call("deploy"))
        await recorder.wait_for("approval.requested")
        [waiting] = await running.approvals.list()
        await running.approvals.decide(waiting.id, allow=True, by="ann")
        assert_ok(await calling)


async def test_one_who_takes_his_time() -> None:
    simulator = ApprovalSimulator(default="allow", delay=0.05)
    async with host(simulator) as running:
        recorder = EventRecorder(running)
        calling = asyncio.create_task(running.call("deploy"))
        await recorder.wait_for("approval.requested")
        assert not calling.done()
        assert len(await running.approvals.list()) == 1
        assert_ok(await calling)


@pytest.mark.parametrize(
    ("script", "words"),
    [("alow", "'alow' is no behaviour"), (["allow", 7], "with a int"), (None, "with a NoneType")],
)
def test_a_wrong_script_is_refused(script: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ApprovalSimulator({"deploy": script})
    with pytest.raises(ValueError, match="is no behaviour"):
        ApprovalSimulator(default="maybe")
