"""What is remembered of a call while it runs, and the record that is made of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager
from time import monotonic, monotonic_ns
from typing import Any

import msgspec

from toolcrib.core.approval import ApprovalRequest
from toolcrib.core.canonical import canonical, digest_bytes
from toolcrib.core.context import ToolContext
from toolcrib.core.decision import Decision
from toolcrib.core.events import NOTHING, CallRecord, CloseRecord, DoneRecord
from toolcrib.core.result import Failure, ToolResult
from toolcrib.pipeline.parts import Hider
from toolcrib.pipeline.plan import Plan
from toolcrib.pipeline.seat import Seat
from toolcrib.pipeline.shaping import captured, encode

NEVER = float("inf")


class Lease:
    """An entry in the ledger that says: the calls of this run go on."""

    __slots__ = ("id", "running", "sure")

    def __init__(self, id: str, sure: float) -> None:
        self.id = id
        self.running = 0
        """How many calls run under it."""
        self.sure = sure
        """Until when nobody can have taken it for lost, on the `time.monotonic()` clock."""


class Flight(ToolContext):
    """A context as the pipeline keeps it: with the clocks and facts its record is made from."""

    # Most calls change few of these, so the defaults stand on the class.
    plan: Plan
    began = 0
    """Nanoseconds on the `time.monotonic_ns()` clock, as are `started` and `finished`."""
    started = finished = 0
    decide_ns = 0
    wait_s = queue_s = total_s = 0.0
    decision: Decision
    """Set by the pipeline: Python sets what has such a default on the class slowly."""
    gate = ""
    shaped: tuple[Any, bytes, bool] | None = None
    """An output, that as JSON, and whether the JSON was found clear of secret values."""
    unchecked = False
    """Whether the arguments may be anything, since they did not pass the schema."""
    seat: Seat | None = None
    """Where the caller sits, for calls that may be written short."""
    task: asyncio.Task[Any] | None = None
    stop: str | None = None
    """Why the call was stopped: `timeout`, `cancelled`, `host_stopping`."""
    expires = NEVER
    """When the clock stops it, on the `time.monotonic()` clock."""
    paused = 0
    """How many waits for people its clock stands still for."""
    left = NEVER
    """Seconds that it had when its clock was stopped."""
    allowed: float | None = None
    """Seconds that an attempt of several may take; told when it took longer."""
    odd = True
    """Whether something out of the common happened, so that the facts below have to be looked at.
    The pipeline sets it on every call: reading what stands on the class only is slow."""
    opened = False
    """Whether the first half is on the trail already."""
    lease: Lease | None = None
    """The entry in the ledger under which it runs."""
    ended = False
    """Whether the ending is on the trail although the tool still runs."""
    question: str | None = None
    """The approval that it waits, or waited, for."""
    noted: dict[str, Any] | None = None
    """What the caller is told besides: an approver's note, changed arguments."""

    def decided(self, decision: Decision, gate: str) -> None:
        """The gates have answered."""
        self.decision = decision
        self.gate = gate
        self.decide_ns = monotonic_ns() - self.began

    def waits_for(self, request: ApprovalRequest) -> None:
        """This is the question that the call waits for; perhaps an equal call asked it before."""
        self.question = request.id
        if request.call_id != self.call_id and self.runtime is not None:
            self.runtime.announce(self, "approval.joined", {"request": request.id})

    @contextmanager
    def waiting(self) -> Generator[None]:
        """The clocks of the call, and of those that made it, stand still meanwhile."""
        stopped: list[Flight] = []
        one: Any = self
        while isinstance(one, Flight):
            one.paused += 1
            if one.paused == 1:
                one.left = one.expires - monotonic()
                one.expires = NEVER
            stopped.append(one)
            one = one.parent
        try:
            yield
        finally:
            for one in stopped:
                one.paused -= 1
                if not one.paused and one.stop is None:
                    one.expires = monotonic() + one.left
                    one.deadline = None if one.left == NEVER else one.expires

    def fingerprint(self) -> str:
        """Equal for equal calls: tool and arguments."""
        return f"{self.plan.name}:{digest_bytes(canonical(self.arguments))}"

    def take_unchecked(self, arguments: Any) -> None:
        """Keep arguments that were never validated, as far as they can be written down."""
        self.unchecked = True
        try:
            self.encoded = encode(arguments)
        except (TypeError, ValueError, RecursionError):
            self.encoded = encode(f"<{type(arguments).__name__}>")

    def kept_arguments(self, hider: Hider, limit: int) -> tuple[msgspec.Raw, str | None]:
        """What the trail keeps of the arguments, and their hash when that is not all of them."""
        encoded = self.encoded
        if not encoded:
            return NOTHING, None
        if (
            self.plan.clean
            and not self.unchecked
            and len(encoded) <= limit
            and not hider.has_numbers
        ):
            return msgspec.Raw(encoded), None
        value = msgspec.json.decode(encoded)
        shown = hider.value(value, clear=encoded if hider.clear(encoded) else None)
        kept = encoded if shown is value else encode(shown)
        if kept is encoded and len(encoded) <= limit:
            return msgspec.Raw(encoded), None
        return captured(kept, limit), digest_bytes(encoded)

    def _plainly(self, result: ToolResult) -> bool:
        """Whether it ended as most calls do: well, at once, with a number or nothing."""
        return (
            type(result.output) in self.plan.plain_outputs
            and result.status == "ok"
            and self.attempt == 1
            and not self.wait_s
            and not self.queue_s
        )

    def record(
        self, result: ToolResult, hider: Hider, limit: int
    ) -> CallRecord | CloseRecord | DoneRecord:
        """The record of this ending: the whole call, or its second half."""
        plan, now = self.plan, monotonic_ns()
        total = now - self.began
        self.total_s = total / 1e9
        if self.seat is not None and self.opened and self._plainly(result):
            run = self.finished - self.started
            output = result.output
            return DoneRecord(time.time_ns(), self.call_id, self.seat.about, output, run, total)
        failure = result.error
        output, output_hash, size = NOTHING, None, 0
        if result.status != "denied" and result.output is not None:
            made, encoded, clear = self.shaped or (None, b"", False)
            if made is not result.output:
                encoded, clear = encode(result.output), False
            size = len(encoded)
            shown = hider.value(result.output, clear=encoded if clear else None)
            kept = encoded if shown is result.output else encode(shown)
            output = captured(kept, limit)
            if kept is not encoded or size > limit:
                output_hash = digest_bytes(encoded)
        run_s = ((self.finished or now) - self.started) / 1e9 if self.attempt else 0.0
        session = None if self.session is None else self.session.id
        status, reason, message, running = result.status, None, None, False
        if failure is not None:
            reason, running = failure.reason, failure.still_running
            message = hider.text(_kept_words(failure))
        if self.opened:
            return CloseRecord(
                time.time(), self.call_id, plan.name, self.principal.name, session,
                status, reason, message, output, size, output_hash, self.attempt,
                self.wait_s, self.queue_s, run_s, self.total_s, running,
            )  # fmt: skip
        arguments, arguments_hash = self.kept_arguments(hider, limit)
        verdict = "deny" if status == "denied" and not self.attempt else self.decision.verdict
        return CallRecord(
            time.time() - self.total_s, self.call_id, plan.name, self.principal.name, session,
            plan.profile_name, self.door, self.parent_id, verdict, self.gate,
            self.decision.rule, self.decision.source, arguments, len(self.encoded),
            arguments_hash, self.decide_ns / 1e9, status, reason, message, output, size,
            output_hash, self.attempt, self.wait_s, self.queue_s, run_s, self.total_s, running,
        )  # fmt: skip


def _kept_words(failure: Failure) -> str:
    """What the trail keeps of a failure's message. That of wrong arguments quotes them, and a
    password in a sentence is not known by its key any more: where and which rule is enough."""
    problems: Any = failure.details.get("problems")
    if failure.reason != "invalid_arguments" or not problems:
        return failure.message
    places = ", ".join(f"{p['path'] or 'they'} ({p['rule']})" for p in problems[:10])
    return f"the arguments do not fit: {places}"
