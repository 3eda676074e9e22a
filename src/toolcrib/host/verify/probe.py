"""Asking the real decision about calls that the search proposes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from msgspec.structs import replace

from toolcrib.core.canonical import canonical
from toolcrib.core.decision import RANK, Explanation, Step
from toolcrib.core.entry import Entry
from toolcrib.core.policy import NoPolicy, ToolPolicy
from toolcrib.core.principal import Principal
from toolcrib.core.profile import Profile
from toolcrib.host.host import ToolHost
from toolcrib.host.search_tools import CODE, SearchTools
from toolcrib.host.verify.reachable import Cell
from toolcrib.host.verify.report import Finding
from toolcrib.host.verify.satisfiable import MISSING, Solver
from toolcrib.pipeline.plan import held_spec

OPEN = Profile(name="", default="allow")
"""What holds in a host without profiles: everything is allowed."""

_CLOSED_GATES = frozenset({"find", "arguments", "profile", "role", "tool"})
_MOST_VARIANTS = 96
_MOST_EACH = 12


class Subject(NamedTuple):
    """A tool, under the name by which it is called."""

    name: str
    entry: Entry
    solver: Solver

    def under(self, profile: Profile) -> Subject:
        """The tool as it is under a profile, whose knobs may leave it fewer effects."""
        spec = held_spec(self.entry.spec, policy_of(self.entry, profile))
        return self if spec is self.entry.spec else self._replace(entry=self.entry.described(spec))


def subjects(host: ToolHost) -> list[Subject]:
    """Every tool of a host, each version of it."""
    found: list[Subject] = []
    for name, entry in host.catalog.snapshot().items():
        found.append(Subject(name, entry, Solver(entry.spec.input_schema)))
        for version in host.catalog.versions(name):
            other = host.catalog.version(name, version)
            if other is not None and other is not entry:
                solver = Solver(other.spec.input_schema)
                found.append(Subject(f"{name}@{version}", other, solver))
    return found


def code_of(host: ToolHost, profile: Profile) -> tuple[Subject, Profile] | None:
    """The tool that runs code under a profile with `listing`, and what it is held to."""
    entry = host.planner.search_tools.entry(CODE, profile)
    if entry is None:
        return None
    rules = SearchTools.rules(CODE, profile)
    return Subject(CODE, entry, Solver(entry.spec.input_schema)).under(rules), rules


def profiles_of(host: ToolHost) -> list[Profile]:
    """The profiles of a host; without any, the one that allows everything."""
    return list(host.config.profiles.values()) or [OPEN]


def policy_of(entry: Entry, profile: Profile) -> ToolPolicy | None:
    """A tool's policy with the profile's knobs on top."""
    knobs = profile.policies.get(entry.name)
    if entry.policy is not None:
        return entry.policy.with_knobs(knobs) if knobs else entry.policy
    if entry.spec.policy is NoPolicy:
        return None
    return entry.spec.policy(**(knobs or {}))


class Prober:
    """Puts calls to a host's own `explain`, and counts them."""

    def __init__(self, host: ToolHost) -> None:
        self.host = host
        self.asked = 0
        self._refused: set[tuple[str, Principal, str, bytes]] = set()

    def ask(
        self, profile: Profile, tool: str, arguments: Mapping[str, Any], who: Principal
    ) -> Explanation:
        """The decision about one call."""
        self.asked += 1
        chosen = None if profile is OPEN else profile.name
        said = self.host.explain(tool, arguments, principal=who, profile=chosen)
        return _without_limits(said)

    def learn(
        self,
        subject: Subject,
        who: Principal,
        policy: ToolPolicy | None,
        arguments: Mapping[str, Any],
        said: Explanation,
    ) -> None:
        """Remember a refusal by a policy's code: it holds for every profile with equal knobs."""
        step = decisive(said)
        if step is not None and step.gate == "policy" and step.verdict == "deny":
            self._refused.add((subject.name, who, repr(policy), canonical(arguments)))

    def knows(
        self,
        subject: Subject,
        who: Principal,
        policy: ToolPolicy | None,
        arguments: Mapping[str, Any],
    ) -> bool:
        """Whether a policy's code is known to refuse a call."""
        return (subject.name, who, repr(policy), canonical(arguments)) in self._refused


def decisive(explanation: Explanation) -> Step | None:
    """The step that settled the verdict."""
    return max(explanation.steps, key=lambda step: RANK[step.verdict], default=None)


def _without_limits(said: Explanation) -> Explanation:
    """The decision of a caller who has used nothing up yet: limits pass, rules stay."""
    steps = tuple(step for step in said.steps if step.gate != "limit")
    if len(steps) == len(said.steps):
        return said
    left = replace(said, steps=steps)
    step = decisive(left)
    if step is None or step.verdict == "abstain":
        return replace(left, verdict="deny")
    return replace(left, verdict=step.verdict, reason=step.reason, message=step.message)


def by_code(explanation: Explanation) -> bool:
    """Whether somebody's code, a policy's or a gate of the embedder, refused."""
    step = decisive(explanation)
    return step is not None and step.gate not in _CLOSED_GATES


def evidence(
    host: ToolHost,
    profile: Profile,
    subject: Subject,
    arguments: dict[str, Any] | None,
    who: Principal,
    said: Explanation | None,
) -> Finding:
    """The part of a finding that shows the call, its caller and the rule that lets it through."""
    step = None
    if said is not None:
        step = next((s for s in said.steps if s.gate == "profile"), None) or decisive(said)
    return Finding(
        kind="never",
        sentence="",
        profile=profile.name or "(no profile)",
        tool=subject.name,
        arguments=None if arguments is None else host.redactor.value(arguments),
        principal=who.name,
        roles=tuple(sorted(who.roles)),
        permissions=tuple(sorted(who.permissions)),
        verdict=said.verdict if said is not None else None,
        rule=step.rule if step is not None else None,
        source=step.source if step is not None else profile.source,
    )


def refused_whole(explanation: Explanation) -> bool:
    """Whether the tool is closed to this caller whatever the arguments are."""
    step = decisive(explanation)
    return step is not None and step.gate == "find" and step.reason != "tool_unavailable"


def proposals(subject: Subject, cell: Cell) -> Iterator[dict[str, Any]]:
    """Whole calls inside a cell: the first example of each argument, then one exchanged."""
    first = cell.first()
    yield subject.solver.build(first)
    for path, values in cell.values.items():
        for value in values[1:]:
            yield subject.solver.build({**first, path: value})


def variants(
    subject: Subject, base: Mapping[str, Any], seeds: Iterable[Any]
) -> Iterator[dict[str, Any]]:
    """Calls near `base` that code might judge otherwise: other actions, values from its knobs."""
    properties: Mapping[str, Any] = subject.solver.shape.root.get("properties", {})
    choices = {name: _choices(subject.solver, name, list(seeds)) for name in properties}
    count = 0
    seen: list[dict[str, Any]] = [dict(base)]
    for size in (1, 2, 3):
        for names in itertools.combinations(choices, size):
            for values in itertools.product(*(choices[name] for name in names)):
                call = {**base, **dict(zip(names, values, strict=True))}
                call = {name: value for name, value in call.items() if value is not MISSING}
                if call in seen:
                    continue
                seen.append(call)
                count += 1
                if count > _MOST_VARIANTS:
                    return
                yield call


def _choices(solver: Solver, name: str, seeds: list[Any]) -> list[Any]:
    place = solver.shape.place(name)
    found: list[Any] = []
    for node in place.branches:
        given: Any = node.get("enum") or ([node["const"]] if "const" in node else None)
        if given is not None:
            found += given
            continue
        lists = node.get("type") == "array"
        words = [s for s in seeds if isinstance(s, str)]
        longer = [f"{word}x" for word in words if word and not word[-1].isalnum()]
        near = [
            n + d for n in seeds if isinstance(n, int | float) and n is not True for d in (0, 1)
        ]
        bounds = [node[word] for word in ("minimum", "maximum") if word in node]
        values = [*longer, *words, *bounds, *near, True, False]
        tried = [[value] for value in values] if lists else values
        found += [value for value in tried if solver.shape.fits(node, value)][:_MOST_EACH]
        found += solver.branch(node, ()).values[:2]
    if not place.needed:
        found.append(MISSING)
    return [value for index, value in enumerate(found) if value not in found[:index]]


def seeds_of(policy: ToolPolicy | None) -> list[Any]:
    """The plain values in a policy's knobs: what its code compares arguments with."""
    return list(dict.fromkeys(_leaves(policy.to_dict()))) if policy is not None else []


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for inner in cast("Mapping[Any, Any]", value).values():
            yield from _leaves(inner)
    elif isinstance(value, list | tuple | set | frozenset):
        for inner in cast("Iterable[Any]", value):
            yield from _leaves(inner)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value
