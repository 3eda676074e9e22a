"""The store in one SQLite file."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from toolcrib.core.approval import ApprovalRequest, Grant, RequestState
from toolcrib.core.chain import Block
from toolcrib.core.ledger import LedgerCall, SessionRow
from toolcrib.errors import StoreError
from toolcrib.stores import calls, tables
from toolcrib.stores.changes import Changes
from toolcrib.stores.sqlite_reader import Reader
from toolcrib.stores.sqlite_thread import Work, Writer
from toolcrib.stores.transitions import check_answer, check_ending, check_move

if TYPE_CHECKING:
    from toolcrib.core.protocols import TrailSource


T = TypeVar("T")


class SqliteStore:
    """Keeps everything in one file; several processes may use it at the same time.

    Write-ahead log, synced at every commit. Nothing is opened or started before `open()`.
    """

    name = "sqlite"
    durable = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        busy_timeout: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = Path(path).absolute()
        self._clock = clock
        self._changes = Changes()
        self._writer = Writer(self.path, busy_timeout, self._changes)
        self._reader = Reader(self.path, busy_timeout)

    def attach(self, trail: TrailSource) -> None:
        """Take records from `trail` with every transaction."""
        if trail not in self._writer.trails:
            self._writer.trails = (*self._writer.trails, trail)

    def poke(self, *, now: bool) -> None:
        """Have a transaction carry the waiting records: at once, or within 50 ms."""
        self._writer.poke(now)

    async def open(self) -> None:
        """Make or open the file, bring its tables up to date and start the writing thread."""
        try:
            await asyncio.shield(asyncio.wrap_future(self._writer.start()))
        except StoreError:
            self._writer.stop()
            raise
        self._reader.start()

    async def close(self) -> None:
        """Write the records that wait and close the file."""
        await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        self._reader.stop()
        self._writer.stop()

    async def _read(self, work: Work[T]) -> T:
        self._changes.seen()
        return await self._reader.submit(work)

    async def blocks(
        self, *, after: int = 0, limit: int = 100, run: str | None = None
    ) -> list[tuple[int, Block]]:
        """Blocks in writing order with their positions, beginning behind position `after`."""
        return await self._read(lambda db: tables.blocks(db, after=after, limit=limit, run=run))

    async def runs(self) -> list[str]:
        """The writers' runs, oldest first."""
        return await self._read(tables.runs)

    async def put_request(self, request: ApprovalRequest) -> ApprovalRequest:
        """Keep a new request; when an unanswered or unused one has the same key, give that one."""
        return await self._writer.submit(lambda db: tables.put_request(db, request), wakes=True)

    async def get_request(self, id: str) -> ApprovalRequest | None:
        """The request `id`."""
        return await self._read(lambda db: tables.get_request(db, id))

    async def requests(
        self, *, state: RequestState | None = None, limit: int = 1000
    ) -> list[ApprovalRequest]:
        """Requests, those that expire first in front."""
        return await self._read(lambda db: tables.requests(db, state=state, limit=limit))

    async def answer_request(self, request: ApprovalRequest, *, grant: Grant | None = None) -> bool:
        """Replace a pending, unexpired request by its answered form, and keep the grant with it."""
        check_answer(request)
        return await self._writer.submit(
            lambda db: tables.answer_request(db, request, grant), wakes=True
        )

    async def redeem_request(self, id: str, *, key: str, call_id: str, now: float) -> bool:
        """Use an allowed request for one call: true for exactly one caller, ever."""
        return await self._writer.submit(
            lambda db: tables.redeem_request(db, id, key=key, call_id=call_id, now=now),
            wakes=True,
        )

    async def expire_request(self, id: str, now: float) -> bool:
        """Mark a pending request whose time is over as expired."""
        return await self._writer.submit(lambda db: tables.expire_request(db, id, now), wakes=True)

    async def flush(self) -> None:
        """Have the waiting records written, and wait for it."""
        await self._writer.submit(lambda db: None)

    async def put_grant(self, grant: Grant) -> None:
        """Keep a new grant."""
        await self._writer.submit(lambda db: tables.put_grant(db, grant), wakes=True)

    async def grants(self, *, live: bool = True) -> list[Grant]:
        """Grants, oldest first; `live` ones are neither revoked nor expired."""
        live_at = self._clock() if live else None
        return await self._read(lambda db: tables.grants(db, live_at=live_at))

    async def revoke_grant(self, id: str, now: float) -> bool:
        """Take a grant back."""
        return await self._writer.submit(lambda db: tables.revoke_grant(db, id, now), wakes=True)

    async def put_session(self, session: SessionRow) -> None:
        """Keep a session, in place of an older form of it."""
        await self._writer.submit(lambda db: tables.put_session(db, session))

    async def end_session(self, id: str, now: float) -> bool:
        """Mark an open session as ended."""
        return await self._writer.submit(lambda db: tables.end_session(db, id, now))

    async def sessions(self, *, open_only: bool = True) -> list[SessionRow]:
        """Sessions, oldest first."""
        return await self._read(lambda db: tables.sessions(db, open_only=open_only))

    async def put_call(self, call: LedgerCall) -> bool:
        """Enter a durable call; False when the idempotency key or id is known already."""
        return await self._writer.submit(lambda db: calls.put(db, call), wakes=True)

    async def get_call(self, id: str) -> LedgerCall | None:
        """The durable call `id`."""
        return await self._read(lambda db: calls.get(db, id))

    async def calls(self, *, state: str | None = None, limit: int = 100) -> list[LedgerCall]:
        """Durable calls, oldest first."""
        return await self._read(lambda db: calls.find(db, state=state, limit=limit))

    async def claim_call(self, id: str, *, lease_until: float, now: float) -> int | None:
        """Take a ready call to run it; the fence to finish it with, or None when it is taken."""
        return await self._writer.submit(
            lambda db: calls.claim(db, id, lease_until=lease_until, now=now), wakes=True
        )

    async def renew_call(self, id: str, *, fence: int, lease_until: float) -> bool:
        """Prolong the newest claim of a call."""
        return await self._writer.submit(
            lambda db: calls.renew(db, id, fence=fence, lease_until=lease_until)
        )

    async def finish_call(
        self, id: str, *, fence: int, state: str, result: bytes | None, now: float
    ) -> bool:
        """End a call; False when the fence is not the newest."""
        check_ending(state)
        return await self._writer.submit(
            lambda db: calls.finish(db, id, fence=fence, state=state, result=result, now=now),
            wakes=True,
        )

    async def move_call(self, id: str, *, old: str, new: str, now: float) -> bool:
        """Change the state of a call that is in `old`."""
        check_move(old, new)
        return await self._writer.submit(
            lambda db: calls.move(db, id, old=old, new=new, now=now), wakes=True
        )

    async def sweep_calls(self, now: float) -> list[LedgerCall]:
        """Put calls whose lease ran out where their delivery says: ready or outcome_unknown."""
        return await self._writer.submit(lambda db: calls.sweep(db, now), wakes=True)

    async def wait(self, *, timeout: float) -> bool:
        """Sleep until another writer may have changed something; True when something did."""
        return await self._writer.wait(timeout)
