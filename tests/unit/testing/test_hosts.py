"""Hosts for tests, their profiles and their clock."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from toolcrib import ConfigError, Decision, Extension, ToolSpec, tool
from toolcrib.testing import (
    ApprovalSimulator,
    EventRecorder,
    FakeClock,
    MockExecutor,
    MockTool,
    assert_denied,
    assert_ok,
    make_host,
)


@tool(effects={"read"})
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effects={"write"})
def save(text: str) -> str:
    """Save a text."""
    return text


CONFIG = {
    "version": 1,
    "profiles": {
        "reader": {"rules": [{"allow": {"effects": ["read"]}}]},
        "writer": {"rules": [{"allow": "*"}]},
    },
}


async def test_a_host_in_one_line() -> None:
    async with make_host([add]) as host:
        assert_ok(await host.call("add", {"a": 1, "b": 2}), 3)


async def test_a_profile_by_name() -> None:
    async with make_host([add, save], profile="reader", config=CONFIG) as host:
        assert_ok(await host.call("add", {"a": 1, "b": 2}), 3)
        assert_denied(await host.call("save", {"text": "x"}), "not_in_profile")
        assert_ok(await host.call("save", {"text": "x"}, profile="writer"), "x")


async def test_a_profile_by_its_settings() -> None:
    async with make_host([add, save], profile={"rules": [{"allow": "add"}]}) as host:
        assert_ok(await host.call("add", {"a": 1, "b": 2}), 3)
        assert_denied(await host.call("save", {"text": "x"}), "not_in_profile")


def test_a_profile_may_extend_one_of_the_configuration() -> None:
    profile = {"extends": "reader", "rules": [{"ask": "save"}]}
    host = make_host([add, save], profile=profile, config=CONFIG)
    assert host.explain("add", {"a": 1, "b": 2}).verdict == "allow"
    assert host.explain("save", {"text": "x"}).verdict == "ask"
    assert host.explain("save", {"text": "x"}, profile="writer").verdict == "allow"


def test_a_configuration_file_with_either_profile(tmp_path: Path) -> None:
    path = tmp_path / "toolcrib.yaml"
    path.write_text("version: 1\nprofiles:\n  closed: {}\n  open: {default: allow}\n")
    assert make_host([add], config=path, profile="open").explain(
        "add", {"a": 1, "b": 1}
    ).verdict == ("allow")
    host = make_host([add], config=str(path), profile={"rules": [{"ask": "add"}]})
    assert host.explain("add", {"a": 1, "b": 1}).verdict == "ask"
    assert_denied(
        host.explain("add", {"a": 1, "b": 1}, profile="closed"),
        "not_in_profile",
        rule="default: deny",
        source="toolcrib.yaml:3",
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"profile": "reeder", "config": CONFIG}, "there is no profile 'reeder'. Did you mean rea"),
        ({"profile": "reader"}, "Give config="),
        ({"profile": {"rule": []}}, "did you mean rules"),
        ({"profile": {}, "config": {"profiles": {"test": {}}}}, "a profile 'test' already"),
        ({"config": {"profiles": {"p": {"rules": [{"allow": "ad"}]}}}}, "Did you mean add"),
        ({"config": "no-such-file.yaml"}, "no-such-file.yaml"),
    ],
)
def test_what_is_wrong_shows_at_once(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_host([add], **options)
    assert words.lower() in str(caught.value).lower()


async def test_everything_a_host_takes() -> None:
    class Noon:
        name = "noon"

        def visible(self, spec: object, principal: object, profile: object) -> bool:
            return True

        def check(self, ctx: Any) -> Decision:
            return Decision.deny("too_late") if ctx.tool == "late" else Decision.abstain()

    class Counting(Extension):
        count = 0

        async def before_execute(self, ctx: Any) -> None:
            self.count += 1

    shell, counting, recorder = MockExecutor("shell", "ran"), Counting(), EventRecorder()
    async with make_host(
        [ToolSpec(name="run", kind="shell"), MockTool("late")],
        gates=[Noon()],
        extensions=[counting],
        exporters=[recorder],
        executors=[shell],
        approver=ApprovalSimulator(default="allow"),
    ) as host:
        assert_ok(await host.call("run"), "ran")
        assert_denied(await host.call("late"), "too_late")
    assert (shell.call_count, counting.count) == (1, 1)
    assert len(recorder.only("call.denied")) == 1


async def test_a_durable_host(tmp_path: Path) -> None:
    async with make_host([save], store=f"sqlite:{tmp_path / 'store.db'}") as host:
        result = await host.call("save", {"text": "x"})
        trail = await host.trail(call_id=result.call_id)
    assert trail[-1].type == "call.finished"
    assert (tmp_path / "store.db").exists()


async def test_without_an_approver_nobody_is_waited_for() -> None:
    mock = MockTool("deploy")
    profile = {"default": "ask", "approval": {"remember": ["once", "1h"]}}
    async with make_host([mock], profile=profile) as host:
        result = await asyncio.wait_for(host.call("deploy"), 10)
        assert_denied(result, "no_approver")
        assert "approver=ApprovalSimulator" in str(result.error and result.error.message)
        assert await host.approvals.list() == []
        await host.reload()
        assert_denied(await asyncio.wait_for(host.call("deploy"), 10), "no_approver")
    assert mock.call_count == 0


async def test_without_profile_and_approver_nobody_is_waited_for_either() -> None:
    @tool(requires_approval=True)
    def wipe() -> None:
        """Wipe."""

    async with make_host([wipe]) as host:
        assert_denied(await asyncio.wait_for(host.call("wipe"), 10), "no_approver")


async def test_a_simulator_that_passes_on_leaves_it_to_the_test() -> None:
    mock = MockTool("deploy", return_value="done")
    approver = ApprovalSimulator(default="escalate")
    async with make_host([mock], profile={"default": "ask"}, approver=approver) as host:
        recorder = EventRecorder(host)
        calling = asyncio.create_task(host.call("deploy"))
        await recorder.wait_for("approval.requested")
        (request,) = await host.approvals.list()
        await host.approvals.decide(request.id)
        assert_ok(await calling, "done")


# What they look like


async def test_a_host_and_its_tools_say_what_they_are() -> None:
    @tool(effects={"read"})
    def long(a: int, b: int, c: int, d: int, e: int, f: int, g: int = 1) -> None:
        """Take much."""

    @tool(effects={"read"})
    def greet(name: str, mark: str = "!") -> str:
        """Greet."""
        return name + mark

    host = make_host([greet, long], config=CONFIG)
    assert repr(host) == "<ToolHost 2 tools, 2 profiles, not started>"
    assert [repr(each) for each in host.tools(profile="reader", principal="ann")] == [
        "<Tool greet(name, mark=…) for ann under reader>",
        "<Tool long(a, b, c, d, e, f, …) for ann under reader>",
    ]
    async with host:
        assert repr(host) == "<ToolHost 2 tools, 2 profiles, started>"
    assert repr(host) == "<ToolHost 2 tools, 2 profiles, stopped>"


# The clock


def test_a_clock_stands_still_until_it_is_moved() -> None:
    clock = FakeClock(1000.0)
    assert (clock.time(), clock.monotonic(), clock()) == (1000.0, 1000.0, 1000.0)
    assert clock.advance(2.5) == 1002.5
    assert (clock.time(), clock.monotonic(), clock()) == (1002.5, 1002.5, 1002.5)
    for wrong in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="does not go back"):
            clock.advance(wrong)


async def test_a_rate_limit_goes_by_the_clock() -> None:
    clock = FakeClock()
    profile = {"default": "allow", "limits": {"calls": "2/min"}}
    async with make_host([add], profile=profile, clock=clock) as host:
        for _ in range(2):
            assert_ok(await host.call("add", {"a": 1, "b": 2}))
        result = await host.call("add", {"a": 1, "b": 2})
        assert_denied(result, "rate_limited")
        assert result.error is not None
        assert result.error.retry_after == 30.0
        clock.advance(29)
        assert_denied(await host.call("add", {"a": 1, "b": 2}), "rate_limited")
        clock.advance(1)
        assert_ok(await host.call("add", {"a": 1, "b": 2}))


async def test_an_approval_expires_by_the_clock() -> None:
    clock, approver = FakeClock(), ApprovalSimulator(default="expire")
    profile = {"default": "ask", "approval": {"timeout": "5m"}}
    mock = MockTool("deploy")
    async with make_host([mock], profile=profile, approver=approver, clock=clock) as host:
        recorder = EventRecorder(host)
        calling = asyncio.create_task(host.call("deploy"))
        await recorder.wait_for("approval.requested")
        clock.advance(299)
        assert len(await host.approvals.list()) == 1
        clock.advance(2)
        assert await host.approvals.list() == []
        assert_denied(await calling, "approval_expired")
    assert mock.call_count == 0
