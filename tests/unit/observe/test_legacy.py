"""Hooks and log readers of earlier frameworks get the names they know."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from toolcrib.core.events import Event
from toolcrib.observe.legacy import AmplifierEvents, HookLog

Make = Callable[..., list[Event]]
Halves = Callable[[list[Event]], tuple[list[Event], list[Event], list[Event]]]


def hook_lines(events: list[Event], **options: Any) -> list[str]:
    said: list[str] = []
    asyncio.run(HookLog(said.append, **options).export(events))
    return said


def test_a_good_call(make_call: Make) -> None:
    before, policy, after = hook_lines(make_call())
    assert before == (
        "hook.tool.before tool=add call_id=c1 principal=ci session=s1 profile=reviewer "
        'arguments="{\\"a\\": 1}"'
    )
    assert policy == (
        "hook.policy.before tool=add call_id=c1 verdict=allow gate=profile "
        'rule="allow: add" source=toolcrib.yaml:7'
    )
    assert after == (
        "hook.tool.after status=ok tool=add call_id=c1 duration_ms=250.0 output_size=1"
    )


def test_a_refusal_is_a_deny_and_then_an_error(make_denied: Make, make_halves: Halves) -> None:
    opened, began, closed = make_halves(make_denied())
    for events in (make_denied(), [*opened, *began, *closed]):
        said = hook_lines(events)
        assert [line.split()[0] for line in said] == [
            "hook.tool.before",
            "hook.policy.before",
            "hook.policy.deny",
            "hook.tool.after",
        ]
        assert "reason=path_outside_root" in said[2]
        assert said[3].startswith("hook.tool.after status=error tool=add call_id=c1")
        assert "duration_ms=250.0" in said[3]


def test_a_failure_is_an_error_without_deny(make_call: Make) -> None:
    said = hook_lines(make_call(status="error", reason="tool_error", message="no such row"))
    assert len(said) == 3
    assert 'status=error tool=add call_id=c1 reason=tool_error error="no such row"' in said[2]


def test_refusals_are_written_whatever_is_switched_off(make_call: Make, make_denied: Make) -> None:
    said = hook_lines([*make_call("c1"), *make_denied("c2")], calls=False)
    assert [line.split()[0] for line in said] == ["hook.policy.deny", "hook.tool.after"]
    assert all("call_id=c2" in line for line in said)


def test_values_cannot_forge_fields_or_lines(make_denied: Make) -> None:
    said = hook_lines(
        make_denied(message='x" status=ok\nhook.tool.after status=ok \u202e', tool="t")
    )
    assert len(said) == 4
    assert all(line.isprintable() for line in said)
    assert '\\" status=ok\\nhook.tool.after' in said[2]
    long = hook_lines(make_denied(message="x" * 5000))
    assert "(5000 characters)" in long[2]
    assert len(long[2]) < 1000


def amplifier(events: list[Event]) -> list[tuple[str, dict[str, Any]]]:
    said: list[tuple[str, dict[str, Any]]] = []
    asyncio.run(AmplifierEvents(lambda name, data: said.append((name, data))).export(events))
    return said


def test_pre_and_post(make_call: Make, make_halves: Halves) -> None:
    opened, began, closed = make_halves(make_call())
    for events in (make_call(), [*opened, *began, *closed]):
        (pre, asked), (post, answered) = amplifier(events)
        assert (pre, post) == ("tool:pre", "tool:post")
        assert asked == {
            "tool_name": "add",
            "tool_call_id": "c1",
            "session_id": "s1",
            "tool_input": {"a": 1},
            "parent_id": None,
        }
        assert answered["result"] == {"success": True, "output": 3}
        assert answered["tool_input"] == {"a": 1}
        assert answered["duration_ms"] == 250.0


@pytest.mark.parametrize("status", ["error", "denied"])
def test_what_failed_is_never_a_post(status: str, make_call: Make) -> None:
    events = make_call(status=status, reason="some_reason", message="words")
    (pre, _), (name, data) = amplifier(events)
    assert (pre, name) == ("tool:pre", "tool:error")
    assert data["status"] == status
    assert data["error"] == {"type": "some_reason", "message": "words"}


def test_a_coroutine_may_be_the_hook(make_call: Make) -> None:
    said: list[str] = []

    async def emit(name: str, data: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        said.append(name)

    asyncio.run(AmplifierEvents(emit).export(make_call()))
    assert said == ["tool:pre", "tool:post"]
