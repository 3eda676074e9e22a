"""Putting calls on the trail: whole, or in two halves when one has to be there before the other."""

from __future__ import annotations

import asyncio
import time
from time import monotonic_ns
from typing import Any

import msgspec

from toolcrib.core.context import ToolContext
from toolcrib.core.events import (
    BeginRecord,
    FactRecord,
    OkRecord,
    OpenRecord,
    Record,
    StartRecord,
)
from toolcrib.core.result import ToolResult
from toolcrib.core.settings import HostSettings
from toolcrib.errors import StoreError
from toolcrib.pipeline.endings import failed
from toolcrib.pipeline.flight import Flight
from toolcrib.pipeline.leases import Leases
from toolcrib.pipeline.parts import Hider, TrailWriter
from toolcrib.pipeline.seat import Seat
from toolcrib.pipeline.shaping import hide


class Recorder:
    """Writes how calls begin and end."""

    def __init__(
        self, settings: HostSettings, trail: TrailWriter, hider: Hider, leases: Leases
    ) -> None:
        self.settings = settings
        self.leases = leases
        self.trail = trail
        self.hider = hider
        self._settling: set[asyncio.Task[None]] = set()

    async def end(self, flight: Flight, result: ToolResult) -> ToolResult:
        """Write the ending and, where the call's effects ask for it, wait until it is on disk."""
        if flight.ended:
            return result
        if result.error is not None and self.hider.has_secrets:
            result = hide(result, self.hider)
        doubt = flight.opened and self.leases.in_doubt(flight)
        if doubt:
            if await self._written_off(flight, result):
                return result
            flight.shaped = None  # there may be more secrets than when it was looked through
        record = flight.record(result, self.hider, self.settings.audit_capture)
        plan, error = flight.plan, result.error
        plan.counter.ended(result.status, error and error.reason, flight.total_s)
        if plan.sync and flight.attempt:
            try:
                written = self.leases.end(flight, record)
                if written is not None:
                    await written
            except StoreError:
                # The tool ran: the answer must not hide that. New calls are refused meanwhile.
                metadata = {**result.metadata, "trail": "unwritten"}
                return msgspec.structs.replace(result, metadata=metadata)
        elif flight.lease is not None:
            self._put_unheard(flight, record)
        else:
            self.trail.append(record)
        return result

    def end_briefly(self, flight: Flight, seat: Seat, result: ToolResult) -> bool:
        """Write the ending of a call that went the common way, if the short form says all of it;
        otherwise nothing is written."""
        if flight.odd or flight.ended or result.status != "ok":
            return False
        hider, limit = self.hider, self.settings.audit_capture
        made, encoded, clear = flight.shaped or (None, b"", False)
        if made is not result.output or len(encoded) > limit:
            return False
        if hider.value(made, clear=encoded if clear else None) is not made:
            return False
        arguments, arguments_hash = flight.kept_arguments(hider, limit)
        if arguments_hash is not None:
            return False
        total = monotonic_ns() - flight.began
        run = flight.finished - flight.started
        self.trail.append(
            OkRecord(
                time.time_ns(),
                flight.call_id,
                seat.about,
                arguments,
                msgspec.Raw(encoded),
                flight.decide_ns,
                run,
                total,
            )
        )
        flight.plan.counter.ended("ok", None, total / 1e9)
        return True

    async def _written_off(self, flight: Flight, result: ToolResult) -> bool:
        """Whether the trail says already that nobody knows how the call ended. There is one ending
        for each call; how it went after all is told as a fact."""
        try:
            lost = await self.leases.written_off(flight, result)
        except StoreError:
            return False  # whoever writes the ending finds the same, and says it
        if lost:
            data = {"tool": flight.tool, "status": result.status, "reason": result.reason}
            fact = FactRecord(time.time(), "call.late", flight.call_id, data)
            self._put_unheard(flight, fact)
        return lost

    def end_unheard(self, flight: Flight, reason: str = "cancelled") -> None:
        """The caller went away: nobody hears the result, the trail still gets the ending."""
        if flight.ended:
            return
        flight.cancelled = True
        result = failed(flight, reason)
        if flight.opened and self.leases.in_doubt(flight) and self._later(flight, result):
            return
        self._end_unheard(flight, result)

    def _end_unheard(self, flight: Flight, result: ToolResult) -> None:
        record = flight.record(result, self.hider, self.settings.audit_capture)
        flight.plan.counter.ended(result.status, result.reason, flight.total_s)
        self._put_unheard(flight, record)

    def _later(self, flight: Flight, result: ToolResult) -> bool:
        """Find out who writes the ending, after the one who cannot wait has gone on; False where
        nothing can be done later."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        task = loop.create_task(self._settle(flight, result))
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)
        return True

    async def _settle(self, flight: Flight, result: ToolResult) -> None:
        if not await self._written_off(flight, result):
            self._end_unheard(flight, result)

    def _put_unheard(self, flight: Flight, record: Record) -> None:
        """On the trail, with what it means for the lease; nobody waits for it."""
        if flight.lease is None:
            self.trail.append(record)
            return
        try:
            written = self.leases.end(flight, record)
        except (StoreError, RuntimeError):  # the store or the loop has closed
            self.trail.append(record)
        else:
            if written is not None:
                written.add_done_callback(_heard)

    def open(self, flight: Flight, verdict: str) -> asyncio.Future[None] | None:
        flight.opened = flight.odd = True
        plan, seat = flight.plan, flight.seat
        if seat is not None and verdict == "allow" and self._short(flight, seat):
            return self._put(
                flight,
                BeginRecord(
                    time.time_ns(),
                    flight.call_id,
                    seat.about,
                    msgspec.Raw(flight.encoded),
                    flight.decide_ns,
                    monotonic_ns() - flight.began,
                ),
            )
        arguments, arguments_hash = flight.kept_arguments(self.hider, self.settings.audit_capture)
        record = OpenRecord(
            time.time() - (monotonic_ns() - flight.began) / 1e9,
            flight.call_id,
            plan.name,
            flight.principal.name,
            None if flight.session is None else flight.session.id,
            plan.profile_name,
            flight.door,
            flight.parent_id,
            verdict,
            flight.gate,
            flight.decision.rule,
            flight.decision.source,
            arguments,
            len(flight.encoded),
            arguments_hash,
            flight.decide_ns / 1e9,
        )
        if verdict == "allow":
            return self._put(flight, record)
        self.trail.append(record)
        return None

    def _short(self, flight: Flight, seat: Seat) -> bool:
        """Whether the short forms say all there is to say of the call so far."""
        return (
            flight.decision is seat.base
            and flight.plan.clean
            and flight.parent_id is None
            and len(flight.encoded) <= self.settings.audit_capture
            and not self.hider.has_numbers
        )

    def _put(self, flight: Flight, record: Record) -> asyncio.Future[None] | None:
        """On the trail; with something to wait for where the call's effects ask for it."""
        plan = flight.plan
        if plan.sync:
            if plan.spec.read_only:
                return self.trail.append_and_wait(record)
            return self.leases.begin(flight, record)
        self.trail.append(record)
        return None

    def start(self, flight: Flight) -> asyncio.Future[None] | None:
        if not flight.opened:
            return self.open(flight, "allow")
        record = StartRecord(time.time(), flight.call_id, flight.wait_s, flight.queue_s)
        if flight.noted is not None and "arguments_edited" in flight.noted:
            kept, hashed = flight.kept_arguments(self.hider, self.settings.audit_capture)
            record.arguments, record.arguments_hash = kept, hashed
            record.arguments_size = len(flight.encoded)
        return self._put(flight, record)

    def note(self, flight: ToolContext, type: str, data: dict[str, Any]) -> None:
        """A fact from the middle of a call: what came before it goes on the trail first."""
        if isinstance(flight, Flight) and flight.attempt and not flight.opened:
            self.open(flight, "allow")
        self.trail.fact(type, flight.call_id, data)


def _heard(written: asyncio.Future[None]) -> None:
    """Nobody waits for this one, so nobody else looks at its exception."""
    if not written.cancelled():
        written.exception()
