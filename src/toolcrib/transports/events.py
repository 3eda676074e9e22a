"""Live events: one hub carries them to every viewer, and delays no call.

The host is listened to only while somebody looks. Each event is looked at and encoded once; a
viewer who does not keep up is sent away with the place to resume at.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from toolcrib.core.events import Event
from toolcrib.core.serving import HttpSettings
from toolcrib.transports.caller import Caller
from toolcrib.transports.crowd import Crowd, Heart
from toolcrib.transports.faults import Fault
from toolcrib.transports.order import InOrder, Place
from toolcrib.transports.others import Others
from toolcrib.transports.replay import Seen, encoded
from toolcrib.transports.view import BEAT, DROPPED, Item, View
from toolcrib.transports.viewing import ENDINGS, Sight, chosen_types

if TYPE_CHECKING:
    from toolcrib.host.host import ToolHost
    from toolcrib.host.parts import Parts

__all__ = ["BEAT", "DROPPED", "Hub", "Seen", "View"]

_log = logging.getLogger("toolcrib")
_MOST_WAITING = 100_000
"""Events that wait until the hub's loop comes to them; only a loop that hangs lets them."""


class Hub:
    """Where viewers meet the events of one host. Belongs to the loop that `start` ran on."""

    def __init__(
        self, host: ToolHost, *, queue: int = 1000, viewers: int = 4096, per_principal: int = 64
    ) -> None:
        self.host = host
        self.sight: Sight
        """Knows whose the calls are; there from `start` on."""
        self.shared = False
        """Whether other processes may write to the same store."""
        self._queue = queue
        self._most = viewers
        self._most_each = per_principal
        self._parts: Parts | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._crowd = Crowd()
        self._hearts: dict[float, Heart] = {}
        self._waiting: deque[Event] = deque()
        self._scheduled = self._overrun = self._stopped = False
        self._order = InOrder()
        self._unheard: Callable[[], None] | None = None
        self._others: Others | None = None

    def renew(self, http: HttpSettings) -> None:
        """Go by these limits from now on; who looks on already is not sent away by them."""
        self._queue, self._most = http.queue, http.viewers
        self._most_each = http.viewers_per_principal

    def __len__(self) -> int:
        """How many look on."""
        return len(self._crowd)

    async def start(self) -> None:
        """Be ready for viewers. Starts the host if need be."""
        self.begin(await self.host.start())

    def begin(self, parts: Parts) -> None:
        """Be ready for viewers of a host that runs, on this loop."""
        self.shared = parts.store.durable
        self.sight = Sight(self.host, parts)
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._parts = parts

    async def stop(self) -> None:
        """Tell what is still to be told, and send everybody away."""
        self._flush()
        for place, event in self._order.released(given_up=True):
            self._tell_own(event, place)
        self._stopped = True
        others = self._others
        for view in self._crowd.all():
            view.drop("host_stopping")
            self.leave(view)
        if others is not None:
            await asyncio.wait({others.stop()})

    def view(
        self,
        caller: Caller,
        *,
        types: Sequence[str] | None = None,
        call_id: str | None = None,
        after: str | None = None,
        heartbeat: float | None = None,
    ) -> View:
        """What `caller` may see, from now on; with `after`, from that place of the trail on (an
        event's id or what `Seen.id` said; empty for its beginning). For one call, all of it, until
        it ends. With `heartbeat`, `BEAT` comes after so many seconds of silence. Raises `Fault`."""
        loop = self._loop
        if self._stopped or loop is None:
            raise Fault("host_stopping")
        chosen = chosen_types(types)
        if len(self._crowd) >= self._most:
            raise Fault("too_many_viewers", f"{self._most} event streams are open already")
        who = caller.principal.name
        if self._crowd.count(who) >= self._most_each:
            text = f"{who} has {self._most_each} event streams open already; close one"
            raise Fault("too_many_viewers", text)
        view = View(self, caller, chosen, call_id, after, heartbeat)
        if self._unheard is None:
            self._listen()
        self._crowd.add(view)
        if heartbeat is not None:
            if heartbeat not in self._hearts:
                self._hearts[heartbeat] = Heart(heartbeat)
            self._hearts[heartbeat].add(view)
        return view

    def leave(self, view: View) -> None:
        """Tell a view nothing more. With the last one, the host is not listened to any more."""
        self._crowd.discard(view)
        if view.beats in self._hearts:
            self._hearts[view.beats].discard(view)
        if not self._crowd and self._unheard is not None:
            self._unheard()
            self._unheard = None
            self._waiting.clear()
            if self._others is not None:
                self._others.stop()
                self._others = None

    async def ready(self) -> Parts:
        """The host's parts, as soon as nothing that happens from now on is missed."""
        if self._parts is None:
            raise Fault("host_stopping")
        if self._others is not None:
            await asyncio.shield(self._others.ready)
        return self._parts

    @property
    def begun(self) -> int:
        """The block of the store behind which other writers' events are told."""
        return 0 if self._others is None else self._others.begun

    @property
    def position(self) -> int:
        """The block of the store up to which other writers' events were told."""
        return 0 if self._others is None else self._others.position

    @property
    def reached(self) -> str:
        """The newest record of this host's run, as a place to resume at."""
        if self._parts is None:
            return ""
        trail = self._parts.trail
        return f"{trail.run}.{trail.numbered}"

    # Listening.

    def _listen(self) -> None:
        self._order = InOrder()
        self._unheard = self.host.bus.on_event(self._heard)
        if self.shared and self._parts is not None:
            self._others = Others(self._parts, self._tell_other)

    def _heard(self, event: Event) -> None:
        """An event was published, in whatever thread; it is told in the next turn of the loop."""
        if len(self._waiting) >= _MOST_WAITING:
            self._overrun = True
            return
        self._waiting.append(event)
        loop = self._loop
        if self._scheduled or loop is None:
            return
        self._scheduled = True
        if threading.get_ident() == self._thread:
            loop.call_soon(self._flush)
        elif not loop.is_closed():
            loop.call_soon_threadsafe(self._flush)

    def _flush(self) -> None:
        # Before the events are taken: whoever puts one there later schedules again.
        self._scheduled = False
        waiting = self._waiting
        fresh = [waiting.popleft() for _ in range(len(waiting))]
        for place, event in self._order.sorted(fresh):
            self._tell_own(event, place)
        if self._order.held and self._loop is not None and not self._scheduled:
            self._scheduled = True
            self._loop.call_later(self._order.pause, self._flush)
        if self._overrun:
            self._overrun = False
            self._send_away(self._crowd.all())

    def _tell_own(self, event: Event, place: Place) -> None:
        self._tell(event, True, place, self.position)

    def _tell_other(self, event: Event, place: Place, position: int) -> None:
        self._tell(event, False, place, position)

    def _tell(self, event: Event, own: bool, place: Place, position: int) -> None:
        try:
            look = self.sight.look(event)
            whole: Item | None = None
            shown: Item | None = None
            slow: list[View] = []
            for view, all_of_it in self._crowd.who(event, look):
                form = event if all_of_it else look.shown
                if view.wants(form.type):
                    if form is event:
                        item = whole = whole or _item(form, own, place, position)
                    else:
                        item = shown = shown or _item(form, own, place, position)
                    if view.caller.badge.over or not view.put(item, self._queue):
                        slow.append(view)
                if view.call_id is not None and event.type in ENDINGS:
                    view.finish()
            if slow:
                self._send_away(slow)
            if event.type == "config.loaded":
                for view in self._crowd.renew(self.host.callers.current):
                    view.drop("not_permitted")
                    self.leave(view)
        except Exception:
            _log.exception("an event of type %s could not be told to its viewers", event.type)

    def _send_away(self, views: Sequence[View]) -> None:
        for view in views:
            view.drop("unauthenticated" if view.caller.badge.over else "slow_reader")
            self.leave(view)


def _item(event: Event, own: bool, place: Place, position: int) -> Item:
    return Item(event.id, event.type, encoded(event), own, place, position)
