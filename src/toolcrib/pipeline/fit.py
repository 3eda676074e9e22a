"""The last step of a call: its result is made fit to leave."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from toolcrib.core.result import ReadResult, ToolResult
from toolcrib.pipeline.endings import failed
from toolcrib.pipeline.flight import Flight
from toolcrib.pipeline.parts import Hider
from toolcrib.pipeline.plan import Plan
from toolcrib.pipeline.shaping import (
    MARGIN,
    NotJson,
    comes_later,
    cut,
    cut_blocks,
    encode,
    plain,
    said,
    sound,
    spoken,
)

Keep = Callable[[str, str, str], bool]
"""Keeps the whole of an output that is cut, as an artifact: call, principal, text."""


def fit(
    plan: Plan, flight: Flight, result: ToolResult, hider: Hider, limit: int, keep: Keep
) -> ToolResult:
    """A tool's result as plain JSON values, without secrets, within its schema and the limit."""
    wrong = sound(result)
    if wrong is not None:
        text = f"the tool returned a result that is none: {wrong}"
        return failed(flight, "invalid_output", text)
    status, content, error, truncated = (
        result.status,
        result.content,
        result.error,
        result.truncated,
    )
    hidden = False
    try:
        # Together: most are small, and each by itself would cost as much. Without what is not
        # there, since a null has to be looked into.
        parts = [part for part in (result.output, content) if part is not None]
        read = type(result) is ReadResult
        (metadata, *parts), whole = plain([result.metadata, *parts], read=read)
        content = None if content is None else parts.pop()
        output = parts.pop() if parts else None
        if error is not None:
            error = spoken(error, status)
        if hider.has_secrets:
            # Behind `plain`: only JSON values can be looked through.
            hidden = not hider.clear(whole)
            if hidden:
                output = hider.secrets_in(output)
                metadata, content = hider.secrets_in(metadata), hider.secrets_in(content)
            if error is not None:
                error = said(error, hider)
        # What the trail keeps is the text of what leaves; of a model or a date it may be another.
        encoded = encode(output)
    except NotJson as problem:
        return failed(flight, "invalid_output", str(problem))
    fits = plan.fits
    if status == "ok" and plan.checks_output and not fits(output) and not comes_later(metadata):
        problems = plan.output.problems(output, unknown="is not in the output schema")
        details = {"problems": msgspec.to_builtins(problems[:10])}
        text = "the tool's output does not fit its own schema"
        return failed(flight, "invalid_output", text, details)
    flight.shaped = (output, encoded, not hidden)
    if truncated is not None:
        limit += MARGIN  # a call that it made was cut already: there is a mark at its end
    over = cut(output, encoded, limit)
    if over is not None:
        text = output if isinstance(output, str) else encoded.decode()
        output, truncated = over
        if keep(flight.call_id, flight.principal.name, text):
            metadata = {**metadata, "artifact": flight.call_id}
    # No number is written eight times as long as it came, and nothing else longer at all.
    if content and (hidden or len(whole) << 3 > limit):
        cut_content = cut_blocks(content, limit)
        if cut_content is not None:
            content, truncated = cut_content
    if flight.noted:
        metadata = {**metadata, **flight.noted}
    return ToolResult(
        call_id=flight.call_id,
        status=status,
        output=output,
        content=content,
        error=error,
        truncated=truncated,
        metadata=metadata,
    )
