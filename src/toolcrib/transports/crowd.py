"""Everybody who looks on, found by what may be shown to them."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from toolcrib.core.events import Event
from toolcrib.core.principal import Principal
from toolcrib.transports.viewing import APPROVALS, Look

if TYPE_CHECKING:
    from toolcrib.transports.view import View

_SPREAD = 20
"""In how many parts viewers get their signs of life: not all of them in one moment."""
_SHORTEST = 0.25
"""Seconds between two parts at least."""


class Crowd:
    """Views, so kept that an event costs only those who may see it."""

    def __init__(self) -> None:
        self._views: set[View] = set()
        self._auditors: set[View] = set()
        self._others: set[View] = set()
        self._approvers: set[View] = set()
        self._by_principal: dict[str, set[View]] = {}
        self._by_call: dict[str, set[View]] = {}
        self._counts: Counter[str] = Counter()
        """How many views each principal has, of whatever kind."""

    def __len__(self) -> int:
        return len(self._views)

    def count(self, principal: str) -> int:
        """How many of them are one principal's."""
        return self._counts[principal]

    def all(self) -> list[View]:
        """Everybody."""
        return list(self._views)

    def add(self, view: View) -> None:
        """Somebody comes."""
        self._views.add(view)
        self._counts[view.caller.principal.name] += 1
        if view.call_id is not None:
            self._by_call.setdefault(view.call_id, set()).add(view)
        elif view.audit:
            self._auditors.add(view)
        else:
            self._others.add(view)
            name = view.caller.principal.name
            self._by_principal.setdefault(name, set()).add(view)
            if view.approve:
                self._approvers.add(view)

    def discard(self, view: View) -> None:
        """Somebody leaves."""
        if view in self._views:
            name = view.caller.principal.name
            self._counts[name] -= 1
            if not self._counts[name]:
                del self._counts[name]
        for views in (self._views, self._auditors, self._others, self._approvers):
            views.discard(view)
        _take_out(self._by_principal, view.caller.principal.name, view)
        if view.call_id is not None:
            _take_out(self._by_call, view.call_id, view)

    def who(self, event: Event, look: Look) -> Iterator[tuple[View, bool]]:
        """Who may see an event, and whether as it stands on the trail."""
        for view in self._auditors:
            yield view, True
        if look.everybody:
            for view in self._others:
                yield view, False
        else:
            if look.owner is not None:
                for view in self._by_principal.get(look.owner, ()):
                    yield view, False
            if event.type in APPROVALS:
                for view in self._approvers:
                    if view.caller.principal.name != look.owner:
                        yield view, False
        if event.call_id is not None:
            for view in self._by_call.get(event.call_id, ()):
                if view.audit or look.owner == view.caller.principal.name:
                    yield view, view.audit

    def renew(self, current: Callable[[Principal], Principal]) -> list[View]:
        """Hold everybody against a changed configuration: it says who has which rights. Gives those
        who may not look at what they look at."""
        lost: list[View] = []
        for view in self.all():
            self.discard(view)
            view.caller.principal = current(view.caller.principal)
            before, view.audit = view.audit, view.caller.may("audit")
            view.approve = view.caller.may("approve")
            self.add(view)
            if before and not view.audit and view.call_id is not None:
                lost.append(view)
        return lost


def _take_out(kept: dict[str, set[View]], key: str, view: View) -> None:
    views = kept.get(key)
    if views is not None:
        views.discard(view)
        if not views:
            del kept[key]


class Heart:
    """One timer that gives all viewers their signs of life, a part of them at a time."""

    def __init__(self, seconds: float) -> None:
        self._parts: list[set[View]] = [
            set() for _ in range(max(1, min(_SPREAD, int(seconds / _SHORTEST))))
        ]
        self._pause = seconds / len(self._parts)
        self._turn = itertools.cycle(self._parts)
        self._next = itertools.cycle(self._parts)
        self._timer: asyncio.TimerHandle | None = None

    def add(self, view: View) -> None:
        """Give signs of life to one more."""
        next(self._next).add(view)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._pause, self._beat)

    def discard(self, view: View) -> None:
        """One less."""
        for part in self._parts:
            part.discard(view)
        if self._timer is not None and not any(self._parts):
            self._timer.cancel()
            self._timer = None

    def _beat(self) -> None:
        for view in list(next(self._turn)):
            view.beat = True
            if view.caller.badge.over:
                view.drop("unauthenticated")
            view.wake()
        self._timer = asyncio.get_running_loop().call_later(self._pause, self._beat)
