"""What a command gave, as a result: its output read as told, or why there is none."""

from __future__ import annotations

import codecs
import signal
from collections.abc import Callable
from typing import Any, Literal

from toolcrib.core.context import ToolContext
from toolcrib.core.jsontext import parse
from toolcrib.core.sandbox import Completed
from toolcrib.errors import JsonError, ToolFailure
from toolcrib.executors.streams import shortened

Form = Literal["text", "lines", "json"]
"""The text as it is · a list of lines · the value of a JSON text."""

TAIL = 4000
"""Bytes of standard error that a failure shows."""
MOST_LINES = 1000
"""Progress lines of one call; a command that says more is not stopped, only not quoted."""


def check_ended(tool: str, completed: Completed, allowed: frozenset[int]) -> None:
    """Raise `ToolFailure` unless the command ended by itself with an allowed exit code."""
    stopped, code = completed.stopped, completed.exit_code
    if stopped == "output":
        raise ToolFailure(
            f"{tool} wrote more output than it may, and was stopped",
            reason="output_too_large",
            details=dict[str, Any](_told(completed)),
        )
    if stopped == "time":
        raise ToolFailure(
            f"{tool} did not finish in {completed.seconds:.3g} s, and was stopped",
            reason="timeout",
            details=dict[str, Any](_told(completed)),
        )
    if stopped:
        what = {"memory": "memory", "cpu": "processor time"}[stopped]
        raise ToolFailure(
            f"{tool} used more {what} than it may, and was stopped",
            details=dict[str, Any](_told(completed)),
        )
    if code not in allowed:
        told = _told(completed)
        details: dict[str, Any] = {"exit_code": code, **told}
        words = f"{tool} ended with exit code {code}" if code >= 0 else _killed(tool, -code)
        last = told.get("stderr", "").strip().rpartition("\n")[2]
        raise ToolFailure(f"{words}: {shortened(last)}" if last else words, details=details)


def _killed(tool: str, number: int) -> str:
    try:
        return f"{tool} was ended by the signal {signal.Signals(number).name}"
    except ValueError:
        return f"{tool} was ended by the signal {number}"


def _told(completed: Completed) -> dict[str, str]:
    """The ends of what the command said, standard error above all."""
    told = {"stderr": tail(completed.stderr)}
    if not told["stderr"]:
        told = {"stdout": tail(completed.stdout)}
    return {name: text for name, text in told.items() if text}


def tail(data: bytes) -> str:
    """The end of a text, for people: cut visibly, control characters shown instead of obeyed."""
    text = data[-TAIL:].decode("utf-8", "replace")
    text = "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)
    return f"… {text}" if len(data) > TAIL else text


def read_output(tool: str, data: bytes, form: Form) -> Any:
    """Standard output in the form that the tool promises."""
    if form == "json":
        try:
            return parse(data, max_bytes=len(data))
        except JsonError as error:
            raise ToolFailure(
                f"{tool} did not write JSON: {error}", reason="invalid_output"
            ) from None
    text = data.decode("utf-8", "replace")
    if form == "text":
        return text
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def line_reporter(ctx: ToolContext) -> Callable[[bytes], None]:
    """Takes standard output as it comes, and reports each line as progress."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    rest, count = "", 0

    def take(data: bytes) -> None:
        nonlocal rest, count
        *lines, rest = (rest + decode(data)).split("\n")
        rest = rest[:100_000]
        for line in lines:
            count += 1
            if count <= MOST_LINES:
                ctx.progress(None, shortened(line.removesuffix("\r")))

    return take
