"""What one caller sees of the catalog at a moment, to know later whether a change is one for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Literal

from toolcrib.core.entry import Entry
from toolcrib.core.spec import ToolSpec
from toolcrib.host.host import ToolHost
from toolcrib.protocol.mcp.definitions import KIND, shown
from toolcrib.transports.mcp.offers import RELAYED, Offers, What
from toolcrib.transports.mcp.searching import listed

Part = Literal["tools"] | What
_SLICE = 100
"""Tools that are looked at before others have their turn."""


class Sight:
    """What there was, and what the caller was held to. Nothing is looked at before it matters."""

    __slots__ = ("entries", "knows", "listed", "own", "profile", "who")

    def __init__(self, offers: Offers) -> None:
        host, session = offers.host, offers.session
        self.who = offers.who
        self.profile = host.callers.profile(offers.profile)
        self.entries: Mapping[str, Entry] = host.catalog.snapshot()
        self.own: Mapping[str, Entry] = {} if session is None else dict(session.entries)
        names = listed(host, offers.who, offers.profile, session)
        self.listed = None if names is None else frozenset(names)
        """The tools that are listed where not all are."""
        self.knows: dict[str, bool] = {}
        """Providers, and whether the caller sees anything of theirs, as far as it was asked."""

    def get(self, name: str) -> Entry | None:
        """The entry under a name."""
        return self.own.get(name) or self.entries.get(name)

    def spec(self, host: ToolHost, name: str) -> ToolSpec | None:
        """The spec of a tool that the caller could see."""
        entry = self.get(name)
        if entry is None:
            return None
        plan = host.planner.compile(entry, self.profile)
        return plan.spec if plan.listed(self.who) else None


async def changed(host: ToolHost, old: Sight, new: Sight) -> set[Part]:
    """What a caller would find changed. Others have their turn meanwhile."""
    found: set[Part] = set()
    if old.listed != new.listed:
        found.add("tools")
    rules = old.profile != new.profile or old.who != new.who
    versions = frozenset(new.profile.versions if new.profile is not None else ())
    for count, name in enumerate(_names(old, new)):
        if count % _SLICE == _SLICE - 1:
            await asyncio.sleep(0)
        before, now = old.get(name), new.get(name)
        part = _part(before or now)
        if part in found or (part == "tools" and new.listed is not None and name not in new.listed):
            continue
        if not rules and _alike(before, now):
            continue
        was, is_ = old.spec(host, name), new.spec(host, name)
        # Under a profile that wants another version, what was is not known any more.
        if not _same(was, is_) or (is_ is not None and name in versions):
            found.add(part)
    return found


def _names(old: Sight, new: Sight) -> Iterable[str]:
    if old.profile == new.profile and old.who == new.who:
        if old.entries is new.entries:
            return old.own.keys() | new.own.keys()
        before, now = old.entries, new.entries
        names = {name for name, entry in now.items() if before.get(name) is not entry}
        names.update(before.keys() - now.keys())
        return names | old.own.keys() | new.own.keys()
    return old.entries.keys() | new.entries.keys() | old.own.keys() | new.own.keys()


def _part(entry: Entry | None) -> Part:
    if entry is None or entry.spec.kind != KIND:
        return "tools"
    relay = entry.spec.config.get("relay")
    for what, method in RELAYED.items():
        if method == relay:
            return what
    return "tools"


def _alike(one: Entry | None, other: Entry | None) -> bool:
    """Whether both are seen by the same callers and as the same."""
    if one is other:
        return True
    if one is None or other is None or one.policy != other.policy or _off(one) != _off(other):
        return False
    return one.spec is other.spec or one.spec.digest == other.spec.digest


def _off(entry: Entry) -> bool:
    return entry.unavailable is not None and entry.unavailable.reason == "tool_disabled"


def _same(one: ToolSpec | None, other: ToolSpec | None) -> bool:
    if one is None or other is None:
        return one is other
    return one is other or one.digest == other.digest or shown(one) == shown(other)
