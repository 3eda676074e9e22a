"""Running the tool: one attempt, or several where repeating is safe."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any

from toolcrib.core.context import ToolContext
from toolcrib.core.result import ToolResult
from toolcrib.core.spec import RetryPolicy
from toolcrib.errors import Denial, ToolFailure
from toolcrib.pipeline.endings import failed
from toolcrib.pipeline.flight import Flight
from toolcrib.pipeline.parts import TrailWriter
from toolcrib.pipeline.plan import Plan
from toolcrib.pipeline.wheel import Wheel
from toolcrib.reasons import is_reason
from toolcrib.reasons import reason as reason_row

_log = logging.getLogger("toolcrib")


def raised(ctx: ToolContext, error: Exception) -> ToolResult:
    """The ending of an attempt that raised. Only a tool's own words reach the caller."""
    if isinstance(error, Denial):
        reason = error.reason if is_reason(error.reason) else "action_not_allowed"
        if reason_row(reason).status != "denied":
            reason = "action_not_allowed"
        return failed(ctx, reason, error.message, error.details)
    if isinstance(error, ToolFailure):
        return ctx.error(
            error.message,
            error.reason if is_reason(error.reason) else "tool_error",
            retryable=error.retryable,
            retry_after=error.retry_after,
            **error.details,
        )
    _log.error("%s failed (call %s)", ctx.tool, ctx.call_id, exc_info=error)
    text = f"{ctx.tool} failed unexpectedly; the log has the details under call {ctx.call_id}"
    return failed(ctx, "unexpected_failure", text)


async def attempt(plan: Plan, ctx: ToolContext) -> Any:
    """Run the tool once. What it raises becomes a result; only cancellation passes through."""
    try:
        return await plan.execute(ctx)
    except Exception as error:
        return raised(ctx, error)


async def attempts(
    plan: Plan, flight: Flight, wheel: Wheel, limit: float | None, trail: TrailWriter
) -> Any:
    """Run the tool until it ends well, the policy is used up, or repeating is not safe."""
    policy = plan.spec.retry or RetryPolicy(attempts=1)
    ctx = flight.ctx
    while True:
        ctx.attempt += 1
        wheel.watch(flight, limit)
        try:
            value = await attempt(plan, ctx)
        except asyncio.CancelledError:
            if not _may_repeat_timeout(plan, flight, policy):
                raise
            value = failed(ctx, "timeout", f"{ctx.tool} did not finish in time")
        if not _again(plan, value, policy, ctx):
            return value
        pause = _pause(policy, ctx.attempt, value)
        data = {"attempt": ctx.attempt, "reason": value.reason, "pause_s": pause}
        trail.fact("call.attempt", ctx.call_id, data)
        wheel.watch(flight, None)
        await asyncio.sleep(pause)


def _safe(plan: Plan, ctx: ToolContext, policy: RetryPolicy) -> bool:
    """Whether one more attempt can do no harm: nothing goes on, and repeating changes nothing."""
    repeatable = plan.spec.idempotent or plan.spec.read_only
    return repeatable and ctx.attempt < policy.attempts and not ctx.still_running


def _may_repeat_timeout(plan: Plan, flight: Flight, policy: RetryPolicy) -> bool:
    """Whether a stopped attempt may be followed by another; if so, the cancellation is spent."""
    task = flight.task
    if flight.stop != "timeout" or task is None:
        return False
    if not _safe(plan, flight.ctx, policy) or "timeout" not in policy.retry_on:
        return False
    if task.uncancel() > 0:
        return False
    flight.stop = None
    flight.ctx.cancelled = False
    return True


def _again(plan: Plan, value: Any, policy: RetryPolicy, ctx: ToolContext) -> bool:
    if not isinstance(value, ToolResult) or value.error is None or value.status != "error":
        return False
    wanted = value.error.retryable or value.reason in policy.retry_on
    return wanted and _safe(plan, ctx, policy)


def _pause(policy: RetryPolicy, attempt: int, value: ToolResult) -> float:
    told = value.error.retry_after if value.error is not None else None
    pause = min(policy.backoff * 2.0 ** (attempt - 1), policy.max_backoff)
    pause *= 1.0 + policy.jitter * (random.random() * 2.0 - 1.0)  # noqa: S311 - spreads load only
    return max(pause, told or 0.0)
