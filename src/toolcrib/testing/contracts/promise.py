"""Saying which promise is broken, and running a suite without a test runner."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any, NoReturn

import msgspec

from toolcrib.core.context import ToolContext
from toolcrib.core.result import ToolResult
from toolcrib.errors import Denial, ToolFailure


def promise(kept: object, words: str, found: object = None) -> None:
    """Raise AssertionError that names the promise, unless it is kept."""
    if not kept:
        seen = "" if found is None else f"; found: {found!r}"
        raise AssertionError(f"broken promise: {words}{seen}")


def undefined(suite: object, method: str) -> NoReturn:
    """The author of a suite has not said something that only they can say.

    Raised and not declared abstract: pytest passes over abstract classes without a word, and a
    suite that does not run looks like one that passes.
    """
    raise TypeError(
        f"{type(suite).__name__} does not define `{method}`; its contract's docstring says what for"
    )


def is_text(value: object) -> bool:
    """Whether `value` is text, and not empty."""
    return isinstance(value, str) and value != ""


async def broken_promises(suite: Callable[[], Any]) -> dict[str, str]:
    """Run the tests of a contract, each on a suite of its own; which of them failed, and why."""
    broken: dict[str, str] = {}
    names = [name for name in dir(suite()) if name.startswith("test_")]
    if not names:
        raise TypeError(f"{suite!r} has no tests; give a class that inherits a contract")
    for name in names:
        try:
            outcome = getattr(suite(), name)()
            if inspect.isawaitable(outcome):
                await outcome
        except AssertionError as error:
            broken[name] = str(error)
        except Exception as error:
            broken[name] = f"{type(error).__name__}: {error}"
    return broken


def check_value(value: Any, who: str) -> None:
    """What came out of an `execute` is a whole `ToolResult`, or JSON values."""
    if isinstance(value, ToolResult):
        promise(value.status in ("ok", "error", "denied"), f"{who} gives a status", value.status)
        whole = (value.status == "ok") == (value.error is None)
        promise(whole, f"{who} gives a failure with every result that is not ok, and only then")
        value = value.output
    promise(_is_json(value), f"{who} returns JSON values or a ToolResult", value)


def _is_json(value: Any) -> bool:
    try:
        return msgspec.json.decode(msgspec.json.encode(value)) == value
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        return False


async def ends_badly(execute: Callable[[ToolContext], Any], ctx: ToolContext, who: str) -> None:
    """A failure is reported as a failure: in the tool's own words, or as a result."""
    try:
        value = await execute(ctx)
    except (Denial, ToolFailure):
        return
    except Exception as error:
        raise AssertionError(
            f"broken promise: {who} reports a failure as ToolFailure, Denial or a result; "
            f"any other exception hides its words from the caller; found: {error!r}"
        ) from error
    check_value(value, who)
    failed = isinstance(value, ToolResult) and value.status != "ok"
    promise(failed, f"{who} does not let a failure look like a success", value)


def snapshot(ctx: ToolContext) -> tuple[Any, ...]:
    """What a plug-in must leave as it is."""
    return copy.deepcopy(ctx.arguments), ctx.tool, ctx.principal, ctx.spec, ctx.call_id
