"""Calls of tools that code makes, each through the whole pipeline."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple

from toolcrib.core.context import ToolContext
from toolcrib.core.result import ToolResult
from toolcrib.tools.python_code.policy import PythonCodePolicy
from toolcrib.tools.python_code.values import as_json

Answer = dict[str, Any]
"""`{"return_value": …}`, or `{"exc_type": …, "message": …}`, as the interpreter takes it."""


class _Wanted(NamedTuple):
    function: str
    tool: str
    arguments: dict[str, Any]


class Calls:
    """The calls of one run. A call begins when it is awaited, not before."""

    def __init__(self, ctx: ToolContext, policy: PythonCodePolicy) -> None:
        self.functions = policy.functions()
        self._ctx = ctx
        self._left = policy.max_calls
        self._wanted: dict[int, _Wanted] = {}
        self._running: dict[int, asyncio.Task[ToolResult]] = {}

    def want(
        self, number: int, function: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Answer:
        """Note a call down: a promise, or the exception that the code gets."""
        tool = self.functions.get(function)
        if tool is None:
            return _raises("NameError", f"name {function!r} is not defined")
        if args:
            return _raises("TypeError", f"{function}() takes keyword arguments only")
        try:
            arguments = as_json(kwargs)
        except TypeError as error:
            return _raises("TypeError", f"{function}(): {error}")
        if self._left <= 0:
            return _raises("RuntimeError", "too many calls of tools")
        self._left -= 1
        self._wanted[number] = _Wanted(function, tool, arguments)
        return {"future": ...}

    async def settle(self, numbers: Iterable[int]) -> dict[int, Answer]:
        """Begin these calls, and give the answers of those that end first."""
        for number in numbers:
            wanted = self._wanted.pop(number, None)
            if wanted is not None:
                self._running[number] = asyncio.ensure_future(
                    self._ctx.call(wanted.tool, wanted.arguments)
                )
        await asyncio.wait(self._running.values(), return_when=asyncio.FIRST_COMPLETED)
        ended = [number for number, task in self._running.items() if task.done()]
        return {number: _answer(self._running.pop(number).result()) for number in ended}

    def unawaited(self) -> str | None:
        """A function that was called and not awaited."""
        return next((wanted.function for wanted in self._wanted.values()), None)

    async def cancel(self) -> None:
        """End what still runs, and wait for its end."""
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)


def _answer(result: ToolResult) -> Answer:
    if result.error is None:
        return {"return_value": result.output}
    kind = "PermissionError" if result.status == "denied" else "RuntimeError"
    return _raises(kind, f"{result.error.reason}: {result.error.message}")


def _raises(kind: str, message: str) -> Answer:
    return {"exc_type": kind, "message": message}
