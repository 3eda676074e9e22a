"""The store that keeps everything in this process and nothing on the disk."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.core.approval import ApprovalRequest, Grant, RequestState
from toolcrib.core.chain import Block
from toolcrib.core.ledger import LedgerCall, LedgerStep, SessionRow
from toolcrib.errors import StoreError
from toolcrib.stores.changes import Changes
from toolcrib.stores.transitions import check_answer, check_ending, check_move, swept

if TYPE_CHECKING:
    from toolcrib.core.protocols import TrailSource

_log = logging.getLogger("toolcrib")
_replace = msgspec.structs.replace

TAKE_POKES = 1024
TAKE_S = 0.05
"""Records are taken at every so manieth poke, or when the last time is this long ago."""


class MemoryStore:
    """Behaves as the durable store does, until the process ends.

    Of the trail it keeps the blocks of the newest `keep` records.
    """

    name = "memory"
    durable = False
    path: Path | None = None

    def __init__(self, *, keep: int = 100_000, clock: Callable[[], float] = time.time) -> None:
        self._keep = keep
        self._clock = clock
        self._changes = Changes()
        # Reentrant: a trail that hears `done` may poke at once.
        self._lock = threading.RLock()
        self._closed = False
        self._trails: tuple[TrailSource, ...] = ()
        self._pokes = 0
        self._taken = 0.0
        self._position = 0
        self._records = 0
        self._blocks: deque[tuple[int, Block]] = deque()
        self._requests: dict[str, ApprovalRequest] = {}
        self._grants: dict[str, Grant] = {}
        self._sessions: dict[str, SessionRow] = {}
        self._calls: dict[str, LedgerCall] = {}
        self._call_keys: set[tuple[str, str]] = set()
        self._open_keys: dict[str, str] = {}

    def attach(self, trail: TrailSource) -> None:
        """Take records from `trail` with every change."""
        with self._lock:
            if trail not in self._trails:
                self._trails = (*self._trails, trail)

    def poke(self, *, now: bool) -> None:
        """Take the trail's waiting records: at once, or now and then and before they are read."""
        self._pokes += 1
        if now or self._pokes >= TAKE_POKES or time.monotonic() - self._taken > TAKE_S:
            try:
                with self._lock:
                    if not self._closed:
                        self._take()
            except StoreError:
                _log.exception("the memory store could not take a trail's records")

    def _take(self) -> None:
        self._pokes = 0
        self._taken = time.monotonic()
        for trail in self._trails:
            try:
                block = trail.take()
            except Exception as error:
                raise StoreError(f"a trail cannot give its records: {error}") from error
            if block is None:
                continue
            self._position += 1
            self._blocks.append((self._position, block))
            self._records += block.count
            for step in block.steps:
                self._step(step)
            trail.done(block)
        while self._records > self._keep and len(self._blocks) > 1:
            self._records -= self._blocks.popleft()[1].count

    def _step(self, step: LedgerStep) -> None:
        if isinstance(step, LedgerCall):
            self._calls.setdefault(step.id, step)
            return
        call = self._calls.get(step.id)
        if call is not None and call.state == "running" and call.fence == step.fence:
            del self._calls[step.id]

    def _enter(self, *, read: bool = False) -> None:
        """What every method begins with, holding the lock."""
        if self._closed:
            raise StoreError("the memory store is closed. Call `await store.open()` first.")
        if read:
            self._changes.seen()
        self._take()

    async def open(self) -> None:
        """Accept work; what was kept before a `close()` is still there."""
        with self._lock:
            self._closed = False

    async def close(self) -> None:
        """Take the records that wait and accept no more work."""
        with self._lock:
            if not self._closed:
                self._take()
            self._closed = True
        self._changes.changed()

    async def blocks(
        self, *, after: int = 0, limit: int = 100, run: str | None = None
    ) -> list[tuple[int, Block]]:
        """Blocks in writing order with their positions, beginning behind position `after`."""
        with self._lock:
            self._enter(read=True)
            found: list[tuple[int, Block]] = []
            for position, block in self._blocks:
                if len(found) == limit:
                    break
                if position > after and (run is None or block.run == run):
                    found.append((position, block))
            return found

    async def runs(self) -> list[str]:
        """The writers' runs, oldest first."""
        with self._lock:
            self._enter(read=True)
            return list(dict.fromkeys(block.run for _, block in self._blocks))

    async def put_request(self, request: ApprovalRequest) -> ApprovalRequest:
        """Keep a new request; when an unanswered or unused one has the same key, give that one."""
        with self._lock:
            self._enter()
            known = self._requests.get(self._open_keys.get(request.key, ""))
            if known is not None and known.expires > request.created:
                return known
            if known is not None:
                self._change_request(known, state="expired", decided=request.created)
            if request.id in self._requests:
                raise StoreError(
                    f"a request with the id {request.id!r} exists already. Use a new id."
                )
            self._change_request(request)
        self._changes.changed()
        return request

    def _change_request(self, request: ApprovalRequest, **changes: Any) -> None:
        request = _replace(request, **changes)
        self._requests[request.id] = request
        if request.state in ("pending", "allowed"):
            self._open_keys[request.key] = request.id
        elif self._open_keys.get(request.key) == request.id:
            del self._open_keys[request.key]

    async def get_request(self, id: str) -> ApprovalRequest | None:
        """The request `id`."""
        with self._lock:
            self._enter(read=True)
            return self._requests.get(id)

    async def requests(
        self, *, state: RequestState | None = None, limit: int = 1000
    ) -> list[ApprovalRequest]:
        """Requests, those that expire first in front."""
        with self._lock:
            self._enter(read=True)
            found = [r for r in self._requests.values() if state is None or r.state == state]
        return sorted(found, key=lambda request: request.expires)[:limit]

    async def answer_request(self, request: ApprovalRequest, *, grant: Grant | None = None) -> bool:
        """Replace a pending, unexpired request by its answered form, and keep the grant with it."""
        check_answer(request)
        with self._lock:
            self._enter()
            known = self._requests.get(request.id)
            if (
                known is None
                or known.key != request.key
                or known.state != "pending"
                or known.expires <= (request.decided or 0.0)
            ):
                return False
            if grant is not None:
                self._add_grant(grant)
            self._change_request(request)
        self._changes.changed()
        return True

    async def redeem_request(self, id: str, *, key: str, call_id: str, now: float) -> bool:
        """Use an allowed request for one call: true for exactly one caller, ever."""
        with self._lock:
            self._enter()
            known = self._requests.get(id)
            if (
                known is None
                or known.key != key
                or known.state != "allowed"
                or known.expires <= now
            ):
                return False
            self._change_request(known, state="used")
        self._changes.changed()
        return True

    async def expire_request(self, id: str, now: float) -> bool:
        """Mark a pending request whose time is over as expired."""
        with self._lock:
            self._enter()
            known = self._requests.get(id)
            if known is None or known.state != "pending" or known.expires > now:
                return False
            self._change_request(known, state="expired", decided=now)
        self._changes.changed()
        return True

    async def flush(self) -> None:
        """Take the waiting records."""
        self.poke(now=True)

    async def put_grant(self, grant: Grant) -> None:
        """Keep a new grant."""
        with self._lock:
            self._enter()
            self._add_grant(grant)
        self._changes.changed()

    def _add_grant(self, grant: Grant) -> None:
        if grant.id in self._grants:
            raise StoreError(f"a grant with the id {grant.id!r} exists already. Use a new id.")
        self._grants[grant.id] = grant

    async def grants(self, *, live: bool = True) -> list[Grant]:
        """Grants, oldest first; `live` ones are neither revoked nor expired."""
        with self._lock:
            self._enter(read=True)
            found = sorted(self._grants.values(), key=lambda grant: grant.created)
        if not live:
            return found
        now = self._clock()
        return [
            grant
            for grant in found
            if grant.revoked is None and (grant.expires is None or grant.expires > now)
        ]

    async def revoke_grant(self, id: str, now: float) -> bool:
        """Take a grant back."""
        with self._lock:
            self._enter()
            known = self._grants.get(id)
            if known is None or known.revoked is not None:
                return False
            self._grants[id] = _replace(known, revoked=now)
        self._changes.changed()
        return True

    async def put_session(self, session: SessionRow) -> None:
        """Keep a session, in place of an older form of it."""
        with self._lock:
            self._enter()
            self._sessions[session.id] = session

    async def end_session(self, id: str, now: float) -> bool:
        """Mark an open session as ended."""
        with self._lock:
            self._enter()
            known = self._sessions.get(id)
            if known is None or known.ended is not None:
                return False
            self._sessions[id] = _replace(known, ended=now)
            return True

    async def sessions(self, *, open_only: bool = True) -> list[SessionRow]:
        """Sessions, oldest first."""
        with self._lock:
            self._enter(read=True)
            found = [s for s in self._sessions.values() if not open_only or s.ended is None]
        return sorted(found, key=lambda session: session.created)

    async def put_call(self, call: LedgerCall) -> bool:
        """Enter a durable call; False when the idempotency key or id is known already."""
        with self._lock:
            self._enter()
            key = call.idempotency_key
            if call.id in self._calls or (
                key is not None and (call.principal, key) in self._call_keys
            ):
                return False
            self._calls[call.id] = call
            if key is not None:
                self._call_keys.add((call.principal, key))
        self._changes.changed()
        return True

    async def get_call(self, id: str) -> LedgerCall | None:
        """The durable call `id`."""
        with self._lock:
            self._enter(read=True)
            return self._calls.get(id)

    async def calls(self, *, state: str | None = None, limit: int = 100) -> list[LedgerCall]:
        """Durable calls, oldest first."""
        with self._lock:
            self._enter(read=True)
            found = [c for c in self._calls.values() if state is None or c.state == state]
        return sorted(found, key=lambda call: call.created)[:limit]

    async def claim_call(self, id: str, *, lease_until: float, now: float) -> int | None:
        """Take a ready call to run it; the fence to finish it with, or None when it is taken."""
        with self._lock:
            self._enter()
            known = self._calls.get(id)
            if known is None or known.state != "ready":
                return None
            fence = known.fence + 1
            self._calls[id] = _replace(
                known,
                state="running",
                fence=fence,
                attempt=known.attempt + 1,
                lease_until=lease_until,
                updated=now,
            )
        self._changes.changed()
        return fence

    async def renew_call(self, id: str, *, fence: int, lease_until: float) -> bool:
        """Prolong the newest claim of a call."""
        return self._change_call(id, "running", fence, lease_until=lease_until)

    async def finish_call(
        self, id: str, *, fence: int, state: str, result: bytes | None, now: float
    ) -> bool:
        """End a call; False when the fence is not the newest."""
        check_ending(state)
        return self._change_call(
            id, "running", fence, state=state, result=result, updated=now, lease_until=None
        )

    async def move_call(self, id: str, *, old: str, new: str, now: float) -> bool:
        """Change the state of a call that is in `old`."""
        check_move(old, new)
        return self._change_call(id, old, None, state=new, updated=now, lease_until=None)

    def _change_call(self, id: str, old: str, fence: int | None, **changes: Any) -> bool:
        with self._lock:
            self._enter()
            known = self._calls.get(id)
            if known is None or known.state != old or fence not in (None, known.fence):
                return False
            self._calls[id] = _replace(known, **changes)
        self._changes.changed()
        return True

    async def sweep_calls(self, now: float) -> list[LedgerCall]:
        """Put calls whose lease ran out where their delivery says: ready or outcome_unknown."""
        with self._lock:
            self._enter()
            late = [
                swept(call, now)
                for call in self._calls.values()
                if call.state == "running"
                and call.lease_until is not None
                and call.lease_until < now
            ]
            self._calls.update((call.id, call) for call in late)
        if late:
            self._changes.changed()
        return late

    async def wait(self, *, timeout: float) -> bool:
        """Sleep until another task may have changed something; True when something did."""
        with self._lock:
            self._enter()
        return await self._changes.wait(timeout)
