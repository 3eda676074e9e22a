"""Functions in worker processes: the same functions, the same results."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest

from executing import context, heard
from toolcrib.core.entry import Execute
from toolcrib.errors import Denial, ToolFailure
from toolcrib.executors.process import ProcessExecutor

PLACE = {"city": "Delft", "since": "2024-05-01"}
NESTED = {"a": [None, True, 1.5, "é\u2028"]}


@pytest.mark.parametrize(
    ("function", "arguments", "output"),
    [
        ("add", {"a": 1}, 11),
        ("add_later", {"a": 1, "b": 2}, 3),
        ("calls_asyncio_run", {"a": 1}, 2),
        (
            "typed",
            {"place": {"city": "Delft", "since": "2024-05-01"}},
            {"year": 2024, "city": "Delft"},
        ),
        ("gives_place", {}, PLACE),
        ("handler", {"x": 1}, {"got": {"x": 1}, "tool": "t"}),
        ("echo", {"value": 2**80}, 2**80),
        (
            "echo",
            {"value": {"a": [None, True, 1.5, "é\u2028"]}},
            {"a": [None, True, 1.5, "é\u2028"]},
        ),
        ("forks", {}, 1),
        ("leftover", {}, 1),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_it_gives_what_the_function_gives(
    bind: Callable[..., Execute], function: str, arguments: dict[str, Any], output: Any
) -> None:
    run = bind(function)
    assert await run(context(**arguments)) == output
    assert await run(context(**arguments)) == output


async def test_a_worker_is_used_again(bind: Callable[..., Execute]) -> None:
    first = await bind("pid")(context())
    assert first != os.getpid()
    assert await bind("pid")(context()) == first


async def test_calls_at_the_same_time_have_a_worker_each_and_then_wait(
    bind: Callable[..., Execute], executor: ProcessExecutor
) -> None:
    run, seen = bind("pid"), set()
    await asyncio.gather(*(bind("wait")(context()) for _ in range(3)))
    assert len(executor.processes) == 2
    for _ in range(4):
        seen.add(await run(context()))
    assert seen <= set(executor.processes)


async def test_warm_starts_all_of_them_before_the_first_call(
    bind: Callable[..., Execute], executor: ProcessExecutor
) -> None:
    run = bind("pid")
    await executor.warm()
    assert len(executor.processes) == 2
    assert await run(context()) in executor.processes


async def test_a_tool_may_have_its_own_number_of_workers(
    bind: Callable[..., Execute], executor: ProcessExecutor
) -> None:
    run = bind("wait", workers=1)
    await asyncio.gather(run(context()), run(context()))
    assert len(executor.processes) == 1


async def test_the_tools_own_words_come_through(bind: Callable[..., Execute]) -> None:
    with pytest.raises(ToolFailure) as failure:
        await bind("fails")(context())
    error = failure.value
    assert (error.message, error.reason, error.retryable) == ("no such row", "tool_error", True)
    assert error.details == {"row": 3}
    with pytest.raises(Denial) as denial:
        await bind("refuses")(context())
    assert (denial.value.reason, denial.value.message) == ("too_many_files", "seven is enough")
    assert denial.value.details == {"limit": 7}


@pytest.mark.parametrize(("function", "words"), [("breaks", "inner workings"), ("leaves", "bye")])
async def test_other_exceptions_are_for_the_log(
    bind: Callable[..., Execute], function: str, words: str
) -> None:
    with pytest.raises(RuntimeError, match=words):  # what the pipeline logs and never shows
        await bind(function)(context())


async def test_arguments_that_do_not_become_the_annotated_type(
    bind: Callable[..., Execute],
) -> None:
    with pytest.raises(ToolFailure) as caught:
        await bind("typed")(context(place={"city": "Delft", "since": "yesterday"}))
    assert caught.value.reason == "invalid_arguments"
    assert caught.value.details["problems"][0]["path"] == "place.since"


async def test_output_without_a_json_form(bind: Callable[..., Execute]) -> None:
    with pytest.raises(ToolFailure) as caught:
        await bind("bad_output")(context())
    assert caught.value.reason == "invalid_output"


async def test_a_result_of_its_own(bind: Callable[..., Execute]) -> None:
    result = await bind("own_result")(context())
    assert (result.output, result.metadata, result.call_id) == ([1, 2], {"pages": 3}, "c1")


async def test_it_says_things_on_the_way(bind: Callable[..., Execute]) -> None:
    ctx = context()
    said = heard(ctx)
    assert await bind("says")(ctx) == "c1 s1 ann"
    assert said == [
        ("call.progress", {"fraction": 0.5, "message": "half way"}),
        ("tool.log", {"message": "note", "row": 1}),
        ("tool.emitted", {"name": "counted", "data": {"n": 2}}),
    ]


async def test_generators_stream(bind: Callable[..., Execute]) -> None:
    ctx = context()
    said = heard(ctx)
    assert await bind("numbers")(ctx) == 42
    assert [(d["fraction"], d["message"]) for _, d in said] == [
        (0.25, None),
        (0.5, "half"),
        (None, "nearly"),
    ]
    assert await bind("numbers_later")(context()) == {"rows": 2}


async def test_what_is_printed_is_logged_and_never_taken_for_an_answer(
    bind: Callable[..., Execute],
) -> None:
    ctx = context()
    said = heard(ctx)
    assert await bind("prints")(ctx) == "done"
    lines = [data["message"] for kind, data in said if kind == "tool.log"]
    assert lines[0] == "hello from the function"
    assert lines[2] == "to stderr"
    assert len(lines) == 3


async def test_what_an_earlier_call_left_behind_is_not_heard_as_the_next_ones(
    bind: Callable[..., Execute],
) -> None:
    await bind("background", workers=1)(context())
    ctx = context()
    said = heard(ctx)
    assert await bind("wait", workers=1)(ctx) == 2
    assert said == []


async def test_output_within_the_limit(bind: Callable[..., Execute]) -> None:
    assert len(await bind("large")(context(n=3_000_000))) == 3_000_000


async def test_large_arguments(bind: Callable[..., Execute]) -> None:
    text = "é" * 1_000_000
    assert await bind("echo")(context(value=text)) == text
