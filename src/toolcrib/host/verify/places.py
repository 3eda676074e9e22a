"""Where arguments stand in a tool's schema, and what a call that fits it looks like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from toolcrib.core.jsontext import lookup, plain
from toolcrib.core.schema import compile_schema
from toolcrib.errors import ToolcribError

Schema = Mapping[str, Any]

_MOST_BRANCHES = 16
_UNSEEN = frozenset(
    {
        "not",
        "if",
        "dependentSchemas",
        "dependentRequired",
        "dependencies",
        "unevaluatedProperties",
        "patternProperties",
        "propertyNames",
        "contains",
        "uniqueItems",
        "prefixItems",
        "multipleOf",
    }
)
"""Words of a schema that are not followed here; where one stands, nothing is certain."""


class Place(NamedTuple):
    """What the schema says of one argument."""

    branches: tuple[Schema, ...]
    """The forms it can take; none when there can be no such argument."""
    exact: bool
    """Whether the branches say everything that the schema says."""
    needed: bool
    """Whether it cannot be left out."""
    filled: bool
    """Whether a default takes its place when it is left out."""


class Shape:
    """A tool's input schema, opened."""

    def __init__(self, schema: Schema) -> None:
        self.root: Schema = plain(schema)
        self._validators: dict[int, Callable[[Any], bool]] = {}
        self._kept: list[Schema] = []

    def place(self, path: str) -> Place:
        """Where the argument at a dotted path stands."""
        nodes: tuple[Schema, ...] = (self.root,)
        exact, needed, filled = True, True, False
        for depth, name in enumerate(path.split(".")):
            found: list[Schema] = []
            always = True
            for node in nodes:
                options, whole = self.branches(node)
                exact = exact and whole
                for option in options:
                    inner, sure = _property(option, name)
                    exact = exact and sure
                    always = always and name in option.get("required", ())
                    if inner is not None:
                        found.append(inner)
                        filled = filled or (depth == 0 and "default" in inner)
            needed = needed and always and bool(found)
            nodes = tuple(found)
        ends: list[Schema] = []
        for node in nodes:
            options, whole = self.branches(node)
            exact = exact and whole
            ends += options
        return Place(tuple(ends), exact, needed, filled)

    def branches(self, node: Any) -> tuple[list[Schema], bool]:
        """The alternatives of a schema, each without choices; and whether nothing was lost."""
        return self._open(node, 0)

    def _open(self, node: Any, depth: int) -> tuple[list[Schema], bool]:
        if node is True:
            return [{}], True
        if not isinstance(node, Mapping):
            return [], True
        rules = cast("Schema", node)
        if depth > 8:
            return [{}], False
        exact = not any(word in _UNSEEN for word in rules)
        rest = {k: v for k, v in rules.items() if k not in ("$ref", "anyOf", "oneOf", "allOf")}
        found: list[Schema] = [rest]
        groups: list[list[Any]] = []
        if "$ref" in rules:
            groups.append([self._target(rules["$ref"])])
        groups += [[part] for part in rules.get("allOf", ())]
        groups += [list(rules[word]) for word in ("anyOf", "oneOf") if word in rules]
        exact = exact and not (len(rules.get("oneOf", ())) > 1)
        for group in groups:
            options: list[Schema] = []
            for part in group:
                opened, whole = self._open(part, depth + 1)
                options += opened
                exact = exact and whole
            merged: list[Schema] = []
            for base in found:
                for option in options:
                    both, whole = _merge(base, option)
                    exact = exact and whole
                    merged.append(both)
            exact = exact and len(merged) <= _MOST_BRANCHES
            found = merged[:_MOST_BRANCHES]
        return found, exact

    def _target(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#"):
            return True
        try:
            return lookup(self.root, reference[1:])
        except (LookupError, ValueError, TypeError):
            return True

    def fits(self, node: Schema, value: Any) -> bool:
        """Whether a value fits a part of the schema; what cannot be checked alone, fits."""
        check = self._validators.get(id(node))
        if check is None:
            defs = {k: self.root[k] for k in ("$defs", "definitions", "$schema") if k in self.root}
            try:
                check = compile_schema({**defs, **node}).is_valid
            except (ToolcribError, ValueError):
                check = _anything
            self._validators[id(node)] = check
            self._kept.append(node)  # an id is only good while the object lives
        return check(value)

    def arguments(
        self, values: Mapping[str, Any], example: Callable[[Schema], Any]
    ) -> dict[str, Any]:
        """A call with these values at these paths, and examples for what else is needed."""
        built = self.example(self.root, example)
        whole = cast("dict[str, Any]", built) if isinstance(built, dict) else {}
        for path in sorted(values, key=len):
            *outer, last = path.split(".")
            inner = whole
            for part in outer:
                if not isinstance(inner.get(part), dict):
                    inner[part] = {}
                inner = cast("dict[str, Any]", inner[part])
            inner[last] = values[path]
        return whole

    def example(self, node: Schema, leaf: Callable[[Schema], Any], depth: int = 0) -> Any:
        """A small value that fits, as far as can be told; `leaf` finds what is no object."""
        options, _ = self.branches(node)
        if not options or depth > 8:
            return None
        first = options[0]
        kind = first.get("type")
        if kind == "object" or (kind is None and "properties" in first):
            properties: Schema = first.get("properties", {})
            return {
                name: self.example(properties.get(name, {}), leaf, depth + 1)
                for name in first.get("required", ())
            }
        return leaf(first)


def _property(option: Schema, name: str) -> tuple[Schema | None, bool]:
    """The schema of one property, and whether it is known to be all there is to it."""
    kind = option.get("type")
    if kind is not None and "object" not in (kind if isinstance(kind, list) else [kind]):
        return None, True
    inner = option.get("properties", {}).get(name)
    if inner is None:
        inner = option.get("additionalProperties", True)
        if inner is False and "patternProperties" in option:
            return {}, False
    if inner is False:
        return None, True
    return ({} if inner is True else cast("Schema", inner)), True


_NARROWER: Mapping[str, Callable[[Any, Any], Any]] = {
    "minimum": max,
    "minLength": max,
    "minItems": max,
    "exclusiveMinimum": max,
    "maximum": min,
    "maxLength": min,
    "maxItems": min,
    "exclusiveMaximum": min,
    "required": lambda a, b: list(dict.fromkeys([*a, *b])),
    "enum": lambda a, b: [value for value in a if value in b],
}
_WORDS_ONLY = frozenset({"title", "description", "examples", "default", "$comment", "deprecated"})


def _merge(one: Schema, other: Schema) -> tuple[Schema, bool]:
    """What holds when both do, and whether that is the whole truth."""
    both = dict(one)
    exact = True
    for word, value in other.items():
        if word not in both or both[word] == value or word in _WORDS_ONLY:
            both.setdefault(word, value)
        elif word in _NARROWER:
            both[word] = _NARROWER[word](both[word], value)
        elif word == "properties":
            both[word] = {**value, **both[word]}
            exact = exact and not (value.keys() & cast("Schema", one[word]).keys())
        else:
            exact = False
    return both, exact


def _anything(value: Any) -> bool:
    return True
