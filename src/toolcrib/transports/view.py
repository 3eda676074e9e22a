"""One viewer's share of the events."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from toolcrib.core.events import Event
from toolcrib.errors import NotFound, StoreError
from toolcrib.host.history import History
from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault
from toolcrib.transports.replay import Replay, Seen, encoded
from toolcrib.transports.viewing import Sight, in_flight

if TYPE_CHECKING:
    from toolcrib.transports.events import Hub

DROPPED = "viewer.dropped"
"""The last thing that a viewer gets who is sent away. It is told to that viewer only and stands on
no trail, so it is not among the events."""
BEAT = Seen("", "", b"")
"""A sign of life, for viewers that asked for one."""
_CURE = "leave it away to see what happens from now on, or give an empty one for all that is kept"
_WORDS = {
    "slow_reader": "more happened than this viewer took; resume behind the last event",
    "host_stopping": "the host is shutting down",
    "audit_unavailable": "the trail cannot be read now; resume behind the last event",
    "unauthenticated": "the credentials of this viewer do not hold any more",
    "not_permitted": "this viewer lost the right to look at this call",
}


class Item(msgspec.Struct, frozen=True):
    """One live event, for all viewers who see it in this form."""

    id: str
    type: str
    data: bytes
    own: bool
    """Whether it is of this host's run."""
    place: tuple[int, int]
    """Its number in the run and in its record."""
    position: int
    """Of its block, for one of another writer; else up to which block those were told."""


class View:
    """An async iterator of what one caller may see. Use it with `async with`, or `close` it.

    When the viewer is sent away, the last one is of the type `viewer.dropped`. Made by `Hub.view`.
    """

    __slots__ = (
        "_after", "_behind", "_closed", "_cursor", "_finished", "_floor", "_hub", "_missed",
        "_opened", "_own", "_own_id", "_queue", "_ready", "_reason", "_replay", "_told", "_waiter",
        "approve", "audit", "beat", "beats", "call_id", "caller", "over", "place", "sent_away",
        "types",
    )  # fmt: skip

    def __init__(
        self,
        hub: Hub,
        caller: Caller,
        types: frozenset[str] | None,
        call_id: str | None,
        after: str | None,
        beats: float | None,
    ) -> None:
        self.caller = caller
        self.types = types
        self.call_id = call_id
        self.audit = caller.may("audit")
        self.approve = caller.may("approve")
        self.beats = beats
        """Seconds between signs of life."""
        self.beat = False
        self.over = False
        """Whether there is nothing to see, now or later: the one call has ended, and its last event
        was seen before."""
        self.place: str | None = None
        """Where it begins, from `open` on: whoever is cut off before the first event resumes here.
        None when it was said before where to begin, or at the beginning of one call."""
        self.sent_away: Callable[[], None] | None = None
        """Told when the viewer is sent away: from then on it should hurry."""
        self._hub = hub
        self._after = after
        self._opened = self._closed = self._finished = self._missed = False
        self._reason: str | None = None
        self._queue: deque[Item] = deque()
        self._ready: deque[Seen] = deque()
        self._replay: Replay | None = None
        self._behind = after is not None or call_id is not None
        """Whether the trail has to be read before the queue."""
        self._own, self._floor = (0, 0), hub.position
        """Live events up to here were in the replay already, or before this viewer came."""
        self._own_id, self._told = "" if self._behind else hub.reached, (0, "0")
        """How far this viewer is: in this host's run, and in those of the others."""
        self._cursor: str | None = None
        self._waiter: asyncio.Future[None] | None = None

    # What the hub calls.

    def put(self, item: Item, most: int) -> bool:
        """Hand over an event; False when there is no room left. Never waits."""
        queue = self._queue
        if len(queue) >= most:
            if not self._behind:
                return False
            self._missed = True  # it will be read from the trail, as what came before it
            queue.clear()
            return True
        queue.append(item)
        self.wake()
        return True

    def finish(self) -> None:
        """Nothing more comes: the one call has ended."""
        self._finished = True
        self.wake()

    def drop(self, reason: str) -> None:
        """Send the viewer away, after what waits for it."""
        if self._reason is None and self.sent_away is not None:
            self.sent_away()
        self._reason = self._reason or reason
        if reason in ("unauthenticated", "not_permitted"):
            self._queue.clear()
            self._ready.clear()
        self.wake()

    def wake(self) -> None:
        """Have the reader look again."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # What the reader calls.

    async def open(self) -> None:
        """Find the place to begin at. Raises `Fault` when there is none; the first event does the
        same by itself."""
        if self._opened or self._reason is not None:
            return
        self._opened = True
        try:
            await self._begin()
        except NotFound as error:
            self.close()
            raise Fault("not_found", f"after: {error}; {_CURE}") from None
        except StoreError as error:
            self.close()
            raise Fault("audit_unavailable", str(error)) from None
        except BaseException:
            self.close()
            raise

    async def _begin(self) -> None:
        hub, call_id, after = self._hub, self.call_id, self._after or ""
        parts = await hub.ready()
        self._floor = max(self._floor, hub.begun)
        if not self._behind:
            self._told = self._floor, str(self._floor)
            self.place = f"{self._own_id}@{self._told[1]}" if hub.shared else self._own_id
            self._cursor = self.place
            return
        flight = None if call_id is None else in_flight(parts.pipeline, call_id)
        await parts.store.flush()
        replay = Replay(
            parts.store,
            parts.trail.run,
            Sight(hub.host, parts, hub.sight),
            self._form_of,
            principal=None if self.audit else self.caller.principal.name,
        )
        await replay.begin(after)
        if call_id is not None:
            place = None
            if flight is None or flight.opened:
                place = await History(parts.store).find_call(call_id)
            owner = place.principal if flight is None and place else None
            owner = flight.principal.name if flight is not None else owner
            if (flight is None and place is None) or not (
                self.audit or owner == self.caller.principal.name
            ):
                raise Fault("not_found", f"call_id: there is no call {call_id[:100]!r}")
            self.over = not replay.only(call_id, place)
            self._finished = self.over
            self._behind = place is not None and not self.over
        self._replay = replay if self._behind else None

    def _form_of(self, event: Event, sight: Sight) -> Event | None:
        form = sight.look(event).form_for(event, self.caller)
        return form if form is None or self.wants(form.type) else None

    def wants(self, kind: str) -> bool:
        """Whether events of a type are looked at here."""
        return self.types is None or kind in self.types

    def __aiter__(self) -> View:
        return self

    async def __anext__(self) -> Seen:
        await self.open()
        while True:
            if self._closed:
                raise StopAsyncIteration
            seen = self.take()
            if seen is not None:
                return seen
            if self._reason is not None:
                self.close()
                return self._mark(self._reason)
            if self._replay is not None:
                await self._read_on(self._replay)
            elif self._finished:
                self.close()
            elif self.beat:
                self.beat = False
                return BEAT
            else:
                await self._wait()

    def take(self) -> Seen | None:
        """What is there at once, if anything."""
        if self._closed:
            return None
        if self._ready:
            seen = self._ready.popleft()
            self._cursor = seen.id
            return seen
        while self._queue and not self._behind:
            item = self._queue.popleft()
            if not item.id:
                return Seen("", item.type, item.data)
            if item.own:
                if item.place <= self._own:
                    continue
                self._own_id = item.id
                reached = max(self._floor, item.position)
                if reached >= self._told[0]:
                    self._told = reached, str(reached)
            elif item.position <= self._floor:
                continue
            else:
                self._told = item.position, item.id
            self._cursor = f"{self._own_id}@{self._told[1]}" if self._hub.shared else item.id
            return Seen(self._cursor, item.type, item.data)
        return None

    async def _read_on(self, replay: Replay) -> None:
        parts = await self._hub.ready()
        try:
            found = await replay.more()
            if found is not None:
                self._ready.extend(found)
                return
            if self._missed:
                self._missed = False
                await parts.store.flush()
                return
        except StoreError:
            self.drop("host_stopping" if parts.pipeline.stopping else "audit_unavailable")
            return
        # From here on without a pause: what happens next is in the queue.
        self._replay, self._behind = None, False
        self._own, self._own_id = replay.own_place, replay.own
        self._floor = max(self._floor, replay.position)
        self._finished = self._finished or replay.ended

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _mark(self, reason: str) -> Seen:
        data = {"reason": reason, "message": _WORDS[reason], "resume": self._cursor or None}
        event = Event(id="", type=DROPPED, time=time.time(), call_id=self.call_id, data=data)
        return Seen(self._cursor or "", DROPPED, encoded(event))

    def close(self) -> None:
        """Look no more. Calling it again does nothing."""
        if not self._closed:
            self._closed = True
            self._queue.clear()
            self._ready.clear()
            self._hub.leave(self)
            self.wake()

    async def __aenter__(self) -> View:
        await self.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()
