"""The path of one call, in one place.

    find → pin → validate → decide → reserve → ask → recheck → queue → run → shape

The order is written here and nowhere else; no configuration changes it. Everything that can be
known before a call is in its `Plan`, so the code below only walks.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from asyncio import CancelledError, current_task, get_running_loop
from collections.abc import Callable, Mapping
from time import monotonic, time_ns
from typing import Any

import msgspec
from msgspec import Raw

from toolcrib.core.context import ToolContext
from toolcrib.core.decision import ABSTAIN, RANK, Decision
from toolcrib.core.events import OkRecord, OpenRecord, StartRecord
from toolcrib.core.principal import Principal
from toolcrib.core.result import ToolResult
from toolcrib.core.settings import HostSettings
from toolcrib.errors import StoreError
from toolcrib.pipeline.asking import Asking
from toolcrib.pipeline.attempts import attempts, raised
from toolcrib.pipeline.endings import denied, failed
from toolcrib.pipeline.flight import Flight
from toolcrib.pipeline.gates import ask_check
from toolcrib.pipeline.limits import Meter
from toolcrib.pipeline.parts import Asker, Hider, TrailWriter
from toolcrib.pipeline.plan import Plan
from toolcrib.pipeline.shaping import cut, encode, hide, plain
from toolcrib.pipeline.validate import Invalid, prepare
from toolcrib.pipeline.wheel import Wheel

_new = ToolContext.__new__


class Pipeline:
    """Runs calls. Belongs to one host; safe to use from several loops and threads."""

    def __init__(
        self,
        *,
        settings: HostSettings,
        trail: TrailWriter,
        hider: Hider,
        asker: Asker,
        replan: Callable[[ToolContext], Plan | None],
        runtime: Any,
    ) -> None:
        self.settings = settings
        self.trail = trail
        self.hider = hider
        self.asking = Asking(asker, hider)
        self.wheels: dict[asyncio.AbstractEventLoop, Wheel] = {}
        self.stopping = False
        self._wheel: Wheel | None = None
        self._replan = replan
        self._runtime = runtime
        self._prefix = f"c{int(time.time()):x}{secrets.token_hex(4)}"
        self._count = itertools.count(1).__next__

    def new_id(self) -> str:
        """A call id: this host's run, and a count."""
        return f"{self._prefix}{self._count():x}"

    async def run(
        self,
        plan: Plan,
        who: Principal,
        session: Any,
        arguments: Mapping[str, Any] | None,
        timeout: float | None,
        call_id: str | None,
        door: str = "python",
        parent: ToolContext | None = None,
    ) -> ToolResult:
        """One call, from arrival to result. Never raises for something that is about the call."""
        began = monotonic()
        ctx = _new(ToolContext)
        ctx.call_id = call_id or f"{self._prefix}{self._count():x}"
        ctx.tool = plan.name
        ctx.spec = plan.spec
        ctx.principal = who
        ctx.session = session
        ctx.profile = plan.profile
        ctx.policy = plan.policy
        ctx.door = door
        ctx.runtime = self._runtime
        flight = Flight(ctx, plan, began)
        trail = self.trail

        # find, pin
        refusal = plan.refusal
        if refusal is None and plan.visibility is not None:
            refusal = plan.visibility(who)
        if refusal is None and (parent is not None or self.stopping or trail.broken is not None):
            refusal = self._out_of_order(flight, parent)
        if refusal is not None:
            return await self._refuse(flight, refusal, "find", arguments)

        # validate
        try:
            prepare(plan, ctx, arguments, flight, self.settings.max_arguments)
        except Invalid as invalid:
            return await self._end(flight, invalid.result(ctx))

        # decide
        decision, gate = plan.base, plan.base_gate
        for check in plan.dynamic:
            said = ask_check(check, ctx)
            if said is not ABSTAIN and RANK[said.verdict] > RANK[decision.verdict]:
                decision, gate = said, check.name
                if said.verdict == "deny":
                    break
        flight.decision, flight.gate = decision, gate
        flight.started = started = monotonic()
        flight.decide_s = started - began
        if decision.verdict == "deny":
            return await self._refuse(flight, decision, gate)

        # reserve: with a place to run in the same step, where nobody has to be asked
        meters = plan.meters(who, None if session is None else session.id)
        held = 0
        if meters:
            at_once = decision.verdict == "allow"
            for index, meter in enumerate(meters):
                if at_once and held == index and meter.begin():
                    held = index + 1
                    continue
                over = meter.take(flight.fingerprint() if plan.repeats else None)
                if over is not None:
                    _give_back(meters[:index], held)
                    return await self._refuse(flight, over.decision, "limit", wait=over.retry_after)

        loop = get_running_loop()
        wheel = self._wheel
        if wheel is None or wheel.loop is not loop:
            wheel = self._wheel_of(loop)
        flight.task = current_task(loop)
        try:
            # ask, recheck
            if decision.verdict == "ask":
                wheel.watch(flight, None)
                self._open(flight, "ask")
                ending = await self.asking.settle(flight, decision, gate, self._recheck)
                if ending is not None:
                    _refund(meters)
                    return await self._end(flight, ending)
                plan = flight.plan

            # queue
            while held < len(meters):
                refused = await self._enter(flight, meters[held], wheel)
                if refused is not None:
                    _refund(meters)
                    return refused
                held += 1

            # on record before it runs
            if plan.sync or flight.opened or trail.live:
                try:
                    written = self._start(flight)
                    if written is not None:
                        await written
                except StoreError as error:
                    _refund(meters)
                    broken = Decision.deny("audit_unavailable", str(error))
                    return await self._refuse(flight, broken, "trail")
                flight.started = started = monotonic()

            # run
            limit = plan.timeout
            if timeout is not None and (limit is None or timeout < limit):
                limit = timeout
            if plan.spec.retry is not None:
                value = await attempts(plan, flight, wheel, limit, trail)
            else:
                wheel.watch(flight, limit)
                ctx.attempt = 1
                try:
                    value = await plan.execute(ctx)
                except Exception as error:
                    value = raised(ctx, error)
            flight.finished = finished = monotonic()
        except CancelledError:
            stopped = self._stopped(flight)
            if stopped is None:
                self._end_unheard(flight)
                raise
            return await self._end(flight, stopped)
        except BaseException:
            self._end_unheard(flight, "unexpected_failure")
            raise
        finally:
            wheel.running.pop(ctx.call_id, None)
            if held:
                for meter in meters[:held]:
                    meter.leave()

        # shape
        if flight.stop is not None:
            value = self._stopped(flight) or value
        if type(value) is ToolResult:
            return await self._end(flight, self._shape(plan, ctx, flight, value))
        try:
            output = plain(value)
            encoded = encode(output)
        except (TypeError, ValueError, RecursionError) as error:
            return await self._end(flight, failed(ctx, "invalid_output", str(error)))
        if (
            flight.opened
            or flight.queue_s
            or decision is not plan.base
            or ctx.parent_id is not None
            or ctx.attempt != 1
            or not plan.clean
            or type(output) not in plan.plain_outputs
            or len(flight.encoded) > self.settings.audit_capture
            or self.hider.has_secrets
        ):
            result = ToolResult(call_id=ctx.call_id, output=output)
            return await self._end(flight, self._shape(plan, ctx, flight, result))
        # The common ending: nothing to hide, to cut or to wait for, and one short record.
        total = finished - began
        trail.append(
            OkRecord(
                time_ns(),
                ctx.call_id,
                plan.about(who, None if session is None else session.id, door),
                Raw(flight.encoded),
                output,
                int(flight.decide_s * 1e9),
                int((finished - started) * 1e9),
                int(total * 1e9),
            )
        )
        plan.counter.ended("ok", None, total)
        return ToolResult(call_id=ctx.call_id, output=output)

    def _out_of_order(self, flight: Flight, parent: ToolContext | None) -> Decision | None:
        """What refuses any call at the moment, or this one for where it comes from."""
        ctx = flight.ctx
        if parent is not None:
            ctx.parent_id, ctx.depth, ctx.trace = parent.call_id, parent.depth + 1, parent.trace
            if ctx.depth > flight.plan.max_depth:
                text = f"tools called tools more than {flight.plan.max_depth} deep"
                return Decision.deny("call_depth_exceeded", text)
        if self.stopping:
            return Decision.deny("host_stopping")
        if self.trail.broken is not None:
            self.trail.retry()
            return Decision.deny("audit_unavailable", str(self.trail.broken))
        return None

    async def _enter(self, flight: Flight, meter: Meter, wheel: Wheel) -> ToolResult | None:
        """Take a running place, waiting for one if need be; a result when there is none."""
        if meter.enter():
            return None
        wheel.watch(flight, None)
        began = monotonic()
        over = await meter.wait()
        flight.queue_s += monotonic() - began
        if over is None:
            return None
        return await self._refuse(flight, over.decision, "limit", wait=over.retry_after)

    def _shape(
        self, plan: Plan, ctx: ToolContext, flight: Flight, result: ToolResult
    ) -> ToolResult:
        """A result made fit to leave."""
        result = msgspec.structs.replace(result, call_id=ctx.call_id)
        try:
            output = plain(result.output)
            encoded = encode(output)
            changes: dict[str, Any] = {"output": output}
            if result.metadata:
                changes["metadata"] = plain(result.metadata)
            if result.content is not None:
                changes["content"] = plain(result.content)
        except (TypeError, ValueError, RecursionError) as error:
            return failed(ctx, "invalid_output", str(error))
        if result.status == "ok" and plan.checks_output and not plan.output.is_valid(output):
            problems = plan.output.problems(output, unknown="is not in the output schema")
            details = {"problems": msgspec.to_builtins(problems[:10])}
            text = "the tool's output does not fit its own schema"
            return failed(ctx, "invalid_output", text, details)
        over = cut(output, encoded, self.settings.max_output)
        if over is not None:
            changes["output"], changes["truncated"] = over
        if flight.noted:
            changes["metadata"] = {**changes.get("metadata", {}), **flight.noted}
        result = msgspec.structs.replace(result, **changes)
        return hide(result, self.hider) if self.hider.has_secrets else result

    # Endings other than the common one.

    async def _refuse(
        self,
        flight: Flight,
        decision: Decision,
        gate: str,
        arguments: Any = None,
        *,
        wait: float | None = None,
    ) -> ToolResult:
        if not flight.encoded and arguments is not None:
            flight.take_unchecked(arguments)
        flight.decided(decision, gate)
        return await self._end(flight, denied(flight, decision, gate, wait))

    async def _end(self, flight: Flight, result: ToolResult) -> ToolResult:
        """Write the ending and, where the call's effects ask for it, wait until it is on disk."""
        record = flight.record(result, self.hider, self.settings.audit_capture)
        ctx = flight.ctx
        flight.plan.counter.ended(result.status, result.reason, flight.total_s)
        if flight.plan.sync and ctx.attempt:
            try:
                written = self.trail.append_and_wait(record)
                if written is not None:
                    await written
            except StoreError:
                # The tool ran: the answer must not hide that. New calls are refused meanwhile.
                metadata = {**result.metadata, "trail": "unwritten"}
                return msgspec.structs.replace(result, metadata=metadata)
        else:
            self.trail.append(record)
        return result

    def _end_unheard(self, flight: Flight, reason: str = "cancelled") -> None:
        """The caller went away: nobody hears the result, the trail still gets the ending."""
        flight.ctx.cancelled = True
        result = failed(flight.ctx, reason)
        record = flight.record(result, self.hider, self.settings.audit_capture)
        flight.plan.counter.ended(result.status, result.reason, flight.total_s)
        self.trail.append(record)

    def _stopped(self, flight: Flight) -> ToolResult | None:
        """The result of a call that the clock or a cancel stopped; None when it was the caller."""
        ctx = flight.ctx
        why, task = flight.stop, flight.task
        if why is None or task is None:
            return None
        flight.finished = flight.finished or monotonic()
        if task.uncancel() > 0:
            return None  # the caller's own cancel came at the same time and wins
        if why == "timeout":
            text = f"{ctx.tool} did not finish in time"
            return failed(ctx, "timeout", text, retryable=flight.plan.spec.idempotent)
        return failed(ctx, why)

    # The trail, when a call is written in two halves.

    def _open(self, flight: Flight, verdict: str) -> asyncio.Future[None] | None:
        flight.opened = True
        ctx, plan = flight.ctx, flight.plan
        arguments, arguments_hash = flight.arguments(self.hider, self.settings.audit_capture)
        record = OpenRecord(
            time.time(),
            ctx.call_id,
            plan.name,
            ctx.principal.name,
            None if ctx.session is None else ctx.session.id,
            plan.profile_name,
            ctx.door,
            ctx.parent_id,
            verdict,
            flight.gate,
            flight.decision.rule,
            flight.decision.source,
            arguments,
            len(flight.encoded),
            arguments_hash,
            flight.decide_s,
        )
        if verdict == "allow" and plan.sync:
            return self.trail.append_and_wait(record)
        self.trail.append(record)
        return None

    def _start(self, flight: Flight) -> asyncio.Future[None] | None:
        if not flight.opened:
            return self._open(flight, "allow")
        record = StartRecord(time.time(), flight.ctx.call_id, flight.wait_s, flight.queue_s)
        if flight.plan.sync:
            return self.trail.append_and_wait(record)
        self.trail.append(record)
        return None

    # What happens after a wait.

    def _recheck(self, flight: Flight, arguments: dict[str, Any]) -> Decision | ToolResult:
        """pin → validate → decide again, on today's tools and rules, with the final arguments."""
        ctx = flight.ctx
        plan = self._replan(ctx)
        if plan is None:
            return Decision.deny("definition_changed", "the tool is gone")
        if plan.spec.digest != flight.plan.spec.digest:
            return Decision.deny("definition_changed", "the tool changed while the call waited")
        refusal = plan.refusal or (plan.visibility(ctx.principal) if plan.visibility else None)
        if refusal is not None:
            return refusal
        flight.plan = plan
        ctx.spec, ctx.policy, ctx.profile = plan.spec, plan.policy, plan.profile
        try:
            prepare(plan, ctx, arguments, flight, self.settings.max_arguments)
        except Invalid as invalid:
            return invalid.result(ctx)
        return decide(plan, ctx)[0]

    def _wheel_of(self, loop: asyncio.AbstractEventLoop) -> Wheel:
        wheel = self.wheels.get(loop)
        if wheel is None:
            for old in [known for known in self.wheels if known.is_closed()]:
                del self.wheels[old]
            wheel = self.wheels[loop] = Wheel(loop)
        self._wheel = wheel
        return wheel

    def cancel(self, call_id: str) -> bool:
        """Stop a running or waiting call, from any thread."""
        return any(wheel.cancel(call_id) for wheel in list(self.wheels.values()))

    @property
    def in_flight(self) -> int:
        """How many calls run or wait now."""
        return sum(len(wheel.running) for wheel in list(self.wheels.values()))


def decide(plan: Plan, ctx: ToolContext) -> tuple[Decision, str]:
    """All gates' answers put together: deny beats ask beats allow."""
    decision, gate = plan.base, plan.base_gate
    for check in plan.dynamic:
        said = ask_check(check, ctx)
        if RANK[said.verdict] > RANK[decision.verdict]:
            decision, gate = said, check.name
    return decision, gate


def _give_back(meters: tuple[Meter, ...], held: int) -> None:
    """Undo what the first meters of a call were charged, its running places included."""
    for index, meter in enumerate(meters):
        meter.refund()
        if index < held:
            meter.leave()


def _refund(meters: tuple[Meter, ...]) -> None:
    for meter in meters:
        meter.refund()
