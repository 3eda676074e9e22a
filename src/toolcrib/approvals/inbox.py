"""The questions that wait for a person, and the answers."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from toolcrib.approvals.answers import answered, check_answer
from toolcrib.approvals.consult import consult, counted
from toolcrib.approvals.facts import answer_facts, grant_facts, request_facts
from toolcrib.approvals.grants import covers, grant_for
from toolcrib.approvals.waiting import MOST, Waiting
from toolcrib.core.approval import ApprovalRequest, Grant, RequestState
from toolcrib.errors import Denial, NotFound, StoreError, ToolcribError

if TYPE_CHECKING:
    from toolcrib.core.protocols import Approver, Store


_log = logging.getLogger("toolcrib")

Announce = Callable[[str, str | None, dict[str, Any]], None]
"""Puts an event on the trail: type, call id, data."""

_STATES: tuple[str, ...] = get_args(RequestState)


class Backlog(Denial):
    """Too many requests of one principal wait already; nobody is asked."""


class Fate(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one answer of a batch."""

    id: str
    request: ApprovalRequest | None = None
    """The request as answered; None when the answer was not taken."""
    error: str | None = None
    """Why the answer was not taken."""


_Requests = list[ApprovalRequest]
_Grants = list[Grant]
_Fates = list[Fate]


class Inbox:
    """Keeps requests in the store, asks the approver, and lets calls wait for answers.

    Works from any thread and loop. What is pending outlives callers, loops and the process.
    """

    def __init__(
        self,
        store: Store,
        *,
        approver: Approver | None = None,
        announce: Announce,
        clock: Callable[[], float] = time.time,
        new_id: Callable[[], str],
    ) -> None:
        self._store = store
        self._approver = approver
        self._announce = announce
        self._clock = clock
        self._new_id = new_id
        self._waiting = Waiting(store, clock)
        self._lock = threading.Lock()
        self._open: dict[str, str] = {}
        """Key to principal of the requests this process has let in and not seen settled."""
        self._keepers: dict[str, asyncio.Task[None]] = {}
        """By request id: sees the request to its end, also when its caller has gone."""

    async def ask(
        self,
        request: ApprovalRequest,
        *,
        max_pending: int = 20,
        noticed: Callable[[ApprovalRequest], None] | None = None,
    ) -> ApprovalRequest:
        """Ask, and wait until the request is allowed, denied or expired.

        An equal open request takes its place; `noticed` is told which one is waited for. `used` is
        returned when an equal call took the one answer meanwhile. Raises `Backlog`, or
        `StoreError`. Cancelling the wait cancels neither the request nor the approver.
        """
        # Shielded: a caller who leaves now must not leave a request that nobody announced.
        entering = asyncio.ensure_future(self._let_in(request, max_pending))
        kept = await asyncio.shield(entering)
        if noticed is not None:
            noticed(kept)
        return await self._settled(kept)

    async def redeem(self, request: ApprovalRequest, call_id: str) -> bool:
        """Use the answer for this call: true for exactly one call, ever."""
        used = await self._store.redeem_request(
            request.id, key=request.key, call_id=call_id, now=self._clock()
        )
        if used:
            facts = {"request": request.id, "by": request.by, "note": request.note}
            self._announce("approval.used", call_id, facts)
        return used

    async def find_grant(
        self,
        *,
        tool: str,
        digest: str,
        principal: str,
        session: str | None,
        revision: str,
        call_id: str | None = None,
    ) -> Grant | None:
        """A remembered approval that lets this call pass; with a call id its use is announced.

        Reads the store each time: a grant revoked by another process must not be used again.
        """
        now = self._clock()
        for grant in await self._store.grants(live=True):
            if covers(
                grant,
                tool=tool,
                digest=digest,
                principal=principal,
                session=session,
                revision=revision,
                now=now,
            ):
                if call_id is not None:
                    self._announce("grant.used", call_id, grant_facts(grant))
                return grant
        return None

    async def list(self, *, state: RequestState | None = "pending", limit: int = 1000) -> _Requests:
        """Requests in a state (None: in any), those that expire first in front."""
        if state is not None and state not in _STATES:
            raise ValueError(f"there is no state {state!r}; the states are {', '.join(_STATES)}")
        now = self._clock()
        for request in await self._store.requests(state="pending", limit=MOST):
            if request.expires > now:
                break
            await self._expire(request)
        return await self._store.requests(state=state, limit=limit)

    async def get(self, id: str) -> ApprovalRequest:
        """One request. Raises `NotFound`."""
        request = await self._store.get_request(id)
        if request is None:
            raise NotFound(f"there is no approval {id!r}; list what is pending to see the ids")
        if request.state == "pending" and self._clock() >= request.expires:
            await self._expire(request)
            return await self._store.get_request(id) or request
        return request

    async def decide(
        self,
        id: str,
        *,
        allow: bool,
        note: str | None = None,
        reach: str = "once",
        arguments: dict[str, Any] | None = None,
        by: str = "",
        via: str = "host",
    ) -> ApprovalRequest:
        """Answer a pending request. Raises `NotFound`, or ValueError for an answer that does not
        fit: not offered, not permitted, or too late. Then nothing has changed."""
        request = await self.get(id)
        if request.state != "pending":
            raise ValueError(_too_late(request))
        check_answer(request, allow=allow, note=note, reach=reach, arguments=arguments, by=by)
        if via not in request.via:
            raise ValueError(
                f"answers via {via!r} do not count for approval {id!r}; "
                f"the profile's approval.via lists: {', '.join(request.via) or 'nobody'}"
            )
        final = answered(
            request,
            allow=allow,
            note=note,
            reach=reach,
            arguments=arguments,
            by=by,
            now=self._clock(),
        )
        if not await self._record(final, via=via):
            raise ValueError(_too_late(await self.get(id)))
        return final

    async def decide_many(self, ids: Iterable[str], **answer: Any) -> _Fates:
        """Give many requests one answer; each one's fate is told, a bad one stops no other."""
        if isinstance(ids, str):
            raise ValueError("ids must be a list of approval ids, not one text")
        fates: _Fates = []
        for each in ids:
            try:
                fates.append(Fate(id=each, request=await self.decide(each, **answer)))
            except (ToolcribError, ValueError) as error:
                fates.append(Fate(id=each, error=str(error)))
        return fates

    async def grants(self, live: bool = True) -> _Grants:
        """Remembered approvals; `live` leaves out those revoked or expired."""
        now = self._clock()
        kept = await self._store.grants(live=live)
        if not live:
            return kept
        return [g for g in kept if g.revoked is None and (g.expires is None or now < g.expires)]

    async def revoke(self, grant_id: str, by: str = "") -> bool:
        """Take a remembered approval back; False when there is no such live grant."""
        grant = next((g for g in await self._store.grants() if g.id == grant_id), None)
        if grant is None or not await self._store.revoke_grant(grant_id, self._clock()):
            return False
        self._announce("grant.revoked", None, grant_facts(grant) | {"by": by})
        return True

    async def close(self) -> None:
        """Stop asking and watching. What is pending stays pending in the store."""
        with self._lock:
            tasks = {*self._keepers.values(), *self._waiting.watchers()}
        here = asyncio.get_running_loop()
        mine = [task for task in tasks if task.get_loop() is here]
        for task in mine:
            task.cancel()
        for task in tasks.difference(mine):
            with suppress(RuntimeError):  # that loop has been closed, and the task with it
                task.get_loop().call_soon_threadsafe(task.cancel)
        await asyncio.gather(*mine, return_exceptions=True)

    async def _let_in(self, request: ApprovalRequest, max_pending: int) -> ApprovalRequest:
        pending = await self._store.requests(state="pending", limit=MOST)
        now = self._clock()
        known = {r.key for r in pending if r.principal == request.principal and r.expires > now}
        merges = request.key in known
        if not merges and len(known) >= max_pending:
            # A yes that waits to be used is no burden on anybody; it only has to be picked up.
            allowed = await self._store.requests(state="allowed", limit=MOST)
            merges = any(r.key == request.key and r.expires > now for r in allowed)
        with self._lock:
            known.update(k for k, principal in self._open.items() if principal == request.principal)
            full = len(known) >= max_pending or len(pending) >= MOST
            if full and not merges and request.key not in self._open:
                raise Backlog(
                    "approval_backlog",
                    f"{len(known)} approvals of {request.principal!r} wait already; "
                    "answer those first",
                )
            self._open[request.key] = request.principal
        try:
            kept = await self._store.put_request(request)
        except BaseException:
            self._release(request.key)
            raise
        if kept.id == request.id and not merges:
            self._announce("approval.requested", request.call_id, request_facts(request))
        if kept.state == "pending":
            self._keep(kept)
        else:
            self._release(request.key)
        return kept

    def _keep(self, request: ApprovalRequest) -> None:
        with self._lock:
            keeper = self._keepers.get(request.id)
            if keeper is None or keeper.get_loop().is_closed():
                loop = asyncio.get_running_loop()
                self._keepers[request.id] = loop.create_task(self._keeper(request))

    async def _keeper(self, request: ApprovalRequest) -> None:
        try:
            settled = asyncio.ensure_future(self._settled(request))
            try:
                await self._consult(request, settled)
                await settled
            finally:
                settled.cancel()
                await asyncio.gather(settled, return_exceptions=True)
        except Exception:
            # The request stays pending; callers who wait for it look for themselves.
            _log.exception("approval %s is no longer followed here", request.id)
        finally:
            self._release(request.key)
            with self._lock:
                if self._keepers.get(request.id) is asyncio.current_task():
                    del self._keepers[request.id]

    async def _consult(
        self, request: ApprovalRequest, settled: asyncio.Future[ApprovalRequest]
    ) -> None:
        """Put the question to the approver, and record its answer unless another came first."""
        via = counted(self._approver, request)
        if self._approver is None or not via:
            return
        decision, fault = await consult(self._approver, request, settled)
        if decision is None or decision.answer == "escalate":
            return
        final = answered(
            request,
            allow=decision.answer == "allow",
            note=decision.note,
            reach=decision.reach,
            arguments=decision.arguments,
            by=decision.by or "approver",
            now=self._clock(),
        )
        await self._record(final, via=via[0] if len(via) == 1 else None, fault=fault)

    async def _settled(self, request: ApprovalRequest) -> ApprovalRequest:
        with self._waiting.on(request.id) as changed:
            while True:
                changed.clear()
                current = await self._store.get_request(request.id)
                if current is None:
                    raise StoreError(f"the store has lost approval {request.id!r}")
                if current.state != "pending":
                    self._release(current.key)
                    return current
                if self._clock() >= current.expires:
                    if not await self._expire(current):
                        # Somebody else answered or expired it just now, or the store's clock
                        # does not agree yet; never spin on either.
                        await asyncio.sleep(0.01)
                    continue
                await self._waiting.pause(changed, current.expires)

    async def _expire(self, request: ApprovalRequest) -> bool:
        now = self._clock()
        if not await self._store.expire_request(request.id, now):
            return False
        expired = msgspec.structs.replace(request, state="expired", decided=now)
        try:
            self._announce("approval.decided", request.call_id, answer_facts(expired))
        finally:
            self._release(request.key)
            self._waiting.wake(request.id)
        return True

    async def _record(
        self, final: ApprovalRequest, *, via: str | None, fault: str | None = None
    ) -> bool:
        """Put the answer into the store; False when another answer or the clock was first."""
        now = self._clock()
        grant = grant_for(final, id=self._new_id(), now=now) if final.state == "allowed" else None
        if not await self._store.answer_request(final, grant=grant):
            return False
        facts = answer_facts(final) | {"via": via} | ({} if fault is None else {"fault": fault})
        try:
            self._announce("approval.decided", final.call_id, facts)
            if grant is not None:
                self._announce("grant.created", final.call_id, grant_facts(grant))
        finally:
            self._release(final.key)
            self._waiting.wake(final.id)
        return True

    def _release(self, key: str) -> None:
        with self._lock:
            self._open.pop(key, None)


def _too_late(request: ApprovalRequest) -> str:
    if request.state == "expired":
        return f"approval {request.id!r} has expired; the caller may ask again"
    by = f" by {request.by!r}" if request.by else ""
    return f"approval {request.id!r} is {request.state}{by} already; an answer stands"
