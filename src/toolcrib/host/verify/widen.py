"""Whether a profile allows more than the profile of the same name in another configuration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from toolcrib.core.decision import Explanation
from toolcrib.core.principal import Principal
from toolcrib.core.profile import Profile, Rule
from toolcrib.host.verify.callers import Scope, also_known, callers
from toolcrib.host.verify.invariants import NeverWiden
from toolcrib.host.verify.probe import (
    Prober,
    Subject,
    evidence,
    policy_of,
    proposals,
    refused_whole,
    seeds_of,
    variants,
)
from toolcrib.host.verify.reachable import (
    ALLOWED,
    NOT_DENIED,
    Way,
    barriers,
    cells,
    rules_for,
    ways,
)
from toolcrib.host.verify.report import Certainty, Finding, call_text
from toolcrib.host.verify.search import look


class Widening:
    """A search for a call that is allowed now and was not before."""

    def __init__(
        self,
        new: Prober,
        old: Prober,
        demand: NeverWiden,
        profile: Profile,
        before: Profile,
        subject: Subject,
        was: Subject | None,
    ) -> None:
        self.new = new
        self.old = old
        self.demand = demand
        self.profile = profile
        self.before = before
        self.subject = subject.under(profile)
        self.was = None if was is None else was.under(before)
        self.wanted = NOT_DENIED if demand.ask else ALLOWED
        self.by_code = False
        self._rules = rules_for(profile, self.subject.entry.spec)
        self._old_rules = [] if self.was is None else rules_for(before, self.was.entry.spec)

    def find(self) -> Finding | None:
        """A call that shows it; None when there is none."""
        if self.was is not None and self._unchanged():
            return None
        found, doubt = look(self, self._callers(), self._ways)
        if found is None and self._differs():
            found = next(filter(None, map(self._compare, self._callers())), None)
        return found or doubt

    def _unchanged(self) -> bool:
        """Whether nothing that decides about the tool is other than it was."""
        return (
            not self._differs()
            and self.profile.default == self.before.default
            and [_meaning(r) for r in self._rules] == [_meaning(r) for r in self._old_rules]
        )

    def _differs(self) -> bool:
        """Whether more than rules may have changed: the tool itself, its policy, its pin."""
        if self.was is None:
            return False
        new, old = self.subject.entry, self.was.entry
        return (
            new.spec.to_dict() != old.spec.to_dict()
            or repr(policy_of(new, self.profile)) != repr(policy_of(old, self.before))
            or self.profile.pins.get(new.name) != self.before.pins.get(new.name)
        )

    def _callers(self) -> list[Principal]:
        config, spec = self.new.host.config, self.subject.entry.spec
        groups = [self._rules, self._old_rules]
        found = callers(config, self.profile, spec, groups, Scope())
        if self.was is not None and self.was.entry.spec.permissions - spec.permissions:
            more = callers(config, self.profile, self.was.entry.spec, groups, Scope())
            found += [who for who in more if who not in found]
        return [*found, *also_known(config, self.profile, found, Scope())]

    def _ways(self, who: Principal) -> Iterator[Way]:
        spec = self.subject.entry.spec
        was = None if self.was is None else self.was.entry.spec
        walls = barriers(self.before, self._old_rules, was, who, self.wanted)
        for way in ways(self.profile, self._rules, spec, who, self.wanted):
            for wall in walls:
                yield [*way, *wall]

    def attempt(self, arguments: dict[str, Any], who: Principal) -> Finding | Explanation:
        """One call: the finding if it passes now and did not before, else what is said now."""
        said, before = self._ask(arguments, who)
        if self._is_wider(said, before):
            return self._finding("confirmed", arguments, who, said, before)
        return said

    def is_unexpected(self, said: Explanation) -> bool:
        """Whether the call was refused, and not by the tool as a whole."""
        return said.verdict not in self.wanted and not refused_whole(said)

    def doubt(self, arguments: dict[str, Any] | None, who: Principal) -> Finding:
        """A call that may pass now and did not before."""
        return self._finding("possible", arguments, who, None, None)

    def _compare(self, who: Principal) -> Finding | None:
        """The rules may be the same; try calls on the tool as it was and as it is."""
        for way in ways(self.profile, self._rules, self.subject.entry.spec, who, self.wanted):
            for cell in cells(way, self.subject.solver):
                for arguments in proposals(self.subject, cell):
                    tried = self.attempt(arguments, who)
                    if isinstance(tried, Finding):
                        return tried
                found = self.vary(self.subject.solver.build(cell.first()), who)
                if found is not None:
                    return found
        return None

    def vary(self, base: dict[str, Any], who: Principal) -> Finding | None:
        """Calls like one that the tool's own code refused."""
        self.by_code = True
        seeds = seeds_of(policy_of(self.subject.entry, self.profile))
        if self.was is not None:
            seeds += [s for s in seeds_of(policy_of(self.was.entry, self.before)) if s not in seeds]
        for arguments in variants(self.subject, base, seeds):
            tried = self.attempt(arguments, who)
            if isinstance(tried, Finding):
                return tried
        return None

    def _ask(
        self, arguments: dict[str, Any], who: Principal
    ) -> tuple[Explanation, Explanation | None]:
        said = self.new.ask(self.profile, self.subject.name, arguments, who)
        if said.verdict not in self.wanted:
            return said, None
        return said, self.old.ask(self.before, self.subject.name, arguments, who)

    def _is_wider(self, said: Explanation, before: Explanation | None) -> bool:
        return (
            said.verdict in self.wanted and before is not None and before.verdict not in self.wanted
        )

    def _finding(
        self,
        certainty: Certainty,
        arguments: dict[str, Any] | None,
        who: Principal,
        said: Explanation | None,
        before: Explanation | None,
    ) -> Finding:
        proof = evidence(self.new.host, self.profile, self.subject, arguments, who, said)
        call = call_text(self.subject.name, proof.arguments)
        does = f"gives {call} the verdict {said.verdict}" if said else f"may allow more of {call}"
        was = ""
        if before is not None:
            was = f"; before it was {before.verdict}"
            was += f" ({before.reason})" if before.reason else ""
        action = (proof.arguments or {}).get("action")
        return replace(
            proof,
            kind="widened",
            certainty=certainty,
            sentence=f"profile {self.profile.name} {does}{was}",
            action=action if isinstance(action, str) else None,
            invariant=f"never_widen {self.demand.file.name}",
            invariant_source=self.demand.source,
        )


def _meaning(rule: Rule) -> object:
    """What a rule says, without where it stands."""
    when = rule.when
    arguments = [(c.argument, c.kind, repr(c.value)) for c in when.arguments] if when else []
    who = (when.roles, when.permissions, when.principals) if when else ()
    return rule.verdict, who, arguments
