"""Which values an argument can have when some constraints hold and others do not.

The kinds of constraints are closed. For numbers and finite lists the candidates tried are all
that matter; texts are searched for with automata. Every value is put to the very tests that
real calls are put to, so an example is never wrong; only "there is none" needs the reasoning.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, cast

from toolcrib.core.context import ToolContext
from toolcrib.core.profile import Constraint
from toolcrib.host.verify.automaton import Language
from toolcrib.host.verify.patterns import (
    glob_language,
    list_language,
    prefix_language,
    regex_language,
)
from toolcrib.pipeline.constraints import compile_constraint

WHOLE = frozenset({"max_items", "max_length"})
"""Constraints on a list itself; all others are on its items."""
_LANGUAGES: dict[str, Callable[[tuple[str, ...]], Language | None]] = {
    "glob": glob_language,
    "prefix": prefix_language,
    "regex": regex_language,
}
IRREGULAR = frozenset({"path_under", "host_in"})
"""Constraints on texts that no automaton describes."""


class Literal(NamedTuple):
    """A constraint that has to hold, or has to fail."""

    constraint: Constraint
    holds: bool
    every: bool
    """In a list, every item is asked (as for allow), or one is enough (as for ask and deny)."""

    @property
    def path(self) -> str:
        """The argument spoken of."""
        return self.constraint.argument

    @property
    def key(self) -> tuple[str, str, bool, bool]:
        """Equal for literals that mean the same."""
        return self.constraint.kind, repr(self.constraint.value), self.holds, self.every


@functools.lru_cache(maxsize=8192)
def _test(kind: Any, shown: str, every: bool, holder: _Held) -> Callable[[ToolContext], bool]:
    plain = Constraint(argument="value", kind=kind, value=holder.value)
    return compile_constraint(plain, every=every)


class _Held:
    """A constraint's value as part of a key; values need not be hashable, their text is."""

    def __init__(self, value: Any, shown: str) -> None:
        self.value = value
        self.shown = shown

    def __hash__(self) -> int:
        return hash(self.shown)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and other.shown == self.shown


def satisfied(literal: Literal, value: Any) -> bool:
    """Whether a value makes the literal true, by the test that real calls are put to."""
    kind, shown, holds, every = literal.key
    test = _test(kind, shown, every, _Held(literal.constraint.value, shown))
    return test(ToolContext(arguments={"value": value})) is holds


def members(value: Any) -> tuple[Any, ...]:
    """A constraint's value as a list."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return (value,)
    return tuple(cast("Iterable[Any]", value))


def language(literal: Literal) -> Language | None:
    """The texts of which the literal's constraint is true; None where no automaton says it."""
    kind = literal.constraint.kind
    words = tuple(w for w in members(literal.constraint.value) if isinstance(w, str))
    if kind in ("in", "not_in"):
        return list_language(words)
    return _LANGUAGES[kind](words) if kind in _LANGUAGES else None


def path_values(literals: Sequence[Literal]) -> list[str]:
    """Paths that matter to constraints on paths."""
    roots = [r for li in literals if li.constraint.kind == "path_under" for r in _words(li)]
    found = ["x", "/x"] if roots else []
    for root in roots:
        base = root.rstrip("/")
        found += [f"{base}/x", root, f"{base}/zz-fresh", f"{base}x", f"{base}/../x"]
    return found


def host_values(literals: Sequence[Literal]) -> list[str]:
    """Hosts and URLs that matter to constraints on hosts."""
    hosts = [h for li in literals if li.constraint.kind == "host_in" for h in _words(li)]
    if not hosts:
        return []
    names = [f"zz-fresh{host[1:]}" if host.startswith("*.") else host for host in hosts]
    names += ["zz-fresh.invalid"]
    return [
        form.format(name)
        for form, name in itertools.product(
            ("https://{}/", "{}", "https://{}", "http://{}/x"), names
        )
    ]


def _words(literal: Literal) -> list[str]:
    return [word for word in members(literal.constraint.value) if isinstance(word, str)]


def number_values(literals: Sequence[Literal], bounds: Iterable[Any], whole: bool) -> list[Any]:
    """Numbers on, and just beside, everything that the constraints and the schema mention."""
    points: list[Any] = [0, *bounds]
    for literal in literals:
        points += members(literal.constraint.value)
    found: list[Any] = []
    for point in points:
        if isinstance(point, bool) or not isinstance(point, int | float):
            continue
        near = [point, point + 1, point - 1]
        if not whole:
            near += [point + 0.5, point - 0.5]
        found += [int(n) if whole and float(n).is_integer() else n for n in near]
        if whole:
            found += [int(point // 1), int(point // 1) + 1]
    return [n for n in dict.fromkeys(found) if not whole or isinstance(n, int)]
