"""Plans, compiled when first needed and kept until the tool or the rules change."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from toolcrib.catalog.catalog import Catalog, Change
from toolcrib.core.clock import Clock
from toolcrib.core.entry import Entry
from toolcrib.core.profile import Profile
from toolcrib.core.settings import HostSettings
from toolcrib.core.spec import ToolSpec
from toolcrib.host.search_tools import SearchTools
from toolcrib.host.session import Session
from toolcrib.observe.metrics import Metrics
from toolcrib.observe.redact import Redactor
from toolcrib.pipeline.limits import Limits
from toolcrib.pipeline.plan import Plan

if TYPE_CHECKING:
    from toolcrib.core.protocols import Extension, Gate


MOST = 20_480
"""Plans kept for one profile; the oldest make room."""


class Planner:
    """Knows the plan of every tool under every profile."""

    def __init__(self, catalog: Catalog, metrics: Metrics, clock: Clock) -> None:
        self.limits = Limits(clock.monotonic)
        self.gates: tuple[Gate, ...] = ()
        self.extensions: tuple[Extension, ...] = ()
        self.settings = HostSettings()
        self.redactor = Redactor()
        self.lines: Mapping[str, str] = {}
        """Where policy knobs stand in the configuration."""
        self.books: dict[str | None, dict[str, Plan]] = {None: {}}
        """By profile, by tool name. The book under None is that of the default profile."""
        self.profiles: Mapping[str, Profile] = {}
        """The profiles in force; where there are some, no call may go without one."""
        self.search_tools: SearchTools
        """Makes the tools that exist under profiles with `listing` only."""
        self._aliases: dict[str, set[str]] = {}
        """Other names that plans of a tool are kept under: wire names, `name@version`."""
        self._catalog = catalog
        self._metrics = metrics
        self._linked = False
        """Whether some tool needs another one, so that plans depend on each other."""

    def renew(
        self,
        settings: HostSettings,
        redactor: Redactor,
        profiles: Mapping[str, Profile],
        lines: Mapping[str, str],
        default: str | None,
    ) -> None:
        """Begin anew: settings, rules or extensions have changed."""
        self.settings = settings
        self.redactor = redactor
        self.lines = lines
        books: dict[str | None, dict[str, Plan]] = {name: {} for name in profiles}
        books[None] = books.get(default, {})
        self.profiles = profiles
        self._aliases = {}
        self.books = books  # last: who finds the new books finds all the rest new as well

    def changed(self, change: Change) -> None:
        """A tool was added, replaced or removed."""
        names = {change.name, *self._aliases.pop(change.name, ())}
        for book in self.books.values():
            if self._linked:
                book.clear()
            for name in names:
                book.pop(name, None)

    def plan(self, name: str, profile: Profile | None, session: Session | None) -> Plan | None:
        """The plan for a tool under a profile; None when there is no such tool."""
        if profile is None and self.profiles:
            return None  # where there are profiles, nothing runs under none
        beside = name in SearchTools.names(profile)  # nobody's tool can stand in for these
        own = None if session is None or beside else session.entry(name)
        if session is not None and own is not None:
            return self._own(session, name, own, profile)
        entry = self._entry(name, profile)
        if entry is None:
            return None
        books = self.books
        book = books.get(profile.name if profile else None)
        if book is None or (profile and self.profiles.get(profile.name) is not profile):
            return self.compile(entry, profile)  # these rules are not in force any more
        plan = book.get(name)
        if plan is None or plan.entry is not entry:
            plan = self.compile(entry, profile)
            if len(book) >= MOST:
                book.pop(next(iter(book)), None)
            if name != entry.name:
                self._aliases.setdefault(entry.name, set()).add(name)
            # One that is down is looked at again at every call, and so is another name of a tool
            # that may be concealed: the answer must not give away which tool it stands for.
            veiled = name != entry.name and profile is not None and profile.conceal
            if plan.outage is None and not veiled:
                book[name] = plan
            if self._entry(name, profile) is not entry or self.books is not books:
                book.pop(name, None)  # it changed meanwhile: nobody else may find this plan
        return plan

    def _own(self, session: Session, name: str, entry: Entry, profile: Profile | None) -> Plan:
        """The plan of a session's own tool, kept with the session."""
        kept = session.plans.get(name)
        if kept is None or kept[0] is not self.books or kept[1].entry is not entry:
            kept = session.plans[name] = (self.books, self.compile(entry, profile))
        elif kept[1].profile is not profile:
            return self.compile(entry, profile)
        return kept[1]

    def _entry(self, name: str, profile: Profile | None) -> Entry | None:
        beside = self.search_tools.entry(name, profile)
        if beside is not None:
            return beside
        entry = self._catalog.get(name)
        if profile is None or entry is None or entry.name not in profile.versions:
            return entry
        # Whatever it was called by, and never another version in place of one that is gone.
        wanted = profile.versions[entry.name]
        named = name.rpartition("@")[2] if "@" in name else wanted
        return self._catalog.version(entry.name, wanted) if named == wanted else None

    def compile(self, entry: Entry, profile: Profile | None) -> Plan:
        """A new plan."""
        if entry.spec.requires_tools:
            self._linked = True
        if profile is not None and self.search_tools.entry(entry.name, profile) is entry:
            profile = self.search_tools.rules(entry.name, profile)
        return Plan(
            entry,
            profile,
            gates=self.gates,
            extensions=self.extensions,
            settings=self.settings,
            hider=self.redactor,
            counter=self._metrics.for_tool(entry.name),
            limits=self.limits,
            policy_source=self.lines.get(f"profiles.{profile.name}.policies.{entry.name}")
            if profile
            else None,
            missing=self._missing(entry.spec),
        )

    def _missing(self, spec: ToolSpec) -> list[str]:
        """What the tool needs and cannot have: other tools, secrets in the environment."""
        missing = [f"the tool {n}" for n in sorted(spec.requires_tools) if n not in self._catalog]
        for name in sorted(spec.requires_secrets):
            value = os.environ.get(name)
            if value:
                self.redactor.add_secret(value)
            else:
                missing.append(f"the secret {name} in the environment")
        return missing
