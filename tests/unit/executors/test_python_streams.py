"""Functions that yield: progress on the way, one output at the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest

from executing import context, heard, until
from toolcrib import RetryPolicy, ToolContext, ToolHost, ToolSpec
from toolcrib.catalog.signature import describe
from toolcrib.core.entry import Execute
from toolcrib.executors.python import PythonExecutor
from toolcrib.testing import EventRecorder

Bind = Callable[[Callable[..., Any]], Execute]


@pytest.fixture(params=["thread", "inline"])
def bind(request: pytest.FixtureRequest) -> Iterator[Bind]:
    executor = PythonExecutor(threads=2)
    inline = request.param == "inline"
    yield lambda function: executor.bind(function, describe(function), inline=inline)
    executor.close()


def count(to: int) -> Generator[Any, None, int]:
    for n in range(to):
        yield n / to
    yield (1.0, "done")
    yield "tidying up"
    yield None
    return to


async def test_a_generator_reports_what_it_yields_and_gives_what_it_returns(bind: Bind) -> None:
    ctx = context(to=2)
    said = heard(ctx)
    assert await bind(count)(ctx) == 2
    assert [(data["fraction"], data["message"]) for _, data in said] == [
        (0.0, None),
        (0.5, None),
        (1.0, "done"),
        (None, "tidying up"),
    ]
    assert {kind for kind, _ in said} == {"call.progress"}


async def test_an_asynchronous_one_gives_what_it_yields_last(bind: Bind) -> None:
    async def search(word: str) -> AsyncIterator[Any]:
        yield 0.1
        await asyncio.sleep(0)
        yield "half way"
        yield {"found": [word]}

    ctx = context(word="x")
    said = heard(ctx)
    assert await bind(search)(ctx) == {"found": ["x"]}
    assert [(data["fraction"], data["message"]) for _, data in said] == [
        (0.1, None),
        (None, "half way"),
    ]


async def test_one_that_yields_nothing_gives_nothing(bind: Bind) -> None:
    async def silent() -> AsyncIterator[int]:
        for n in ():
            yield n

    def quiet() -> Iterator[int]:
        yield from ()

    assert await bind(silent)(context()) is None
    assert await bind(quiet)(context()) is None


@pytest.mark.parametrize("value", [True, 2, -0.1, float("nan"), {"a": 1}, (2, "x"), (0.5, 3), [1]])
async def test_what_is_no_progress_is_not_reported(bind: Bind, value: Any) -> None:
    def odd() -> Generator[Any, None, str]:
        yield value
        return "end"

    ctx = context()
    said = heard(ctx)
    assert await bind(odd)(ctx) == "end"
    assert said == []


async def test_long_messages_are_cut(bind: Bind) -> None:
    def chatty() -> Iterator[str]:
        yield "x" * 10_000

    ctx = context()
    said = heard(ctx)
    await bind(chatty)(ctx)
    message = said[0][1]["message"]
    assert len(message) == 500
    assert message.endswith("…")


async def test_the_context_and_errors_work_as_elsewhere(bind: Bind) -> None:
    def wants(ctx: ToolContext, word: str) -> Iterator[str]:
        yield f"{ctx.call_id} {word}"
        raise LookupError("no such word")

    ctx = context(word="x")
    said = heard(ctx)
    with pytest.raises(LookupError):
        await bind(wants)(ctx)
    assert said[0][1]["message"] == "c1 x"


async def test_a_cancelled_asynchronous_one_is_closed() -> None:
    closed: list[str] = []

    async def forever() -> AsyncIterator[float]:
        try:
            while True:
                yield 0.5
                await asyncio.sleep(0.001)
        finally:
            closed.append("closed")

    executor = PythonExecutor()
    call = asyncio.ensure_future(executor.bind(forever, describe(forever), inline=False)(context()))
    await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert closed == ["closed"]


async def test_one_is_closed_when_its_progress_cannot_be_told(bind: Bind) -> None:
    closed: list[str] = []

    async def later() -> AsyncIterator[float]:
        try:
            yield 0.5
        finally:
            closed.append("later")

    def now() -> Iterator[float]:
        try:
            yield 0.5
        finally:
            closed.append("now")

    class Broken:
        def announce(self, *_: Any) -> None:
            raise LookupError("nobody listens")

    for function in (later, now):
        ctx = context()
        ctx.runtime = Broken()  # pyright: ignore[reportAttributeAccessIssue]
        with pytest.raises(LookupError):
            await bind(function)(ctx)
    assert closed == ["later", "now"]


async def test_one_in_a_thread_ends_at_its_next_yield_once_the_call_has_ended() -> None:
    closed, began = threading.Event(), threading.Event()

    def forever() -> Iterator[float]:
        try:
            while True:
                began.set()
                yield 0.5
        finally:
            closed.set()

    spec = ToolSpec(name="forever", config={"function": forever}, effects={"read"}, timeout=0.05)
    async with ToolHost([spec]) as host:
        result = await host.call("forever")
        assert result.reason == "timeout"  # it may have ended before anybody could say it goes on
        await until(closed.is_set)
        await until(lambda: host.entries.python.abandoned == 0)


async def test_a_thread_that_goes_on_is_counted_while_it_does_and_never_tried_again() -> None:
    leave, begun = threading.Event(), []

    def stuck() -> int:
        begun.append(1)
        leave.wait(5)
        return 1

    spec = ToolSpec(
        name="stuck",
        config={"function": stuck},
        effects={"read"},
        timeout=0.05,
        retry=RetryPolicy(attempts=3, backoff=0),
    )
    async with ToolHost([spec]) as host:
        result = await host.call("stuck")
        assert (result.reason, result.error.still_running) == ("timeout", True)
        assert host.entries.python.abandoned == 1
        leave.set()
        await until(lambda: host.entries.python.abandoned == 0)
    assert len(begun) == 1


async def test_progress_reaches_whoever_follows_the_call() -> None:
    spec = ToolSpec(
        name="count",
        input_schema={"type": "object", "properties": {"to": {"type": "integer"}}},
        config={"function": count},
        effects={"read"},
    )
    async with ToolHost([spec]) as host:
        recorder = EventRecorder(host)
        assert (await host.call("count", {"to": 2})).output == 2
        told = [e.data["fraction"] for e in recorder.events if e.type == "call.progress"]
    assert told == [0.0, 0.5, 1.0, None]
