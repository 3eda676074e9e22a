"""Code in Monty: an interpreter of a Python subset, in a process of its own for each run.

A fresh process costs a few milliseconds, and nothing of one caller's run is left for the next.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pydantic_monty as monty

from toolcrib.core.context import ToolContext
from toolcrib.errors import ToolFailure
from toolcrib.tools.python_code.calls import Calls
from toolcrib.tools.python_code.policy import PythonCodePolicy
from toolcrib.tools.python_code.values import (
    broken,
    finished,
    out_of_memory,
    out_of_time,
    too_large,
)
from toolcrib.tools.python_code.worker import Worker


class _Printed:
    """What the code prints. The interpreter calls it from a thread of its own."""

    def __init__(self, most: int) -> None:
        self.full = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._parts: list[str] = []
        self._left = most

    def __call__(self, stream: str, text: str) -> None:
        if self._left < 0:
            return
        self._left -= len(text)
        self._parts.append(text)
        if self._left < 0:
            self._loop.call_soon_threadsafe(self.full.set)

    @property
    def text(self) -> str:
        return "".join(self._parts)


async def run_monty(
    ctx: ToolContext, policy: PythonCodePolicy, code: str, inputs: dict[str, Any]
) -> dict[str, Any]:
    """Run the code; cancelling ends the interpreter and the tools it waits for."""
    printed = _Printed(policy.max_output_chars)
    calls = Calls(ctx, policy)
    run = asyncio.ensure_future(_interpret(policy, calls, code, inputs, printed))
    full = asyncio.ensure_future(printed.full.wait())
    try:
        await asyncio.wait({run, full}, return_when=asyncio.FIRST_COMPLETED)
        if full.done():
            raise too_large(printed.text, policy.max_output_chars)
        value = run.result()
    except monty.MontyError as error:
        raise _failure(error, printed.text) from None
    finally:
        run.cancel()
        full.cancel()
        await asyncio.gather(run, full, return_exceptions=True)
        await calls.cancel()
    return finished(value, printed.text, policy.max_output_chars)


async def _interpret(
    policy: PythonCodePolicy, calls: Calls, code: str, inputs: dict[str, Any], printed: _Printed
) -> Any:
    async with Worker(policy) as session:
        step = await session.feed_start(code, inputs=inputs, print_callback=printed)
        while not isinstance(step, monty.MontyComplete):
            step = await _next(step, calls)
    forgotten = calls.unawaited()
    if forgotten is not None:
        text = f"{forgotten} was called and not awaited: write await {forgotten}(…)"
        raise ToolFailure(text, details={"stdout": printed.text[:2_000]})
    return step.output


async def _next(step: monty.AsyncSnapshot, calls: Calls) -> monty.AsyncSnapshot:
    """Answer what the code asked its host for."""
    if isinstance(step, monty.AsyncFunctionSnapshot):
        if step.is_os_function:
            return await step.resume_not_handled()
        answer: Any = calls.want(step.call_id, str(step.function_name), step.args, step.kwargs)
        return await step.resume(answer)
    if isinstance(step, monty.AsyncFutureSnapshot):
        answers: Any = await calls.settle(step.pending_call_ids)
        return await step.resume(answers)
    if isinstance(step, monty.AsyncNameLookupSnapshot):
        if step.variable_name in calls.functions:
            return await step.resume(value=_named(step.variable_name))
        return await step.resume()
    raise ToolFailure("the interpreter answered with nothing that is known")


def _named(name: str) -> Any:
    """A function that stands for a tool: only its name crosses over."""

    async def stand_in() -> None: ...

    stand_in.__name__ = name
    return stand_in


def _failure(error: monty.MontyError, printed: str) -> ToolFailure:
    if isinstance(error, monty.MontyCrashedError):
        if error.timed_out:
            return out_of_time(printed)
        return broken("the interpreter ended unexpectedly", printed)
    if isinstance(error, monty.MontyRuntimeError):
        inner = error.exception()
        if isinstance(inner, TimeoutError) and "time limit exceeded" in str(inner):
            return out_of_time(printed)
        if isinstance(inner, MemoryError) and "limit exceeded" in str(inner):
            return out_of_memory(printed)
        return broken(error.display(), printed)
    if isinstance(error, monty.MontySyntaxError):
        return broken(error.display(), printed)
    return broken(str(error), printed)
