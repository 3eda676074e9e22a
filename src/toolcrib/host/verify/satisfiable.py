"""Whether arguments exist that make some constraints hold and others fail, with examples."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from toolcrib.host.verify.automaton import Found, Language, search
from toolcrib.host.verify.patterns import prefix_language, regex_language
from toolcrib.host.verify.places import Schema, Shape
from toolcrib.host.verify.values import (
    IRREGULAR,
    WHOLE,
    Literal,
    host_values,
    language,
    members,
    number_values,
    path_values,
    satisfied,
)

_KEPT = 8
_DEEPEST = 6
_TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")


class Absence(enum.Enum):
    """An argument that is left out."""

    MISSING = enum.auto()


MISSING: Final = Absence.MISSING


class Answer(NamedTuple):
    """Values that do; without any, whether that is certain."""

    values: tuple[Any, ...]
    certain: bool

    @property
    def impossible(self) -> bool:
        """Whether it is proved that there is no such value."""
        return not self.values and self.certain


class Solver:
    """Answers for the arguments of one tool; remembers them."""

    def __init__(self, schema: Schema) -> None:
        self.shape = Shape(schema)
        self._known: dict[tuple[object, ...], Answer] = {}
        self._depth = 0

    def solve(self, path: str, literals: Sequence[Literal]) -> Answer:
        """Values of the argument at `path` under which every literal is true."""
        key = (path, *sorted(literal.key for literal in literals))
        answer = self._known.get(key)
        if answer is None:
            answer = self._known[key] = self._solve(path, literals)
        return answer

    def _solve(self, path: str, literals: Sequence[Literal]) -> Answer:
        place = self.shape.place(path)
        values: list[Any] = []
        certain = place.exact
        for branch in place.branches:
            answer = self.branch(branch, literals)
            values += answer.values
            certain = certain and answer.certain
        # A constraint on an argument that is left out never holds.
        if not place.needed and not place.filled and not any(li.holds for li in literals):
            values.append(MISSING)
        return Answer(tuple(values), certain)

    def build(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of a whole call with these values at these paths."""
        given = {path: value for path, value in values.items() if value is not MISSING}
        return self.shape.arguments(given, self.example)

    def example(self, node: Schema) -> Any:
        """Any value of a part of the schema."""
        if "default" in node:
            return node["default"]
        values = self.branch(node, ()).values
        return values[0] if values else None

    def branch(self, node: Schema, literals: Sequence[Literal]) -> Answer:
        """Values for one form of an argument."""
        given: Any = [node["const"]] if "const" in node else node.get("enum")
        if given is not None:
            return Answer(self._fitting(node, given, literals), True)
        if self._depth > _DEEPEST:
            return Answer((), False)  # a schema that contains itself
        self._depth += 1
        try:
            return self._typed(node, literals)
        finally:
            self._depth -= 1

    def _typed(self, node: Schema, literals: Sequence[Literal]) -> Answer:
        kinds: Any = node.get("type", _TYPES)
        values: list[Any] = []
        certain = True
        for kind in [kinds] if isinstance(kinds, str) else kinds:
            if kind == "integer" and "type" not in node:
                continue  # numbers cover them
            answer = self._of(kind, node, literals)
            values += answer.values
            certain = certain and answer.certain
        return Answer(tuple(values), certain)

    def _of(self, kind: str, node: Schema, literals: Sequence[Literal]) -> Answer:
        if kind == "string":
            return self._texts(node, literals)
        if kind == "array":
            return self._lists(node, literals)
        if kind == "object":
            return self._objects(node, literals)
        exact = "multipleOf" not in node
        if kind == "boolean":
            found: list[Any] = [True, False]
        elif kind == "null":
            found = [None]
        else:
            words = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
            bounds = [node[word] for word in words if word in node]
            found = number_values(literals, bounds, kind == "integer")
        return Answer(self._fitting(node, found, literals), exact)

    def _fitting(
        self, node: Schema, values: Iterable[Any], literals: Sequence[Literal]
    ) -> tuple[Any, ...]:
        found: list[Any] = []
        for value in values:
            if all(satisfied(li, value) for li in literals) and self.shape.fits(node, value):
                found.append(value)
                if len(found) == _KEPT:
                    break
        return tuple(found)

    def _texts(self, node: Schema, literals: Sequence[Literal]) -> Answer:
        listed = [li for li in literals if li.holds == (li.constraint.kind == "in")
                  and li.constraint.kind in ("in", "not_in")]  # fmt: skip
        if listed:
            words = [w for w in members(listed[0].constraint.value) if isinstance(w, str)]
            return Answer(self._fitting(node, words, literals), True)
        if any(li.holds and li.constraint.kind in ("min", "max", "max_items") for li in literals):
            return Answer((), True)
        finder = _Texts(node, literals)
        candidates = [*path_values(literals), *host_values(literals), *finder.found.texts]
        values = self._fitting(node, candidates, literals)
        if values or finder.regular:
            return Answer(values, finder.found.complete and finder.regular)
        return Answer(self._fitting(node, finder.guesses(), literals), finder.closed)

    def _lists(self, node: Schema, literals: Sequence[Literal]) -> Answer:
        whole = [li for li in literals if li.constraint.kind in WHOLE]
        inner = [li for li in literals if li.constraint.kind not in WHOLE]
        # What each item has to do, and what one item (or having none) has to do.
        each = [li for li in inner if li.holds == li.every]
        some = [li for li in inner if li.holds != li.every]
        items, exact = self.shape.branches(node.get("items", True))
        needed = [li for li in inner if li.holds]

        def item(wanted: Sequence[Literal]) -> Answer:
            answers = [self.branch(_flat(branch), wanted) for branch in items]
            values = tuple(v for answer in answers for v in answer.values)
            return Answer(values, exact and all(answer.certain for answer in answers))

        base = item(each)
        special = [item([*each, li]) for li in some]
        chosen = [answer.values[0] for answer in special if answer.values]
        lists: list[list[Any]] = [list(base.values[:1]), [], chosen]
        lists += [[*chosen, value] for value in base.values[:_KEPT]]
        least = max(
            [int(node.get("minItems", 0)), *(_size(li) + 1 for li in whole if not li.holds)]
        )
        if least and (base.values or chosen):
            fill = list(base.values) or chosen
            lists.append([*chosen, *fill, *(fill[-1:] * (least - len(chosen) - len(fill)))])
            lists.append([*chosen, *(fill[:1] * (least - len(chosen)))])
        values = self._fitting(node, lists, literals)
        # A constraint holds for no empty list; so there is an item for each thing one must do.
        never = bool(needed) and (base.impossible or any(a.impossible for a in special))
        return Answer(values, never)

    def _objects(self, node: Schema, literals: Sequence[Literal]) -> Answer:
        scalar = any(li.holds and li.constraint.kind not in (*WHOLE, "not_in") for li in literals)
        if scalar:
            return Answer((), True)
        most = max((_size(li) + 1 for li in literals if li.constraint.kind in WHOLE), default=1)
        wide = {f"x{index}": "x" for index in range(min(most, 1000))}
        found: Any = self.shape.example(node, self.example)
        return Answer(self._fitting(node, [found, {}, wide], literals), False)


def _flat(node: Schema) -> Schema:
    """An item that may be anything, but no list again: constraints look one level deep."""
    if "type" in node or "enum" in node or "const" in node:
        return node
    return {**node, "type": [kind for kind in _TYPES if kind not in ("array", "integer")]}


def _size(literal: Literal) -> int:
    value = literal.constraint.value
    return int(value) if isinstance(value, int | float) else 0


class _Texts:
    """A search for texts."""

    def __init__(self, node: Schema, literals: Sequence[Literal]) -> None:
        self.literals = literals
        self.inside: list[Language] = []
        self.outside: list[Language] = []
        self.regular = True
        self.least = int(node.get("minLength", 0))
        limits = [int(node["maxLength"])] if "maxLength" in node else []
        if "pattern" in node:
            self._add(regex_language((str(node["pattern"]),)), True)
        for literal in literals:
            kind = literal.constraint.kind
            if kind == "max_length" and literal.holds:
                limits.append(_size(literal))
            elif kind == "max_length":
                self.least = max(self.least, _size(literal) + 1)
            elif kind in ("glob", "prefix", "regex", "in", "not_in"):
                self._add(language(literal), literal.holds is not (kind == "not_in"))
            elif kind in IRREGULAR:
                self.regular = False
        self.most = min(limits, default=None)
        # Only constraints of one irregular kind, and lists: the values tried are all that matter.
        kinds = {li.constraint.kind for li in literals} - {"in", "not_in", "min", "max"}
        plain = not self.inside and not self.least and self.most is None
        self.closed = plain and len(kinds) == 1 and kinds <= IRREGULAR
        self.found: Found = self._search(())

    def _add(self, found: Language | None, holds: bool) -> None:
        if found is None:
            self.regular = False
        else:
            (self.inside if holds else self.outside).append(found)

    def _search(self, more: Sequence[Language], wanted: int = _KEPT) -> Found:
        found = search(
            [*self.inside, *more], self.outside, least=self.least, most=self.most, wanted=wanted
        )
        # An empty text is a poor example where a longer one does as well.
        texts = sorted(found.texts, key=lambda text: (not text[-1:].isalnum(), len(text)))
        complete = found.complete and not found.texts
        return Found([*texts, "x" * self.least] if self.least else texts, complete)

    def guesses(self) -> list[str]:
        """Texts that begin as a path or address that is asked for, and fit the other patterns."""
        starts = [*path_values(self.literals), *host_values(self.literals)]
        found: list[str] = list(self._search((), wanted=60).texts)
        for start in starts:
            if (begin := prefix_language((start,))) is not None:
                found += self._search((begin,), wanted=4).texts
        return list(dict.fromkeys(found))
