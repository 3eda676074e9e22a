"""Rules that can never change an outcome, and knobs that contradict each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from toolcrib.core.policy import ToolPolicy
from toolcrib.core.profile import Profile, Rule
from toolcrib.core.settings import HostConfig
from toolcrib.core.spec import ToolSpec
from toolcrib.core.units import did_you_mean
from toolcrib.host.search_tools import CODE, SearchTools
from toolcrib.host.verify.callers import Scope, callers
from toolcrib.host.verify.probe import Subject, policy_of
from toolcrib.host.verify.reachable import Way, cells, failing, held, holding, rules_for
from toolcrib.host.verify.report import Finding, FindingKind
from toolcrib.pipeline.gates import matches
from toolcrib.pipeline.patterns import any_glob, is_glob


@dataclass(frozen=True)
class _Dead:
    """Why a rule does nothing for a tool."""

    kind: FindingKind
    because: str


@dataclass
class _Case:
    """One rule, or one tool that it names, over all profiles that have the rule."""

    rule: Rule
    profile: Profile
    tool: str | None
    dead: _Dead | None = None
    alive: bool = field(default=False)


def lint_rules(
    config: HostConfig, profiles: Sequence[Profile], subjects: Sequence[Subject]
) -> Iterator[Finding]:
    """Rules that do nothing. A rule that is inherited must do something in one profile at least."""
    cases: dict[tuple[int, str | None], _Case] = {}
    for profile in sorted(profiles, key=lambda p: len(p.rules)):
        held_to = [subject.under(profile) for subject in subjects]
        for rule in profile.rules:
            whole = cases.setdefault((id(rule), None), _Case(rule, profile, None))
            spoken = [s for s in held_to if matches(rule.match, s.entry.spec, rule.verdict)]
            if whole.alive and not any(not is_glob(name) for name in rule.match.names):
                continue
            fates = [(s, _fate(config, profile, rule, s, subjects)) for s in spoken]
            if any(dead is None for _, dead in fates):
                whole.alive = True
            elif fates:
                whole.dead = fates[0][1]
            for subject, dead in fates:
                if subject.name in rule.match.names:
                    key = (id(rule), subject.name)
                    case = cases.setdefault(key, _Case(rule, profile, subject.name))
                    case.alive = case.alive or dead is None
                    case.dead = dead
    told: set[int] = set()
    for case in cases.values():
        if case.tool is None:
            yield from _unmatched(case, subjects, config.providers)
            if case.dead is not None and not case.alive:
                told.add(id(case.rule))
                yield _finding(case, case.dead)
    for case in cases.values():
        named = case.tool is not None and id(case.rule) not in told
        if named and case.dead is not None and not case.alive and case.dead.kind != "redundant":
            yield _finding(case, case.dead)


def _finding(case: _Case, dead: _Dead) -> Finding:
    rule = case.rule
    what = f"'{rule.text or rule.verdict}'"
    of = f" for {case.tool}" if case.tool is not None else ""
    return Finding(
        kind=dead.kind,
        sentence=f"profile {case.profile.name}: the rule {what} does nothing{of}: {dead.because}",
        profile=case.profile.name,
        tool=case.tool,
        rule=rule.text or rule.verdict,
        source=rule.source or case.profile.source,
    )


def _unmatched(
    case: _Case, subjects: Sequence[Subject], providers: Iterable[str]
) -> Iterator[Finding]:
    rule = case.rule
    for pattern in rule.match.names:
        if any(pattern.startswith(f"{provider}-") for provider in providers):
            return  # what a provider brings is known only while it is up
        if pattern == CODE and CODE in SearchTools.names(case.profile):
            return  # in no catalog, and such a rule holds for it
        if not any(any_glob((pattern,))(s.entry.spec.name) for s in subjects):
            near = did_you_mean(pattern.replace("*", ""), [s.name for s in subjects])
            hint = f"; did you mean {near}?" if near else ""
            yield _finding(case, _Dead("unmatched", f"no tool is called {pattern}{hint}"))
            return
    spoken = any(matches(rule.match, s.entry.spec, rule.verdict) for s in subjects)
    match = rule.match
    # `deny: {effects: …}` is a precaution, and no word in it can be mistyped.
    cautious = rule.verdict != "allow" and match.effects and not (
        match.names or match.tags or match.categories or match.kinds
    )  # fmt: skip
    if not spoken and not cautious:
        yield _finding(case, _Dead("unmatched", "it matches no tool"))


def _fate(
    config: HostConfig,
    profile: Profile,
    rule: Rule,
    subject: Subject,
    subjects: Sequence[Subject],
) -> _Dead | None:
    """Why the rule can never change what becomes of a call of the tool; None when it can."""
    spec = subject.entry.spec
    rules = rules_for(profile, spec)
    who = [
        person
        for person in callers(config, profile, spec, [[rule]], Scope())
        if held([rule], person)
    ]
    if not who:
        names = sorted(rule.when.principals) if rule.when else []
        return _Dead("never_holds", f"{', '.join(names)} may not use this profile")
    speaks: Way = [[holding(rule)]]
    if not any(True for _ in cells(speaks, subject.solver)):
        return _Dead("never_holds", _why_not(rule, subject))
    if rule.verdict == "deny":
        return None
    stronger = [r for r in rules if r is not rule and _beats(r, rule)]
    shadow: Rule | None = None
    for person in who:
        active = held(stronger, person)
        silent = [failing(other) for other in active]
        if all(silent) and any(True for _ in cells([*speaks, *silent], subject.solver)):
            break
        always = (other for other in active if not failing(other))
        shadow = shadow or next(always, None) or next(iter(active), None)
    else:
        place = f" at {shadow.source}" if shadow is not None and shadow.source else ""
        text = shadow.text or shadow.verdict if shadow is not None else "a stronger rule"
        return _Dead("shadowed", f"'{text}'{place} always wins")
    return _redundant(profile, rule, rules, spec, subjects) if rule.verdict == "allow" else None


def _beats(other: Rule, rule: Rule) -> bool:
    return other.verdict == "deny" or (other.verdict == "ask" and rule.verdict == "allow")


def _redundant(
    profile: Profile, rule: Rule, rules: list[Rule], spec: ToolSpec, subjects: Sequence[Subject]
) -> _Dead | None:
    """Another rule, or the default, allows every call of the tool anyway."""
    if profile.default == "allow":
        return _Dead("redundant", "the profile's default is allow")

    def reach(of: Rule) -> int:
        return sum(matches(of.match, s.entry.spec, of.verdict) for s in subjects)

    earlier = True
    for other in rules:
        if other is rule:
            earlier = False
        elif other.verdict != "allow" or other.when is not None:
            continue
        elif rule.when is not None or earlier or reach(other) > reach(rule):
            place = f" at {other.source}" if other.source else ""
            return _Dead("redundant", f"'{other.text or 'allow'}'{place} allows it anyway")
    return None


def _why_not(rule: Rule, subject: Subject) -> str:
    literals = holding(rule)
    for literal in literals:
        same = [other for other in literals if other.path == literal.path]
        if subject.solver.solve(literal.path, same).impossible:
            if not subject.solver.shape.place(literal.path).branches:
                return f"{subject.name} has no argument {literal.path}"
            kinds = " and ".join(other.constraint.kind for other in same)
            return f"no value of {literal.path} that {subject.name} takes meets {kinds}"
    return "its condition cannot come true"


def lint_knobs(profiles: Sequence[Profile], subjects: Sequence[Subject]) -> Iterator[Finding]:
    """Knobs of a policy that cannot go together, as the policy's class says."""
    for subject in subjects:
        entry = subject.entry
        base: set[str] = set()
        if entry.policy is not None:
            for text in _contradictions(entry.policy, subject):
                base.add(text)
                yield _knobs(subject, None, text)
        for profile in profiles:
            if entry.name in profile.policies or entry.policy is None:
                policy = policy_of(entry, profile)
                for text in _contradictions(policy, subject) if policy is not None else ():
                    if text not in base:
                        yield _knobs(subject, profile, text)


def _contradictions(policy: ToolPolicy, subject: Subject) -> list[str]:
    knobs: dict[str, Any] = policy.to_dict()
    found: list[str] = []
    said = getattr(type(policy), "contradictions", None)
    if said is not None:
        try:
            found += [str(text) for text in said(knobs)]
        except Exception as error:
            found.append(f"its contradictions() failed with {type(error).__name__}: {error}")
    given: Any = knobs.get("allowed_actions")
    properties: Mapping[str, Any] = subject.solver.shape.root.get("properties", {})
    listed: Any = properties.get("action", {}).get("enum")
    if isinstance(given, list | tuple | set | frozenset) and listed:
        for action in cast("list[Any]", given):
            if action not in listed:
                near = did_you_mean(str(action), [str(word) for word in listed])
                hint = f"; did you mean {near}?" if near else ""
                found.append(
                    f"allowed_actions names {action!r}, which the tool does not have{hint}"
                )
    return found


def _knobs(subject: Subject, profile: Profile | None, text: str) -> Finding:
    source = subject.entry.spec.source
    if profile is not None:
        source = profile.source or source
    whose = f"profile {profile.name}: " if profile is not None else ""
    return Finding(
        kind="contradiction",
        sentence=f"{whose}the policy of {subject.name}: {text}",
        profile=profile.name if profile is not None else None,
        tool=subject.name,
        rule=f"policies.{subject.entry.name}",
        source=source,
    )
