"""Running the tool: one attempt, or several where repeating is safe."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable
from time import monotonic
from typing import Any

from toolcrib.core.result import Failure, ToolResult
from toolcrib.core.spec import RetryPolicy
from toolcrib.errors import Denial, ToolFailure
from toolcrib.pipeline.endings import failed, overdue
from toolcrib.pipeline.flight import Flight
from toolcrib.pipeline.parts import Hider
from toolcrib.pipeline.plan import Plan
from toolcrib.pipeline.wheel import Wheel
from toolcrib.reasons import is_reason
from toolcrib.reasons import reason as reason_row

_log = logging.getLogger("toolcrib")


def raised(flight: Flight, error: Exception, hider: Hider) -> ToolResult:
    """The ending of an attempt that raised. Only a tool's own words reach the caller."""
    if isinstance(error, Denial):
        reason = error.reason if is_reason(error.reason) else "action_not_allowed"
        if reason_row(reason).status != "denied":
            reason = "action_not_allowed"
        return failed(flight, reason, error.message, error.details)
    if isinstance(error, ToolFailure):
        flight.still_running = flight.still_running or error.still_running
        return ToolResult(
            call_id=flight.call_id,
            status="error",
            error=Failure(
                reason=error.reason if is_reason(error.reason) else "tool_error",
                message=error.message,
                details=dict(error.details),
                retryable=error.retryable and not flight.still_running,
                retry_after=error.retry_after,
                still_running=flight.still_running,
            ),
        )
    # The traceback as text, because it may quote what must be hidden.
    trace = hider.text("".join(traceback.format_exception(error)))
    _log.error("%s failed (call %s)\n%s", flight.tool, flight.call_id, trace.rstrip())
    text = f"{flight.tool} failed unexpectedly; the log has the details under call {flight.call_id}"
    return failed(flight, "unexpected_failure", text)


async def attempt(plan: Plan, flight: Flight, hider: Hider) -> Any:
    """Run the tool once. What it raises becomes a result; only cancellation passes through."""
    try:
        return await plan.execute(flight)
    except Exception as error:
        return raised(flight, error, hider)


async def attempts(
    plan: Plan,
    flight: Flight,
    wheel: Wheel,
    limit: float | None,
    note: Callable[[Flight, str, dict[str, Any]], None],
    hider: Hider,
) -> Any:
    """Run the tool until it ends well, the policy is used up, or repeating is not safe. All
    attempts and the pauses between them share the `limit`."""
    policy = plan.spec.retry or RetryPolicy(attempts=1)
    end = None if limit is None else monotonic() + limit
    while True:
        flight.attempt += 1
        left = None if end is None else end - monotonic()
        span = least(plan.timeout, left)
        # The time that is told is the one somebody chose, not what other attempts left of it.
        flight.allowed = limit if span == left else span
        wheel.watch(flight, span)
        try:
            value = await attempt(plan, flight, hider)
        except asyncio.CancelledError:
            if not _may_repeat_timeout(plan, flight, policy):
                raise
            value = overdue(flight, flight.allowed)
        if not _again(plan, value, policy, flight):
            return value
        pause = _pause(policy, flight.attempt, value)
        if end is not None and monotonic() + pause >= end:
            return value
        data = {"attempt": flight.attempt, "reason": value.reason, "pause_s": pause}
        note(flight, "call.attempt", data)
        wheel.watch(flight, None)
        await asyncio.sleep(pause)


def least(one: float | None, other: float | None) -> float | None:
    """The shorter of two times; None is no limit."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _safe(plan: Plan, flight: Flight, policy: RetryPolicy) -> bool:
    """Whether one more attempt can do no harm: nothing goes on, and repeating changes nothing."""
    return plan.spec.repeatable and flight.attempt < policy.attempts and not flight.still_running


def _may_repeat_timeout(plan: Plan, flight: Flight, policy: RetryPolicy) -> bool:
    """Whether a stopped attempt may be followed by another; if so, the cancellation is spent."""
    task = flight.task
    if flight.stop != "timeout" or task is None:
        return False
    if not _safe(plan, flight, policy) or "timeout" not in policy.retry_on:
        return False
    if task.uncancel() > 0:
        return False
    flight.stop = None
    flight.cancelled = False
    return True


def _again(plan: Plan, value: Any, policy: RetryPolicy, flight: Flight) -> bool:
    if not isinstance(value, ToolResult) or value.error is None or value.status != "error":
        return False
    wanted = value.error.retryable or value.reason in policy.retry_on
    return wanted and _safe(plan, flight, policy)


def _pause(policy: RetryPolicy, attempt: int, value: ToolResult) -> float:
    import random

    told = value.error.retry_after if value.error is not None else None
    pause = min(policy.backoff * 2.0 ** (attempt - 1), policy.max_backoff)
    pause *= 1.0 + policy.jitter * (random.random() * 2.0 - 1.0)  # noqa: S311 - spreads load only
    return max(pause, told or 0.0)
