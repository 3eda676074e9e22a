"""Workers that do not keep to the rules: they are ended, and answer for no other call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from executing import context, exists, heard, until
from toolcrib.core.entry import Execute
from toolcrib.errors import ToolFailure
from toolcrib.executors import frames
from toolcrib.executors.process import ProcessExecutor

GAVE_NONE = "t failed: its worker process gave no answer, and was stopped"


@pytest.mark.parametrize(
    "forged",
    [
        {"kind": 99},
        {"kind": frames.CALL},
        {"kind": frames.READY},
        {"kind": frames.OUTPUT, "number": 1},
        {"kind": frames.RESULT, "number": 0},
        {"kind": frames.FAILED, "number": 2**64 - 1},
        {"kind": frames.SAID, "number": 1, "type": "tool.log"},
        {"kind": frames.SAID, "type": "approval.decided"},
        {"kind": frames.SAID},
    ],
    ids=lambda forged: "-".join(str(value) for value in forged.values()),
)
async def test_a_frame_that_no_worker_sends_ends_it(
    bind: Callable[..., Execute], executor: ProcessExecutor, forged: dict[str, Any]
) -> None:
    ctx = context(**forged)
    said = heard(ctx)
    first = await bind("pid", workers=1)(context())
    with pytest.raises(ToolFailure) as caught:
        await bind("forges", workers=1)(ctx)
    assert (caught.value.message, caught.value.reason) == (GAVE_NONE, "tool_error")
    assert said == []
    assert not exists(first)
    assert await bind("pid", workers=1)(context()) != first


async def test_an_answer_after_the_answer_is_nobodys(
    bind: Callable[..., Execute], executor: ProcessExecutor
) -> None:
    first = await bind("pid", workers=1)(context())
    forged = {"kind": frames.OUTPUT, "after": 0.05}
    assert await bind("forges", workers=1)(context(**forged)) == "true"
    await until(lambda: not exists(first))  # nobody was calling
    assert await bind("add", workers=1)(context(a=1)) == 11


async def test_an_answer_of_the_call_before_ends_the_worker_and_is_given_to_nobody(
    bind: Callable[..., Execute],
) -> None:
    forged = {"kind": frames.OUTPUT, "late": True}
    assert await bind("forges", workers=1)(context(**forged)) == "true"
    with pytest.raises(ToolFailure) as caught:
        await bind("wait", workers=1)(context())
    assert caught.value.message == GAVE_NONE
    assert await bind("wait", workers=1)(context()) == 2


async def test_a_second_answer_is_not_kept_for_the_next_call(bind: Callable[..., Execute]) -> None:
    forged = {"kind": frames.OUTPUT}  # with the right number: its own call is its own to spoil
    assert await bind("forges", workers=1)(context(**forged)) == "forged"
    with contextlib.suppress(ToolFailure):
        assert await bind("wait", workers=1)(context()) == 2
    assert await bind("wait", workers=1)(context()) == 2


@pytest.mark.parametrize("type", ["approval.decided", "call.ended", "tool.logs"])
async def test_a_function_tells_no_events_but_its_own(
    bind: Callable[..., Execute], type: str
) -> None:
    ctx = context(type=type)
    said = heard(ctx)
    with pytest.raises(ToolFailure, match="gave no answer"):
        await bind("announces")(ctx)
    assert said == []


@pytest.mark.parametrize(("times", "size", "kept"), [(1200, 1, 1000), (20, 100_000, 9)])
async def test_facts_of_a_call_are_limited_and_it_says_so(
    bind: Callable[..., Execute], times: int, size: int, kept: int
) -> None:
    ctx = context(times=times, size=size)
    said = heard(ctx)
    assert await bind("emits")(ctx) == "true"
    kinds = [kind for kind, _ in said]
    assert kinds.count("tool.emitted") == kept
    assert [data["message"] for kind, data in said if kind == "tool.log"] == [
        "it says too much: no more tool.emitted of this call is kept"
    ]
    assert kinds.count("call.progress") == times
    again = context(times=1, size=1)
    said = heard(again)
    await bind("emits")(again)
    assert len(said) == 2  # it is counted for each call anew
