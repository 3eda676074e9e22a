"""Whether an invariant holds for one profile and one tool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from toolcrib.core.context import ToolContext
from toolcrib.core.decision import Explanation
from toolcrib.core.principal import Principal
from toolcrib.core.profile import Profile, Rule
from toolcrib.host.verify.callers import also_known, callers
from toolcrib.host.verify.invariants import Never
from toolcrib.host.verify.probe import (
    OPEN,
    Prober,
    Subject,
    evidence,
    policy_of,
    refused_whole,
    seeds_of,
    variants,
)
from toolcrib.host.verify.reachable import ALLOWED, NOT_DENIED, Way, rules_for, ways
from toolcrib.host.verify.report import Certainty, Finding, call_text
from toolcrib.host.verify.search import look
from toolcrib.host.verify.values import Literal
from toolcrib.pipeline.constraints import compile_constraint
from toolcrib.pipeline.patterns import any_glob


def concerns_profile(never: Never, profile: Profile) -> bool:
    """Whether the invariant speaks of a profile."""
    if never.trust_max is not None and profile.trust > never.trust_max:
        return False
    return not never.profiles or any_glob(never.profiles)(profile.name)


def concerns_tool(never: Never, subject: Subject) -> bool:
    """Whether the invariant speaks of a tool."""
    spec = subject.entry.spec
    if never.tools and not any_glob(never.tools)(spec.name):
        return False
    if never.exceptions and any_glob(never.exceptions)(spec.name):
        return False
    if never.tags and not never.tags & spec.tags:
        return False
    return not never.effects or spec.effects is None or bool(never.effects & spec.effects)


class Breach:
    """A search for a call that breaks an invariant."""

    def __init__(self, prober: Prober, never: Never, profile: Profile, subject: Subject) -> None:
        self.prober = prober
        self.never = never
        self.profile = profile
        self.subject = subject
        self.wanted = NOT_DENIED if never.ask else ALLOWED
        self.by_code = False
        """Whether somebody's code refused a call that the rules let through."""
        self._tests = [compile_constraint(c, every=False) for c in never.conditions]

    def find(self) -> Finding | None:
        """A counter-example; None when there is none, or only code stands in the way of all."""
        rules = rules_for(self.profile, self.subject.entry.spec)
        found, doubt = look(self, self._callers(rules), lambda who: self._ways(rules, who))
        return found or doubt

    def _callers(self, rules: list[Rule]) -> list[Principal]:
        config, spec = self.prober.host.config, self.subject.entry.spec
        found = callers(config, self.profile, spec, [rules], self.never.scope)
        return [*found, *also_known(config, self.profile, found, self.never.scope)]

    def _ways(self, rules: list[Rule], who: Principal) -> Iterator[Way]:
        conditions = [[(Literal(c, True, False),)] for c in self.never.conditions]
        for way in ways(self.profile, rules, self.subject.entry.spec, who, self.wanted):
            yield [*way, *conditions]

    def attempt(self, arguments: dict[str, Any], who: Principal) -> Finding | Explanation:
        """One call: the finding if it breaks the invariant, else what was said."""
        said = self._ask(arguments, who)
        if self._breaks(arguments, said):
            return self._finding("confirmed", arguments, who, said)
        return said

    def is_unexpected(self, said: Explanation) -> bool:
        """Whether neither the rules nor the tool as a whole refused the call."""
        return not refused_whole(said)

    def doubt(self, arguments: dict[str, Any] | None, who: Principal) -> Finding:
        """A call that may break the invariant."""
        return self._finding("possible", arguments, who, None)

    def vary(self, base: dict[str, Any], who: Principal) -> Finding | None:
        """Calls like one that the tool's own code refused."""
        self.by_code = True
        policy = policy_of(self.subject.entry, self.profile)
        seeds = [*self.never.actions, *seeds_of(policy)]
        for arguments in variants(self.subject, base, seeds):
            if self._is_meant(arguments) and not self.prober.knows(
                self.subject, who, policy, arguments
            ):
                said = self._ask(arguments, who)
                if self._breaks(arguments, said):
                    return self._finding("confirmed", arguments, who, said)
                self.prober.learn(self.subject, who, policy, arguments, said)
        return None

    def _ask(self, arguments: dict[str, Any], who: Principal) -> Explanation:
        return self.prober.ask(self.profile, self.subject.name, arguments, who)

    def _is_meant(self, arguments: dict[str, Any]) -> bool:
        filled = {**(self.subject.entry.defaults or {}), **arguments}
        context = ToolContext(arguments=filled)
        return all(test(context) for test in self._tests)

    def _breaks(self, arguments: dict[str, Any], said: Explanation) -> bool:
        return said.verdict in self.wanted and self._is_meant(arguments)

    def _finding(
        self,
        certainty: Certainty,
        arguments: dict[str, Any] | None,
        who: Principal,
        said: Explanation | None,
    ) -> Finding:
        proof = evidence(self.prober.host, self.profile, self.subject, arguments, who, said)
        action = (proof.arguments or {}).get(self.never.action_argument)
        does = {"allow": "can call", "ask": "can ask for", None: "may be able to call"}
        name = self.profile.name or "(no profile)"
        trust = "" if self.profile is OPEN else f" (trust {self.profile.trust})"
        call = call_text(self.subject.name, proof.arguments)
        return replace(
            proof,
            kind="never",
            certainty=certainty,
            sentence=f"profile {name}{trust} {does[proof.verdict]} {call}",
            action=action if isinstance(action, str) else None,
            invariant=self.never.text,
            invariant_source=self.never.source,
        )
