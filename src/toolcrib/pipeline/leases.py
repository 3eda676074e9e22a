"""Durable calls in the ledger: each runs under a lease, so that a lost one is found out.

A call whose effects go beyond reading is entered as `running` together with the record of its
decision, and taken out together with the record of its ending. A host that dies leaves calls whose
lease runs out; whoever finds them writes the ending `outcome_unknown`: it may have happened, and
nobody runs it again by itself.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from time import monotonic
from typing import Any, Protocol

from toolcrib.core.clock import Clock
from toolcrib.core.events import NOTHING, CloseRecord
from toolcrib.core.ledger import CallState, Finish, LedgerCall
from toolcrib.core.result import ToolResult
from toolcrib.errors import StoreError
from toolcrib.pipeline.flight import Flight
from toolcrib.pipeline.parts import TrailWriter

LOST = "the host that ran it vanished; whether it took effect is not known"

_log = logging.getLogger("toolcrib")


class Ledger(Protocol):
    """The part of a store that keeps durable calls."""

    durable: bool

    async def renew_call(self, id: str, *, fence: int, lease_until: float) -> bool: ...
    async def finish_call(
        self, id: str, *, fence: int, state: str, result: bytes | None, now: float
    ) -> bool: ...
    async def sweep_calls(self, now: float) -> list[LedgerCall]: ...


class Leases:
    """Enters durable calls, keeps their leases while they run, and finds lost ones."""

    def __init__(self, ledger: Ledger, trail: TrailWriter, clock: Clock, lease: float) -> None:
        self._ledger = ledger
        self._trail = trail
        self._clock = clock
        self._lease = lease
        self._held: dict[str, float] = {}
        """Until when the lease of each running call is known to last, on the monotonic clock."""
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._busy: set[asyncio.Task[None]] = set()

    def enter(self, flight: Flight) -> LedgerCall | None:
        """What the ledger learns when a call begins to run; None where nothing would survive."""
        if not self._ledger.durable:
            return None
        now = self._clock.time()
        self._held[flight.call_id] = monotonic() + self._lease
        if self._timer is None or self._loop is None or self._loop.is_closed():
            self._watch()
        return LedgerCall(
            id=flight.call_id,
            tool=flight.plan.name,
            principal=flight.principal.name,
            session=None if flight.session is None else flight.session.id,
            state="running",
            delivery="once",
            created=now,
            updated=now,
            fence=1,
            attempt=1,
            lease_until=now + self._lease,
        )

    def leave(self, flight: Flight, result: ToolResult) -> Finish | None:
        """What the ledger learns when a call has ended."""
        if self._held.pop(flight.call_id, None) is None:
            return None
        return Finish(flight.call_id, 1)

    async def lost(self, flight: Flight, result: ToolResult) -> bool:
        """Whether somebody has written this call off already. Asked only by a call that went on
        without a confirmed lease, such as after its machine slept."""
        until = self._held.get(flight.call_id)
        if until is None or monotonic() < until:
            return False
        del self._held[flight.call_id]
        return not await self._ledger.finish_call(
            flight.call_id, fence=1, state=_state(result), result=None, now=self._clock.time()
        )

    async def sweep(self) -> int:
        """Write the endings of calls whose host vanished; how many there were."""
        if not self._ledger.durable:
            return 0
        swept = await self._ledger.sweep_calls(self._clock.time())
        lost = [call for call in swept if call.state == "outcome_unknown"]
        for call in lost:
            took = max(0.0, self._clock.time() - call.created)
            record = CloseRecord(
                time.time(), call.id, call.tool, call.principal, call.session, "error",
                "outcome_unknown", LOST, NOTHING, 0, None, call.attempt, 0.0, 0.0, took, took, True,
            )  # fmt: skip
            self._trail.append(record)
        return len(lost)

    def close(self) -> None:
        """Watch no more."""
        if self._timer is not None and self._loop is not None and not self._loop.is_closed():
            timer = self._timer
            _soon(self._loop, timer.cancel)
        self._timer = None

    def _watch(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._lease / 4, self._look)

    def _look(self) -> None:
        """Renew the leases of calls that have run for a while."""
        self._timer = None
        old = monotonic() + 0.8 * self._lease
        aged = [call_id for call_id, until in list(self._held.items()) if until < old]
        if aged:
            task = asyncio.ensure_future(self._renew(aged))
            self._busy.add(task)
            task.add_done_callback(self._busy.discard)
        if self._held:
            self._watch()

    async def _renew(self, call_ids: list[str]) -> None:
        try:
            for call_id in call_ids:
                began = monotonic()
                until = self._clock.time() + self._lease
                held = await self._ledger.renew_call(call_id, fence=1, lease_until=until)
                if held and call_id in self._held:
                    self._held[call_id] = began + self._lease
            await self.sweep()
        except StoreError as error:
            _log.warning("leases could not be renewed: %s", error)


def _state(result: ToolResult) -> CallState:
    if result.status == "denied":
        return "denied"
    if result.error is not None and result.error.still_running:
        return "outcome_unknown"
    if result.reason == "cancelled":
        return "cancelled"
    return "done" if result.status == "ok" else "failed"


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[], Any]) -> None:
    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:
        return  # the loop was closed meanwhile, and its timers with it
