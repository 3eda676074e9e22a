"""The results of calls that did not end well."""

from __future__ import annotations

from typing import Any

from toolcrib.core.context import ToolContext
from toolcrib.core.decision import Decision
from toolcrib.core.result import Failure, ToolResult
from toolcrib.core.units import format_duration
from toolcrib.pipeline.flight import Flight
from toolcrib.reasons import reason as reason_row


def failed(
    ctx: ToolContext,
    reason: str,
    message: str | None = None,
    details: dict[str, Any] | None = None,
) -> ToolResult:
    """A result that is not ok, with what the table of reasons says about it."""
    row = reason_row(reason)
    running, spec = ctx.still_running, ctx.spec
    return ToolResult(
        call_id=ctx.call_id,
        status=row.status,
        error=Failure(
            reason=reason,
            message=message or row.meaning,
            details=details or {},
            retryable=row.may_retry(spec is not None and spec.repeatable) and not running,
            still_running=running,
        ),
    )


def overdue(flight: Flight, seconds: float | None) -> ToolResult:
    """The ending of a call that took longer than it may, with how long that is."""
    within = "time" if seconds is None else _span(seconds)
    return failed(flight, "timeout", f"{flight.tool} did not finish in {within}")


def _span(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.3g}ms"
    return f"{seconds:.3g}s" if seconds < 60 else format_duration(round(seconds))


def denied(flight: Flight, decision: Decision, gate: str, wait: float | None = None) -> ToolResult:
    """A refusal that says which gate, which rule, and where it stands."""
    reason = decision.reason or "denied_by_rule"
    row = reason_row(reason)
    details: dict[str, Any] = {"gate": gate}
    if decision.rule:
        details["rule"] = decision.rule
    if decision.source:
        details["source"] = decision.source
    if decision.details:
        details |= decision.details
    message = decision.message or row.meaning
    status = "denied" if row.status == "ok" else row.status
    return ToolResult(
        call_id=flight.call_id,
        status=status,
        error=Failure(
            reason=reason,
            message=message,
            details=details,
            retryable=row.retry == "yes",
            retry_after=wait,
        ),
    )


def concealed(flight: Flight, result: ToolResult, gate: str) -> ToolResult:
    """What the caller is told: under a concealing profile, that there is no such tool, in the
    words used for one that does not exist. The trail keeps the truth."""
    profile = flight.plan.profile
    found_out = gate == "find" and result.status == "denied"
    if profile is None or not profile.conceal or not found_out:
        return result
    return failed(flight, "unknown_tool", f"{flight.tool}: no such tool", {"gate": "find"})
