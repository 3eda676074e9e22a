"""Assertions about how a call ended, with the whole story in the message when they fail."""

from __future__ import annotations

from typing import Any

from toolcrib.core.decision import Explanation
from toolcrib.core.result import ToolResult

_ANY: Any = object()


def assert_ok(result: ToolResult, output: Any = _ANY) -> Any:
    """The call ended well, with this output if one is given. Gives the output."""
    if not isinstance(result, ToolResult):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"assert_ok looks at a ToolResult, not at a {type(result).__name__}")
    if result.status != "ok":
        raise AssertionError(f"expected ok, but the call ended with {_told(result)}")
    if output is not _ANY and result.output != output:
        raise AssertionError(f"expected the output {output!r}, but it is {result.output!r}")
    return result.output


def assert_denied(
    outcome: ToolResult | Explanation,
    reason: str,
    rule: str | None = None,
    source: str | None = None,
) -> None:
    """The call was refused, or would be, for this reason, by this rule, which stands at `source`.

    A `source` may leave out the folder: `toolcrib.yaml:12`.
    """
    if isinstance(outcome, ToolResult):
        refused = outcome.status == "denied"
        details = outcome.error.details if outcome.error is not None else {}
        found_rule, found_source = details.get("rule"), details.get("source")
    elif isinstance(outcome, Explanation):  # pyright: ignore[reportUnnecessaryIsInstance]
        refused = outcome.verdict == "deny"
        steps = [s for s in outcome.steps if s.verdict == "deny" and s.reason == outcome.reason]
        found_rule = steps[0].rule if steps else None
        found_source = steps[0].source if steps else None
    else:
        raise TypeError(
            f"assert_denied looks at a ToolResult or an Explanation, not at a "
            f"{type(outcome).__name__}"
        )
    told = _told(outcome)
    if not refused:
        raise AssertionError(f"expected a refusal ({reason}), but it is {told}")
    if outcome.reason != reason:
        raise AssertionError(f"expected the reason {reason}, but it is {told}")
    if rule is not None and found_rule != rule:
        raise AssertionError(f"expected the rule {rule!r}, but it is {found_rule!r}: {told}")
    if source is not None and not _same_place(found_source, source):
        raise AssertionError(f"expected the source {source!r}, but it is {found_source!r}: {told}")


def _same_place(found: Any, wanted: str) -> bool:
    return isinstance(found, str) and (found == wanted or found.endswith(f"/{wanted}"))


def _told(outcome: ToolResult | Explanation) -> str:
    if isinstance(outcome, Explanation):
        steps = "; ".join(
            f"{s.gate} says {s.verdict} {s.reason or ''}".strip() for s in outcome.steps
        )
        return f"{outcome.verdict} {outcome.reason or ''}: {outcome.message} ({steps})"
    if outcome.error is None:
        return f"{outcome.status} with the output {outcome.output!r}"
    error = outcome.error
    return f"{outcome.status} {error.reason}: {error.message} {error.details or ''}".rstrip()
