"""Tools found by words: among all that a caller may call, and no others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from time import monotonic
from typing import TYPE_CHECKING

from toolcrib.core.policy import NoPolicy
from toolcrib.core.principal import Principal
from toolcrib.core.profile import Profile
from toolcrib.errors import NotFound
from toolcrib.host.tool import Tool
from toolcrib.pipeline.gates import may_reach

if TYPE_CHECKING:
    from toolcrib.catalog.catalog import Change
    from toolcrib.catalog.index import Index
    from toolcrib.catalog.ranking import Seen
    from toolcrib.core.entry import Entry
    from toolcrib.host.host import ToolHost
    from toolcrib.host.session import Session

_SLICE = 0.002
"""Seconds of work on the index before others have their turn."""
_MOST_SIGHTS = 64
_STEP = 64


class Sight:
    """Which tools of the index callers of one standing may know of, learnt step by step."""

    def __init__(self, reaches: Callable[[str], bool]) -> None:
        from toolcrib.catalog.ranking import Seen

        self.stale: set[int] = set()
        """Numbers whose tools have changed since they were looked at."""
        self._reaches = reaches
        self._row = bytearray()
        self._seen = Seen(bytearray())

    def learn(self, index: Index) -> bool:
        """Look at some tools that were not looked at yet; whether there were any."""
        row = self._row
        some = index.names[len(row) : len(row) + _STEP]
        row += bytes(name is not None and self._reaches(name) for name in some)
        return bool(some)

    def seen(self, index: Index) -> Seen:
        """What is seen now."""
        from toolcrib.catalog.ranking import Seen

        while self.learn(index):
            pass
        changed = len(self._seen.row) != len(self._row)
        while self.stale:
            number = self.stale.pop()
            name = index.names[number]
            now = name is not None and self._reaches(name)
            changed = changed or self._row[number] != now
            self._row[number] = now
        if changed:
            self._seen = Seen(bytearray(self._row))
        return self._seen


class Finding:
    """The index of a host's catalog. It is made with the first search and follows every change."""

    def __init__(self, host: ToolHost) -> None:
        self._host = host
        self._lock = threading.RLock()
        self._index: Index | None = None
        self._growing: Index | None = None
        self._changed: set[str] = set()
        self._sights: dict[tuple[object, ...], tuple[Profile | None, Sight]] = {}

    def note(self, change: Change) -> None:
        """A tool was added, replaced or removed."""
        if self._index is not None or self._growing is not None:
            self._changed.add(change.name)

    def find(
        self,
        query: str,
        limit: int,
        *,
        principal: Principal | str | None = None,
        profile: str | None = None,
        session: Session | str | None = None,
    ) -> list[tuple[float, Tool]]:
        """The tools that the caller may call and that fit the words, the best first, each with its
        score. Raises ValueError for a query without words, NotFound for a session that is none."""
        from toolcrib.catalog.ranking import ranked
        from toolcrib.catalog.words import query_words

        words = query_words(query)
        who, name, held = self._resolved(principal, profile, session)
        if who is None:
            return []
        rules = self._host.callers.profile(name)
        gated = bool(self._host.planner.gates)
        found: list[tuple[float, Tool]] = []
        with self._lock:
            index = self._current()
            seen, extras = self._view(index, who, rules, held)
            # What gates hide is known only when it comes up: it must not be counted before.
            for score, tool in ranked(index, words, seen, extras, counted=not gated):
                if len(found) == limit:
                    break
                if gated and self._hidden(tool, who, rules):
                    continue
                plan = self._host.calling.plan(tool, name, held)
                if plan is None or not plan.listed(who):
                    continue
                down = None if plan.outage is None else plan.outage.message
                bound = Tool(
                    plan.spec,
                    self._host,
                    principal=who,
                    profile=name,
                    session=held,
                    unavailable=down,
                )
                found.append((score, bound))
        return found

    def reachable(
        self, who: Principal, rules: Profile | None, session: Session | None
    ) -> Iterator[str]:
        """The names of the tools that the caller may call, gates apart, in order."""
        own = set[str]() if session is None else set(session.entries)
        for name in sorted({*self._host.catalog.snapshot(), *own}):
            if name in own or self._reaches(name, who, rules):
                yield name

    async def ready(
        self,
        *,
        principal: Principal | str | None = None,
        profile: str | None = None,
        session: Session | str | None = None,
    ) -> None:
        """Have the index made, and what the caller sees of it; others have their turn meanwhile."""
        while self._index is None:
            if self._growing is not None:
                await asyncio.sleep(_SLICE)
                continue
            await _in_slices(self._grow())
        try:
            who, name, _ = self._resolved(principal, profile, session)
        except NotFound:
            return
        if who is not None:
            await _in_slices(self._learn(who, self._host.callers.profile(name)))

    # The index.

    def _grow(self) -> Iterator[None]:
        from toolcrib.catalog.index import Index

        self._growing = index = Index()
        try:
            entries = self._host.catalog.snapshot()
            for name in sorted(entries):
                index.put(entries[name].spec)
                yield
            yield from index.warm()
            with self._lock:
                self._index = self._index or index
        finally:
            self._growing = None

    def _learn(self, who: Principal, rules: Profile | None) -> Iterator[None]:
        more = True
        while more:
            with self._lock:
                more = self._sight(who, rules).learn(self._current())
            yield

    def _current(self) -> Index:
        """The index as the catalog is now."""
        while (index := self._index) is None:
            for _ in self._grow():
                pass
        while self._changed:
            name = self._changed.pop()
            entry = self._host.catalog.get(name)
            number = index.numbers.get(name)
            if entry is None or entry.name != name:
                index.drop(name)
            else:
                index.put(entry.spec)
            if number is not None:
                for _, sight in self._sights.values():
                    sight.stale.add(number)
        if index.untidy():
            self._index = index = index.tidy()
            self._sights.clear()
        return index

    # What a caller sees of it.

    def _resolved(
        self,
        principal: Principal | str | None,
        profile: str | None,
        session: Session | str | None,
    ) -> tuple[Principal | None, str | None, Session | None]:
        self._host.load()
        who, name, held, problem, reason = self._host.callers.resolve(principal, profile, session)
        if problem is None:
            return who, name, held
        if reason == "unauthenticated":
            raise NotFound(problem)
        return None, name, held  # who cannot be held to the profile can call nothing under it

    def _view(
        self, index: Index, who: Principal, rules: Profile | None, session: Session | None
    ) -> tuple[Seen, dict[str, dict[str, int]]]:
        """What the caller sees of the index, and what it sees beside it: a session's own tools,
        and other versions than the newest."""
        from toolcrib.catalog.ranking import Seen
        from toolcrib.catalog.words import weights

        seen = self._sight(who, rules).seen(index)
        own = set[str]() if session is None else set(session.entries)
        versions = set(rules.versions) if rules is not None else set[str]()
        if not own and not versions:
            return seen, {}
        extras: dict[str, dict[str, int]] = {}
        row = bytearray(seen.row)
        for name in own | versions:
            if (number := index.numbers.get(name)) is not None:
                row[number] = 0
            plan = self._host.calling.plan(name, rules.name if rules else None, session)
            if plan is not None and plan.listed(who):
                extras[name] = weights(plan.spec)
        return Seen(row), extras

    def _sight(self, who: Principal, rules: Profile | None) -> Sight:
        """Callers whom the rules treat alike share one."""
        named = rules is not None and any(r.when and r.when.principals for r in rules.rules)
        key = (id(rules), who.name if named else None, who.roles, who.permissions)
        with self._lock:
            kept = self._sights.pop(key, None)
            if kept is None or kept[0] is not rules:
                kept = (rules, Sight(lambda name: self._reaches(name, who, rules)))
            if len(self._sights) >= _MOST_SIGHTS:
                del self._sights[next(iter(self._sights))]
            self._sights[key] = kept
        return kept[1]

    def _reaches(self, name: str, who: Principal, rules: Profile | None) -> bool:
        """Whether the caller may call a tool, as far as it does not change from call to call."""
        host = self._host
        entry = host.catalog.get(name)
        if entry is None or (rules is None and host.planner.profiles):
            return False
        spec = entry.spec
        if not _plain(entry, rules):
            plan = host.calling.plan(name, rules.name if rules else None, None)
            if plan is None or plan.refusal is not None:
                return False
            if plan.outage is not None and plan.outage.reason == "tool_disabled":
                return False
            spec = plan.spec
        if not spec.permissions <= who.permissions:
            return False
        return rules is None or may_reach(rules, spec, who)

    def _hidden(self, name: str, who: Principal, rules: Profile | None) -> bool:
        """Whether a gate hides a tool. The plan asks it too, but takes longer to make."""
        entry = self._host.catalog.get(name)
        if entry is None or not _plain(entry, rules):
            return False
        for gate in self._host.planner.gates:
            try:
                if gate.visible(entry.spec, who, rules) is not True:
                    return True
            except Exception:  # a guard that fails refuses; the plan says so on the trail
                return True
        return False


def _plain(entry: Entry, rules: Profile | None) -> bool:
    """Whether the profile's rules and the permissions alone decide over a tool."""
    if entry.policy is not None or entry.spec.policy is not NoPolicy or entry.unavailable:
        return False
    return not entry.sandboxes and (rules is None or entry.name not in rules.pins)


async def _in_slices(work: Iterator[None]) -> None:
    until = monotonic() + _SLICE
    for _ in work:
        if monotonic() >= until:
            await asyncio.sleep(0)
            until = monotonic() + _SLICE
