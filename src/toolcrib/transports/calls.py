"""Calls that doors made: waited for, asked about later, cancelled, and run once for one key."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.core.canonical import digest
from toolcrib.core.result import Failure, ToolResult
from toolcrib.errors import StoreError
from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault

if TYPE_CHECKING:
    from toolcrib.host.history import CallSummary
    from toolcrib.pipeline.flight import Flight
    from toolcrib.transports.models import CallState, ToolsCall
    from toolcrib.transports.service import Service

_log = logging.getLogger("toolcrib")
MOST_KEPT = 1000
"""Results kept for whoever asks later; the oldest make room."""
MOST_BYTES = 64_000_000
"""Their size in all, as JSON."""
LONGEST_KEY = 256
_LOOK = 0.05
"""Seconds between two looks at a call that somebody else waits for."""


class _Kept(msgspec.Struct, frozen=True):
    principal: str
    result: ToolResult
    size: int


class Calls:
    """What is known of calls beyond the request that made them."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._host = service.host
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._size = 0
        self._going: dict[str, asyncio.Future[ToolResult]] = {}
        """Calls that go on whether or not their request does, by call id."""

    # Making calls.

    async def run(
        self, caller: Caller, request: ToolsCall, *, call_id: str | None = None
    ) -> ToolResult | CallState:
        """One call, as long as `wait` says; with a key, at most once. Raises `Fault`."""
        if request.wait is None and request.key is None:
            return await self._place(caller, request, call_id)
        call_id = call_id or self._service.new_call_id()
        if request.key is not None:
            call_id = keyed_id(caller, request.key)
            known = await self._first(caller, request, call_id)
            if known is not None:
                return known
        task = self._going.get(call_id)
        if task is None:
            task = self._begin(caller, request, call_id)
        return await self._wait(task, call_id, request.wait)

    def _place(self, caller: Caller, request: ToolsCall, call_id: str | None) -> Any:
        return self._service.place(
            caller,
            request.name,
            request.arguments,
            session=request.session,
            profile=request.profile,
            timeout=request.timeout,
            call_id=call_id,
        )

    def _begin(self, caller: Caller, request: ToolsCall, call_id: str) -> asyncio.Task[ToolResult]:
        task = asyncio.ensure_future(self._go_on(caller, request, call_id))
        self._going[call_id] = task
        task.add_done_callback(lambda _: self._going.pop(call_id, None))
        return task

    def goes_on(self, call_id: str, ending: asyncio.Future[ToolResult]) -> None:
        """A call's request was answered before the call ended; `ending` is done when its result is
        kept."""
        self._going[call_id] = ending
        ending.add_done_callback(lambda _: self._going.pop(call_id, None))

    async def _go_on(self, caller: Caller, request: ToolsCall, call_id: str) -> ToolResult:
        result: ToolResult = await self._place(caller, request, call_id)
        self.keep(call_id, caller.principal.name, result)
        if request.key is not None:
            await self._remember(call_id, result)
        return result

    async def _wait(
        self, task: asyncio.Future[ToolResult], call_id: str, seconds: float | None
    ) -> ToolResult | CallState:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
        state = await self.state(call_id)
        # Shielded: others may wait for the same call, and who leaves must not end it for them.
        return await asyncio.shield(task) if state is None else state

    # One run for one key.

    async def _first(
        self, caller: Caller, request: ToolsCall, call_id: str
    ) -> ToolResult | CallState | None:
        """What an earlier call with this key came to; None for the first one, which then runs."""
        from toolcrib.core.ledger import LedgerCall

        if not 1 <= len(request.key or "") <= LONGEST_KEY:
            raise Fault("invalid_request", f"a key has 1 to {LONGEST_KEY} characters")
        # Under another profile it is another call: its result may not be for this caller.
        profile = request.profile or caller.profile
        print_ = digest([request.name, request.arguments or {}, profile, request.session])
        store = (await self._host.start()).store
        now = time.time()
        row = LedgerCall(
            id=call_id,
            tool=request.name[:128],
            principal=caller.principal.name,
            session=request.session,
            state="requested",
            delivery="once",
            created=now,
            updated=now,
            idempotency_key=call_id,
            request=print_,
        )
        try:
            if await store.put_call(row):
                return None
            found = await store.get_call(call_id)
        except StoreError as error:
            raise Fault("audit_unavailable", str(error)) from None
        if found is not None and found.request != print_:
            raise Fault("key_reused", "the key stands for a call with another tool or arguments")
        task = self._going.get(call_id)
        if task is not None:
            return await self._wait(task, call_id, request.wait)
        if found is not None and found.result is not None:
            return msgspec.json.decode(found.result, type=ToolResult)
        try:
            return await self.get(caller, call_id, request.wait)
        except Fault as fault:
            if fault.reason != "not_found":
                raise
            # Its host was killed before anything of it was written; it is not run again for that.
            text = "a call with this key was begun, and how it ended is not known"
            failure = Failure(reason="outcome_unknown", message=text)
            return ToolResult(call_id=call_id, status="error", error=failure)

    async def _remember(self, call_id: str, result: ToolResult) -> None:
        """Write down what a keyed call came to, for those who ask after a restart."""
        store = (await self._host.start()).store
        encoded = msgspec.json.encode(result)
        now = time.time()
        try:
            await store.move_call(call_id, old="requested", new="ready", now=now)
            fence = await store.claim_call(call_id, lease_until=now + 3600, now=now)
            if fence is not None:
                await store.finish_call(call_id, fence=fence, state="done", result=encoded, now=now)
        except StoreError:
            _log.exception("the result of call %s is not kept for its key", call_id)

    # Asking later.

    def keep(self, call_id: str, principal: str, result: ToolResult) -> None:
        """Keep a result for whoever asks later; not longer than there is room."""
        size = len(msgspec.json.encode(result))
        self._kept[call_id] = _Kept(principal, result, size)
        self._size += size
        while len(self._kept) > MOST_KEPT or (self._size > MOST_BYTES and len(self._kept) > 1):
            _, gone = self._kept.popitem(last=False)
            self._size -= gone.size

    async def get(self, caller: Caller, id: str, wait: float | None) -> ToolResult | CallState:
        """How a call ended, or that it has not after `wait` seconds. Raises `Fault`."""
        deadline = None if wait is None else time.monotonic() + wait
        while True:
            kept = self._kept.get(id)
            if kept is not None and self._sees(caller, kept.principal):
                return kept.result
            flight = self.flight(id)
            if flight is None or not self._sees(caller, flight.principal.name):
                task = self._going.get(id)
                if flight is None and task is not None and not task.done():
                    await asyncio.sleep(_LOOK)  # it is just about to begin, or to be kept
                    continue
                return await self._from_trail(caller, id)
            if deadline is not None and time.monotonic() >= deadline:
                state = await self.state(id)
                if state is not None:
                    return state
                continue
            left = _LOOK if deadline is None else min(_LOOK, deadline - time.monotonic())
            await asyncio.sleep(max(left, 0.0))

    async def state(self, call_id: str) -> CallState | None:
        """How far a call in flight here is."""
        from toolcrib.transports.models import CallState

        flight = self.flight(call_id)
        if flight is None:
            return None
        waits = flight.decision.verdict == "ask" and not flight.attempt
        return CallState(
            call_id=call_id,
            state="awaiting_approval" if waits else "running",
            tool=flight.tool,
            since=time.time() - (time.monotonic_ns() - flight.began) / 1e9,
            approval=flight.question if waits else None,
        )

    def flight(self, call_id: str) -> Flight | None:
        """The call of that id that runs or waits here."""
        flights = self._service.parts.pipeline.flights()
        return next((flight for flight in flights if flight.call_id == call_id), None)

    def going(self) -> list[CallSummary]:
        """The calls that run or wait here now."""
        from toolcrib.host.history import CallSummary

        now, clock = time.time(), time.monotonic_ns()
        return [
            CallSummary(
                id=flight.call_id,
                time=now - (clock - flight.began) / 1e9,
                tool=flight.tool,
                principal=flight.principal.name,
                session=flight.session_id or None,
                profile=flight.plan.profile_name,
                door=flight.door,
                parent=flight.parent_id,
            )
            for flight in self._service.parts.pipeline.flights()
        ]

    def cancel(self, call_id: str) -> bool:
        """Stop a call that runs or waits here."""
        return self._host.cancel(call_id)

    async def stop(self) -> None:
        """Let go of the calls that go on by themselves; the host has ended them."""
        for task in list(self._going.values()):
            task.cancel()
        await asyncio.gather(*self._going.values(), return_exceptions=True)

    def _sees(self, caller: Caller, principal: str) -> bool:
        return principal == caller.principal.name or caller.may("audit")

    async def summary(self, caller: Caller, id: str) -> CallSummary:
        """What the trail says of a call. Raises `Fault`."""
        from toolcrib.host.history import History, Wanted
        from toolcrib.transports.concealing import told

        store = (await self._host.start()).store
        await store.flush()
        found = await History(store).recent_calls(limit=1, wanted=Wanted(call_id=id))
        if not found or not self._sees(caller, found[0].principal):
            raise Fault("not_found", f"there is no call {id!r}")
        return told(self._host, caller, found[0])

    async def _from_trail(self, caller: Caller, id: str) -> ToolResult:
        """The ending as far as the trail keeps it: secrets hidden, large outputs cut."""
        call = await self.summary(caller, id)
        metadata = {"from": "trail"}
        if call.status is None:
            text = "the call began and no ending is on the trail"
            failure = Failure(reason="outcome_unknown", message=text)
            return ToolResult(call_id=id, status="error", error=failure, metadata=metadata)
        if call.status == "ok":
            events = await self._host.trail(call_id=id)
            output = next((e.data["output"] for e in reversed(events) if "output" in e.data), None)
            return ToolResult(call_id=id, output=output, metadata=metadata)
        failure = Failure(reason=call.reason or "tool_error", message=call.message or "")
        status = "denied" if call.status == "denied" else "error"
        return ToolResult(call_id=id, status=status, error=failure, metadata=metadata)


def keyed_id(caller: Caller, key: str) -> str:
    """The id of the one call that a principal makes under a key."""
    return f"k{digest([caller.principal.name, key])[:32]}"
