"""Which calls a profile's rules can let through: every way, as constraints on the arguments.

A way is a list of clauses, all of which must be met. A clause is a list of options, one of which
is enough. An option is a list of literals, all of which must be true. The search goes through
the options depth first and gives up a branch as soon as one argument has no value left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from toolcrib.core.principal import Principal
from toolcrib.core.profile import Profile, Rule
from toolcrib.core.spec import ToolSpec
from toolcrib.host.verify.satisfiable import Answer, Solver
from toolcrib.host.verify.values import Literal
from toolcrib.pipeline.gates import matches, who_matches

Option: TypeAlias = tuple[Literal, ...]
Clause: TypeAlias = list[Option]
Way: TypeAlias = list[Clause]
Verdicts: TypeAlias = frozenset[str]

ALLOWED: Verdicts = frozenset({"allow"})
NOT_DENIED: Verdicts = frozenset({"allow", "ask"})

_MOST_STEPS = 4000


def rules_for(profile: Profile, spec: ToolSpec) -> list[Rule]:
    """The rules that speak of a tool."""
    return [rule for rule in profile.rules if matches(rule.match, spec, rule.verdict)]


def held(rules: Sequence[Rule], who: Principal) -> list[Rule]:
    """The rules whose part about the caller holds."""
    return [rule for rule in rules if rule.when is None or who_matches(rule.when, who)]


def holding(rule: Rule) -> Option:
    """What has to be true of the arguments for the rule to speak."""
    arguments = rule.when.arguments if rule.when is not None else ()
    return tuple(Literal(c, True, rule.verdict == "allow") for c in arguments)


def failing(rule: Rule) -> Clause:
    """What has to be true, one of it, for the rule to be silent."""
    return [(literal._replace(holds=False),) for literal in holding(rule)]


def ways(
    profile: Profile, rules: Sequence[Rule], spec: ToolSpec, who: Principal, wanted: Verdicts
) -> list[Way]:
    """How a call can get one of the wanted verdicts from the closed rules; none is a proof."""
    if spec.requires_approval and "ask" not in wanted:
        return []
    if not spec.permissions <= who.permissions:
        return []
    active = held(rules, who)
    silent = [failing(rule) for rule in active if rule.verdict not in (*wanted, "allow")]
    if any(not clause for clause in silent):
        return []
    found: list[Way] = [[[holding(rule)], *silent] for rule in active if rule.verdict in wanted]
    if profile.default in wanted:
        found.append(silent)
    return found


def barriers(
    profile: Profile,
    rules: Sequence[Rule],
    spec: ToolSpec | None,
    who: Principal,
    wanted: Verdicts,
) -> list[Way]:
    """The opposite: how a call can fail to get one of the wanted verdicts from the rules."""
    if spec is None or not spec.permissions <= who.permissions:
        return [[]]
    if spec.requires_approval and "ask" not in wanted:
        return [[]]
    active = held(rules, who)
    found: list[Way] = [[[holding(rule)]] for rule in active if rule.verdict not in wanted]
    if profile.default not in wanted:
        found.append([failing(rule) for rule in active if rule.verdict in wanted])
    return found


class Cell(NamedTuple):
    """One set of arguments that nothing in the way tells apart, by examples for each argument."""

    values: dict[str, tuple[Any, ...]]
    certain: bool
    """False when for some argument no example was found, nor a proof that there is none."""

    def first(self) -> dict[str, Any]:
        """The first example of each argument."""
        return {path: values[0] for path, values in self.values.items() if values}


def cells(way: Way, solver: Solver) -> Iterator[Cell]:
    """The cells of a way. No cell at all proves that no arguments can go it."""
    steps = [0]
    yield from _descend(sorted(way, key=len), 0, {}, {}, solver, steps)
    if steps[0] > _MOST_STEPS:
        yield Cell({}, False)


def _descend(
    way: Way,
    depth: int,
    literals: dict[str, tuple[Literal, ...]],
    answers: dict[str, Answer],
    solver: Solver,
    steps: list[int],
) -> Iterator[Cell]:
    steps[0] += 1
    if steps[0] > _MOST_STEPS:
        return
    if depth == len(way):
        yield Cell(
            {path: answer.values for path, answer in answers.items()},
            all(answer.values for answer in answers.values()),
        )
        return
    options = [_with(literals, option) for option in way[depth]]
    if any(not changed for _, changed in options):
        # One is true already: asking for another one beside it would only narrow the cell.
        yield from _descend(way, depth + 1, literals, answers, solver, steps)
        return
    for added, changed in options:
        solved = {path: solver.solve(path, added[path]) for path in changed}
        if any(answer.impossible for answer in solved.values()):
            continue
        yield from _descend(way, depth + 1, added, {**answers, **solved}, solver, steps)


def _with(
    literals: dict[str, tuple[Literal, ...]], option: Option
) -> tuple[dict[str, tuple[Literal, ...]], set[str]]:
    added = dict(literals)
    changed: set[str] = set()
    for literal in option:
        known = added.get(literal.path, ())
        if all(literal.key != other.key for other in known):
            added[literal.path] = (*known, literal)
            changed.add(literal.path)
    return added, changed
