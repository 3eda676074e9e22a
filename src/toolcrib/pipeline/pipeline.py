"""The path of one call, in one place.

    find → pin → validate → decide → reserve → ask → recheck → queue → run → shape

The order is written here and nowhere else; no configuration changes it. Everything that can be
known before a call is in its `Plan`, so the code below only walks.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from asyncio import CancelledError, current_task, get_running_loop
from collections.abc import Callable, Mapping
from functools import cached_property
from time import monotonic, monotonic_ns, time_ns
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from toolcrib.core.clock import Clock
from toolcrib.core.context import ToolContext
from toolcrib.core.decision import ABSTAIN, RANK, Decision
from toolcrib.core.events import OkRecord
from toolcrib.core.principal import Principal
from toolcrib.core.result import ToolResult
from toolcrib.core.settings import HostSettings
from toolcrib.errors import StoreError
from toolcrib.pipeline.attempts import attempts, least, raised
from toolcrib.pipeline.endings import concealed, denied, failed, overdue
from toolcrib.pipeline.fit import fit
from toolcrib.pipeline.flight import Flight
from toolcrib.pipeline.gates import decide, fault, proper
from toolcrib.pipeline.ids import count_ids
from toolcrib.pipeline.leases import Leases, Ledger
from toolcrib.pipeline.limits import Meter, Refusal, refund, take
from toolcrib.pipeline.parts import Asker, Hider, TrailWriter
from toolcrib.pipeline.plan import Plan
from toolcrib.pipeline.recorder import Recorder
from toolcrib.pipeline.validate import Invalid, prepare
from toolcrib.pipeline.wheel import Wheel

if TYPE_CHECKING:
    from toolcrib.pipeline.asking import Asking

_task: Callable[[asyncio.AbstractEventLoop], asyncio.Task[Any] | None] = current_task
if sys.version_info < (3, 12):  # there it is a function in Python around this look-up
    _task = asyncio.tasks._current_tasks.get  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType, reportPrivateUsage]
QUICK_NS = 500_000
"""Up to here a call's time falls into the first bucket."""


class Pipeline:
    """Runs calls. Belongs to one host; safe to use from several loops and threads."""

    def __init__(
        self,
        *,
        settings: HostSettings,
        trail: TrailWriter,
        hider: Hider,
        asker: Callable[[], Asker],
        clock: Clock,
        keep: Callable[[str, str, str], bool],
        replan: Callable[[ToolContext], Plan | None],
        runtime: Any,
        ledger: Ledger,
    ) -> None:
        self.take(settings, hider)
        self.trail = trail
        self.leases = Leases(ledger, trail, clock, settings.lease)
        self.record = Recorder(settings, trail, hider, self.leases)
        self._asker = asker
        self._clock = clock
        self.wheels: dict[asyncio.AbstractEventLoop, Wheel] = {}
        self.stopping = False
        self._wheel: Wheel | None = None
        self._replan = replan
        self._keep = keep
        self._runtime = runtime
        self.new_id = count_ids(f"c{int(time.time()):x}{os.urandom(4).hex()}")
        """A call id: this host's run, and a count."""

    def take(self, settings: HostSettings, hider: Hider) -> None:
        """Go by these settings from now on."""
        self.__dict__.pop("asking", None)
        self.settings = settings
        self.hider = hider
        self._guard_ns = int(settings.guard_time * 1e9)
        # Looked at in every call.
        self._max_arguments = settings.max_arguments
        self._capture = settings.audit_capture
        self._deadline = settings.deadline

    @cached_property
    def asking(self) -> Asking:
        """What has people decide; there from the first question on."""
        from toolcrib.pipeline import asking

        return asking.Asking(self._asker(), self.hider, self._clock)

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
        # Here and below, a function that is kept as a value gets a name before it is called:
        # as `a.b()` it would be looked up as a method first, which takes twice as long.
        flight = (plan.flight or self._flight(plan))()
        flight.began = began = monotonic_ns()
        new_id = self.new_id
        flight.call_id = call_id or new_id()
        flight.principal = who
        flight.session = session
        flight.door = door
        flight.odd = False
        trail = self.trail
        if parent is not None:
            flight.parent, flight.parent_id = parent, parent.call_id
            flight.depth = parent.depth + 1
            flight.trace = parent.trace
        seat = plan.seat
        if seat.who is not who or seat.session is not session or seat.door != door:
            try:
                seat = plan.take_seat(who, session, door)
            except Exception as error:
                return await self._refuse(flight, fault("seat", type(error).__name__), "find")

        # find, pin
        if not seat.clear or parent is not None or self.stopping or trail.broken is not None:
            refusal = seat.refusal or plan.hidden(who) or plan.outage
            refusal = refusal or self._out_of_order(flight)
            if refusal is not None:
                return await self._refuse(flight, refusal, "find", arguments)

        # validate
        try:
            prepare(plan, flight, arguments, self._max_arguments)
        except Invalid as invalid:
            flight.decision = ABSTAIN
            return await self.record.end(flight, invalid.result(flight))

        # decide
        decision, gate = seat.base, seat.base_gate
        for test, check in seat.dynamic:
            try:
                said = test(flight)
            except Exception as error:
                said = fault(check.name, type(error).__name__)
            if said is not ABSTAIN:
                said = proper(check, said)
                if RANK[said.verdict] > RANK[decision.verdict]:
                    decision, gate = said, check.name
                    if said.verdict == "deny":
                        break
        flight.decision, flight.gate = decision, gate
        flight.started = started = monotonic_ns()
        flight.decide_ns = took = started - began
        if took > self._guard_ns and seat.dynamic:
            decision, gate = fault("decide", "took too long"), "decide"
        verdict = decision.verdict
        if verdict == "deny":
            return await self._refuse(flight, decision, gate)
        common = (
            plan.common
            and decision is seat.base
            and parent is None
            and timeout is None
            and self._deadline is None
            and not trail.bus.active
        )
        """Whether it goes, so far, as most calls do."""

        # reserve: with a place to run in the same step, where nobody has to be asked
        meters = seat.meters
        held = 0
        if meters:
            try:
                if verdict == "allow":
                    for meter in meters:
                        if not meter.begin():
                            break
                        held += 1
                over = None if held == len(meters) else take(meters[held:], flight)
            except Exception as error:
                over = Refusal(fault("limit", type(error).__name__), None)
            if over is not None:
                for meter in meters[:held]:
                    meter.refund()
                    meter.leave()
                return await self._refuse(flight, over.decision, "limit", wait=over.retry_after)

        loop = get_running_loop()
        wheel = self._wheel
        if wheel is None or wheel.loop is not loop:
            wheel = self._wheel_of(loop)
        flight.task = _task(loop)
        try:
            # ask, recheck
            if verdict == "ask":
                common = False
                wheel.watch(flight, None)
                self.record.open(flight, "ask")
                ending = await self._ask(flight, decision, gate)
                if ending is not None:
                    refund(meters)
                    return await self.record.end(flight, ending)
                plan = flight.plan

            # queue
            while held < len(meters):
                common = False
                refused = await self._enter(flight, meters[held], wheel)
                if refused is not None:
                    refund(meters)
                    return refused
                held += 1

            # on record before it runs
            if not common and (plan.sync or flight.odd or trail.bus.active):
                flight.seat = seat
                leases = self.leases
                try:
                    if plan.sync and leases.doubtful:
                        await leases.renew()
                    written = self.record.start(flight)
                    if written is not None:
                        await written
                        if not leases.sure(flight):
                            await leases.confirm(flight)
                except StoreError as error:
                    refund(meters)
                    broken = Decision.deny("audit_unavailable", str(error))
                    return await self._refuse(flight, broken, "trail")
                flight.odd = verdict == "ask"  # that it is on the trail already is not odd
                flight.started = started = monotonic_ns()

            # run
            if plan.spec.retry is not None:
                value: Any = await attempts(
                    plan, flight, wheel, self._time(timeout), self.record.note, self.hider
                )
            else:
                if common and wheel.ticking:  # as below, without looking at the clock again
                    wheel.running[flight] = None
                    flight.deadline = flight.expires = started * 1e-9 + plan.seconds
                else:
                    wheel.watch(flight, least(plan.timeout, self._time(timeout)))
                flight.attempt = 1
                execute = plan.execute
                try:
                    value = await execute(flight)
                except Exception as error:
                    value = raised(flight, error, self.hider)
            flight.finished = finished = monotonic_ns()
        except CancelledError:
            if not flight.attempt:
                refund(meters)
            stopped = self._stopped(flight, timeout)
            if stopped is None:
                self.record.end_unheard(flight)
                raise
            return await self.record.end(flight, stopped)
        except BaseException:
            self.record.end_unheard(flight, "unexpected_failure")
            raise
        finally:
            wheel.running.pop(flight, None)
            for meter in meters if held == len(meters) else meters[:held]:
                meter.leave()

        # shape
        if flight.odd and flight.stop is not None:
            value = self._stopped(flight, timeout) or value
        if isinstance(value, ToolResult):
            made = fit(plan, flight, value, self.hider, self.settings.max_output, self._keep)
            if common and self.record.end_briefly(flight, seat, made):
                return made
            return await self.record.end(flight, made)
        result = ToolResult(call_id=flight.call_id, output=value)
        if (
            type(value) not in plan.plain_outputs
            or flight.odd
            or (type(value) is float and value - value != 0.0)
            or self.hider.has_numbers
        ):
            made = fit(plan, flight, result, self.hider, self.settings.max_output, self._keep)
            return await self.record.end(flight, made)
        if not common or not plan.clean or len(flight.encoded) > self._capture:
            return await self.record.end(flight, result)
        # The common ending: nothing to hide, to cut or to wait for, and one short record.
        total = finished - began
        trail.append(
            OkRecord(
                time_ns(),
                flight.call_id,
                seat.about,
                Raw(flight.encoded),
                value,  # pyright: ignore[reportArgumentType] - a number may stay one
                took,
                finished - started,
                total,
            )
        )
        counter = plan.counter
        if total > QUICK_NS:
            counter.ended("ok", None, total * 1e-9)
        else:
            counter.ok += 1
            counter.seconds += total * 1e-9
            counter.buckets[0] += 1
        return result

    def _flight(self, plan: Plan) -> type[Flight]:
        """What the contexts of all calls under one plan are made from: what they share stands on
        their class, so that a call sets only what is its own."""
        shared = {
            "plan": plan,
            "tool": plan.name,
            "spec": plan.spec,
            "profile": plan.profile,
            "policy": plan.policy,
            "runtime": self._runtime,
            "__init__": object.__init__,
        }
        plan.flight = made = type("ToolContext", (Flight,), shared)
        return made

    async def _ask(self, flight: Flight, decision: Decision, gate: str) -> ToolResult | None:
        """None when people let the call run; otherwise how it ended."""
        try:
            asking = self.asking
        except Exception as error:  # it is loaded here, and files may be gone by now
            details = {"gate": "approval", "problem": type(error).__name__}
            return failed(flight, "guard_failed", "asking for approval failed", details)
        return await asking.settle(flight, decision, gate, self._recheck)

    def _time(self, timeout: float | None) -> float | None:
        """Seconds for the whole of a call's work: what the caller gives, or the host's deadline."""
        return least(timeout, self._deadline)

    def _out_of_order(self, flight: Flight) -> Decision | None:
        """What refuses any call at the moment, or this one for where it comes from."""
        if flight.depth > flight.plan.max_depth:
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
        result = await self.record.end(flight, denied(flight, decision, gate, wait))
        return concealed(flight, result, gate)

    def _stopped(self, flight: Flight, timeout: float | None) -> ToolResult | None:
        """The result of a call that the clock or a cancel stopped; None when it was the caller."""
        why, task = flight.stop, flight.task
        if task is None:
            return None
        if why is None:
            # Nobody cancelled the caller: the tool itself ended so.
            return None if task.cancelling() else failed(flight, "cancelled")
        flight.finished = flight.finished or monotonic_ns()
        if task.uncancel() > 0:
            return None  # the caller's own cancel came at the same time and wins
        if why == "timeout":
            limit = flight.allowed or least(flight.plan.timeout, self._time(timeout))
            return overdue(flight, limit)
        return failed(flight, why)

    # What happens after a wait.

    def _recheck(self, flight: Flight, arguments: dict[str, Any]) -> Decision | ToolResult:
        """pin → validate → decide again, on today's tools and rules, with the final arguments."""
        plan = self._replan(flight)
        if plan is None:
            return Decision.deny("definition_changed", "the tool is gone")
        if plan.spec.digest != flight.plan.spec.digest:
            return Decision.deny("definition_changed", "the tool changed while the call waited")
        refusal = plan.refused(flight.principal)
        if refusal is not None:
            return refusal
        asked_under = flight.plan.revision
        flight.plan = plan
        flight.spec, flight.policy, flight.profile = plan.spec, plan.policy, plan.profile
        try:
            prepare(plan, flight, arguments, self.settings.max_arguments)
        except Invalid as invalid:
            return invalid.result(flight)
        began = monotonic_ns()
        said = decide(plan, flight)
        if monotonic_ns() - began > self._guard_ns:
            return fault("decide", "took too long")
        if said.verdict == "ask" and plan.revision != asked_under:
            return Decision.deny("approval_expired", "the rules changed while the call waited")
        return said

    def _wheel_of(self, loop: asyncio.AbstractEventLoop) -> Wheel:
        wheel = self.wheels.get(loop)
        if wheel is None:
            for old in [known for known in list(self.wheels) if known.is_closed()]:
                self.wheels.pop(old, None)
            wheel = self.wheels[loop] = Wheel(loop)
        self._wheel = wheel
        return wheel

    def cancel(self, call_id: str, why: str = "cancelled") -> bool:
        """Stop a running or waiting call, from any thread; it ends with the reason `why`."""
        return any(wheel.cancel(call_id, why) for wheel in list(self.wheels.values()))

    def flights(self) -> list[Flight]:
        """The calls that run or wait now."""
        return [flight for wheel in list(self.wheels.values()) for flight in list(wheel.running)]

    def give_up(self) -> None:
        """Write the endings of calls that will not stop; what they still do is not heard of."""
        for wheel in list(self.wheels.values()):
            for flight in list(wheel.running):
                flight.still_running = True
                self.record.end_unheard(flight, "host_stopping")
                flight.ended = True

    @property
    def in_flight(self) -> int:
        """How many calls run or wait now."""
        return sum(len(wheel.running) for wheel in list(self.wheels.values()))
