"""The lease in the ledger under which durable calls run, so that lost ones are found out.

While calls run whose effects go beyond reading, one entry in the ledger says that their host is
alive. It comes with the record of the first call's decision, is renewed while calls run, and is
taken out with the record of the last one's ending. A host that dies leaves an entry whose lease
runs out. Whoever finds it reads in the trail which calls had begun and not ended, and writes the
ending `outcome_unknown` for each: it may have happened, and nobody runs it again by itself.

Who writes the ending of a call is not in doubt as long as the lease surely lasts: its host. From
then on, the one who enters the call into the ledger does.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from time import monotonic, monotonic_ns
from typing import Any, Protocol

from toolcrib.core.clock import Clock
from toolcrib.core.events import NOTHING, CloseRecord, OpenRecord, Record
from toolcrib.core.ledger import CallState, Finish, LedgerCall, leased_run, run_lease
from toolcrib.core.result import ToolResult
from toolcrib.errors import StoreError
from toolcrib.pipeline.begun import Begun, Blocks
from toolcrib.pipeline.flight import Flight, Lease
from toolcrib.pipeline.parts import TrailWriter

LOST = "the host that ran it vanished; whether it took effect is not known"

_log = logging.getLogger("toolcrib")
_LOOKED_AT = 1000
"""Running calls that are looked at first; where there are more, the ledger is asked for late ones
in any case."""


class Ledger(Blocks, Protocol):
    """The part of a store that keeps durable calls, and the trail that tells of them."""

    durable: bool

    async def put_call(self, call: LedgerCall) -> bool: ...
    async def calls(self, *, state: str | None = None, limit: int = 100) -> list[LedgerCall]: ...
    async def renew_call(self, id: str, *, fence: int, lease_until: float) -> bool: ...
    async def sweep_calls(self, now: float) -> list[LedgerCall]: ...


class Leases:
    """Keeps this run's lease while durable calls run, and finds the calls of lost runs."""

    def __init__(self, ledger: Ledger, trail: TrailWriter, clock: Clock, lease: float) -> None:
        self._ledger = ledger
        self._trail = trail
        self._clock = clock
        self._seconds = lease
        # What changes the lease and the record that goes with it reach the trail in one order.
        # Reentrant: an abandoned call may be collected, and end, while its thread is in here.
        self._lock = threading.RLock()
        self._current: Lease | None = None
        self._taken = 0
        self._lost_ns = 0
        """When a lease was last found lost; calls that came before may have been written off."""
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._busy: set[asyncio.Task[None]] = set()

    def begin(self, flight: Flight, record: Record) -> asyncio.Future[None] | None:
        """Put the record that a call begins to run on the trail, and the call under the lease."""
        if not self._ledger.durable:
            return self._trail.append_and_wait(record)
        if self._timer is None or self._loop is None or self._loop.is_closed():
            self._watch()
        with self._lock:
            lease, step = self._current, None
            if lease is None:
                self._taken += 1
                now = self._clock.time()
                until = now + self._seconds
                step = run_lease(self._trail.run, self._taken, now=now, lease_until=until)
                lease = self._current = Lease(step.id, monotonic() + self._seconds / 2)
            lease.running += 1
            flight.lease = lease
            return self._trail.append_and_wait(record, step)

    def end(self, flight: Flight, record: Record) -> asyncio.Future[None] | None:
        """Put the ending of a call on the trail, and take the call from under its lease."""
        lease = flight.lease
        if lease is None:
            return self._trail.append_and_wait(record)
        with self._lock:
            flight.lease, step = None, None
            lease.running -= 1
            if not lease.running and lease is self._current:
                self._current = None
                step = Finish(lease.id, 1)
            return self._trail.append_and_wait(record, step)

    @property
    def doubtful(self) -> bool:
        """Whether somebody may have taken the lease for lost, such as after the machine slept."""
        lease = self._current
        return lease is not None and lease.sure < monotonic()

    def in_doubt(self, flight: Flight) -> bool:
        """Whether somebody may have written off this call, which is on the trail as begun."""
        return flight.began < self._lost_ns or self.doubtful

    async def renew(self) -> None:
        """Prolong the lease; when it is lost, the next call takes a new one. Raises
        `StoreError`."""
        lease = self._current
        if lease is None:
            return
        began = monotonic()
        until = self._clock.time() + self._seconds
        held = await self._ledger.renew_call(lease.id, fence=1, lease_until=until)
        with self._lock:
            if held:
                lease.sure = began + self._seconds / 2
            elif lease is self._current:  # and not given back meanwhile
                self._current = None
                self._lost_ns = monotonic_ns()

    def sure(self, flight: Flight) -> bool:
        """Whether its lease surely lasts still, if it has one. Then whoever finds the lease lost
        later finds in the trail what is there of the call now."""
        lease = flight.lease
        return lease is None or (lease is self._current and monotonic() < lease.sure)

    async def confirm(self, flight: Flight) -> None:
        """Make sure of it. Raises `StoreError` when the lease is lost."""
        await self.renew()
        if flight.lease is not self._current:
            raise StoreError("the call was on the trail only after its lease had run out")

    async def written_off(self, flight: Flight, result: ToolResult) -> bool:
        """Whether somebody else writes the ending of this call, or has done so. Raises
        `StoreError`."""
        if self.doubtful:
            await self.renew()
        if flight.began >= self._lost_ns:
            return False
        ended = LedgerCall(
            id=flight.call_id,
            tool=flight.tool,
            principal=flight.principal.name,
            session=None if flight.session is None else flight.session.id,
            state=_state(result),
            delivery="once",
            created=time.time() - (monotonic_ns() - flight.began) / 1e9,
            updated=self._clock.time(),
            fence=1,
            attempt=flight.attempt,
        )
        return not await self._ledger.put_call(ended)

    async def sweep(self) -> int:
        """Write the endings of calls whose host vanished; how many there were."""
        if not self._ledger.durable:
            return 0
        now = self._clock.time()
        begun: dict[str, Begun] = {}
        running = await self._ledger.calls(state="running", limit=_LOOKED_AT)
        late = [call for call in running if (call.lease_until or now) < now]
        if not late and len(running) < _LOOKED_AT:
            return 0  # looking writes nothing, so a start does not wait for the disk
        for call in late:
            run = leased_run(call.id)
            if run is not None:
                # A long trail is read first: who dies between taking the lease and writing the
                # endings leaves calls without any.
                begun[run] = Begun(self._ledger, run)
                await begun[run].read()
        lost = 0
        for call in await self._ledger.sweep_calls(now):
            run = leased_run(call.id)
            if call.state != "outcome_unknown":
                continue
            if run is None:
                self._write_off(call)
                lost += 1
            else:
                lost += await self._write_off_run(begun.get(run) or Begun(self._ledger, run))
        return lost

    async def _write_off_run(self, begun: Begun) -> int:
        await begun.read()
        now = self._clock.time()
        calls = [_lost(record, now) for record in begun.running()]
        entered = await asyncio.gather(*map(self._ledger.put_call, calls))
        ours = [call for call, mine in zip(calls, entered, strict=True) if mine]
        for call in ours:
            self._write_off(call)
        return len(ours)

    def _write_off(self, call: LedgerCall) -> None:
        took = max(0.0, self._clock.time() - call.created)
        record = CloseRecord(
            time.time(), call.id, call.tool, call.principal, call.session, "error",
            "outcome_unknown", LOST, NOTHING, 0, None, call.attempt, 0.0, 0.0, took, took, True,
        )  # fmt: skip
        self._trail.append(record)

    def close(self) -> None:
        """Watch no more."""
        if self._timer is not None and self._loop is not None and not self._loop.is_closed():
            timer = self._timer
            _soon(self._loop, timer.cancel)
        self._timer = None

    def _watch(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._seconds / 4, self._look)

    def _look(self) -> None:
        """Renew the lease while calls run."""
        self._timer = None
        if self._current is None:
            return
        task = asyncio.ensure_future(self._keep())
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)
        self._watch()

    async def _keep(self) -> None:
        try:
            await self.renew()
            await self.sweep()
        except StoreError as error:
            _log.warning("the lease could not be renewed: %s", error)


def _lost(record: OpenRecord, now: float) -> LedgerCall:
    """A call that had begun when its host vanished."""
    return LedgerCall(
        id=record.call_id,
        tool=record.tool,
        principal=record.principal,
        session=record.session,
        state="outcome_unknown",
        delivery="once",
        created=record.time,
        updated=now,
        fence=1,
        attempt=1,
    )


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
