"""Assertions about endings say what was found instead."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib import Failure, ToolResult
from toolcrib.testing import MockTool, assert_denied, assert_ok, make_host


def denied(reason: str = "denied_by_rule", **details: Any) -> ToolResult:
    failure = Failure(reason=reason, message="not today", details=details)
    return ToolResult(status="denied", error=failure)


FAILED = ToolResult(status="error", error=Failure(reason="timeout", message="too slow"))


def test_a_good_ending() -> None:
    assert assert_ok(ToolResult(output=3)) == 3
    assert_ok(ToolResult(output=None), None)
    with pytest.raises(AssertionError, match="expected the output 4, but it is 3"):
        assert_ok(ToolResult(output=3), 4)
    with pytest.raises(AssertionError, match="expected the output None, but it is 3"):
        assert_ok(ToolResult(output=3), output=None)
    with pytest.raises(AssertionError, match="ended with error timeout: too slow"):
        assert_ok(FAILED)
    with pytest.raises(AssertionError, match="denied denied_by_rule: not today"):
        assert_ok(denied())


def test_a_refusal() -> None:
    assert_denied(denied(), "denied_by_rule")
    assert_denied(denied(rule="deny: x", source="/a/b.yaml:3"), "denied_by_rule", "deny: x")
    assert_denied(denied(source="/a/b.yaml:3"), "denied_by_rule", source="b.yaml:3")
    assert_denied(denied(source="/a/b.yaml:3"), "denied_by_rule", source="/a/b.yaml:3")


@pytest.mark.parametrize(
    ("result", "expected", "words"),
    [
        (ToolResult(output=3), {}, "expected a refusal .* ok with the output 3"),
        (FAILED, {}, "expected a refusal .* error timeout"),
        (denied("role_required"), {}, "expected the reason denied_by_rule, .* role_required"),
        (denied(rule="deny: x"), {"rule": "deny: y"}, "expected the rule 'deny: y', .* 'deny: x'"),
        (denied(), {"rule": "deny: y"}, "but it is None"),
        (denied(source="b.yaml:31"), {"source": "b.yaml:3"}, "'b.yaml:3', but it is 'b.yaml:31'"),
        (denied(source="ab.yaml:3"), {"source": "b.yaml:3"}, "'b.yaml:3', but it is 'ab.yaml:3'"),
    ],
)
def test_what_is_not_that_refusal(result: ToolResult, expected: Any, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        assert_denied(result, "denied_by_rule", **expected)


async def test_results_and_explanations_agree() -> None:
    rule: dict[str, Any] = {"deny": "rm", "reason": "never_here"}
    async with make_host([MockTool("rm"), MockTool("ls")], profile={"rules": [rule]}) as host:
        why = host.explain("rm")
        step = next(step for step in why.steps if step.verdict == "deny")
        for outcome in (why, await host.call("rm")):
            assert_denied(outcome, "never_here", rule=step.rule, source=step.source)
        with pytest.raises(AssertionError, match=r"expected the reason never_here.*profile says"):
            assert_denied(host.explain("ls"), "never_here")
    allowed = make_host([MockTool("ls")]).explain("ls")
    with pytest.raises(AssertionError, match=r"expected a refusal .* but it is allow"):
        assert_denied(allowed, "never_here")


def test_only_endings_are_looked_at() -> None:
    wrong: Any = {"status": "denied"}
    with pytest.raises(TypeError, match="not at a dict"):
        assert_denied(wrong, "denied_by_rule")
    with pytest.raises(TypeError, match="not at a dict"):
        assert_ok(wrong)
