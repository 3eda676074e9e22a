"""Extensions wrapped around an executor, once, when the plan is compiled."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from toolcrib.core.context import ToolContext
from toolcrib.core.entry import Execute
from toolcrib.core.result import ReadResult, ToolResult
from toolcrib.errors import Denial

if TYPE_CHECKING:
    from toolcrib.core.protocols import Extension


_log = logging.getLogger("toolcrib")


def wrap(execute: Execute, extensions: Sequence[Extension]) -> Execute:
    """`execute` inside `extensions`; the smallest priority is outermost."""
    for extension in sorted(extensions, key=lambda e: e.priority, reverse=True):
        if callable(extension):
            execute = _around(extension, execute)
        else:
            execute = _before_and_after(extension, execute)
    return execute


def as_result(ctx: ToolContext, value: Any) -> ToolResult:
    """What an executor returned, as a result that may be changed."""
    if type(value) is ReadResult:
        return ToolResult(**{name: getattr(value, name) for name in value.__struct_fields__})
    return value if isinstance(value, ToolResult) else ToolResult(call_id=ctx.call_id, output=value)


def _before_and_after(extension: Extension, inner: Execute) -> Execute:
    async def execute(ctx: ToolContext) -> ToolResult:
        await _before(extension, ctx)
        result = as_result(ctx, await inner(ctx))
        try:
            after: Any = await extension.after_execute(ctx, result)
        except Exception:
            _log.exception("extension %s failed after %s ran", _name(extension), ctx.tool)
            return result
        return after if isinstance(after, ToolResult) else result

    return execute


def _around(extension: Any, inner: Execute) -> Execute:
    async def execute(ctx: ToolContext) -> ToolResult:
        ran: list[ToolResult] = []

        async def call_next(ctx: ToolContext) -> ToolResult:
            result = as_result(ctx, await inner(ctx))
            ran.append(result)
            return result

        try:
            after = await extension(ctx, call_next)
        except Exception as error:
            if ran:
                _log.exception("extension %s failed after %s ran", _name(extension), ctx.tool)
                return ran[-1]
            raise _refused(extension, error) from error
        if isinstance(after, ToolResult):
            return after
        if ran:
            return ran[-1]
        raise _refused(extension, TypeError("it returned no ToolResult and called nothing"))

    return execute


async def _before(extension: Extension, ctx: ToolContext) -> None:
    """Let the extension look. It refuses by raising; an answer of any kind is not understood, and
    what is not understood refuses too."""
    try:
        said: Any = await extension.before_execute(ctx)
    except Exception as error:
        raise _refused(extension, error) from error
    if said is not None:
        if inspect.iscoroutine(said):
            said.close()
        raise _refused(extension, TypeError(f"before_execute returned {type(said).__name__}"))


def _refused(extension: object, error: Exception) -> Denial:
    if isinstance(error, Denial):
        return error
    _log.error("extension %s failed before the tool ran", _name(extension), exc_info=error)
    message = f"the extension {_name(extension)} failed, so the call was refused"
    return Denial("guard_failed", message, problem=type(error).__name__)


def _name(extension: object) -> str:
    return type(extension).__name__
