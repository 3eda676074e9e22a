"""The subschemas of a JSON Schema, where each leads, and what following them costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from toolcrib.core.jsontext import lookup

LONGEST_CHAIN = 200
ENDLESS = 1 << 40
"""What `visits` answers for references that lead on without end."""

Node = dict[str, Any]
Steps = tuple[str | int, ...]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_REFERENCES = _words("$ref $dynamicRef $recursiveRef")
PATTERNS = _words("pattern patternProperties")
_NAMES = _words("$anchor $dynamicAnchor $id id")
_SAME_VALUE = _words("allOf anyOf oneOf not if then else dependentSchemas dependencies")
_ONE_OF_THEM = _words("properties prefixItems")
_APPLIED = _SAME_VALUE | _words(
    "properties patternProperties additionalProperties unevaluatedProperties propertyNames "
    "items prefixItems additionalItems unevaluatedItems contains"
)
_UNUSED = _words("$defs definitions contentSchema")
_MAPS = _words("properties patternProperties dependentSchemas dependencies $defs definitions")

_LEAF: Node = {}


class Graph:
    """A schema's subschemas, and where each of them leads."""

    __slots__ = ("_anchors", "_chain", "_edges", "_known", "nodes", "references", "root", "steps")

    def __init__(self, root: Node) -> None:
        self.root = root
        self.nodes: list[Node] = []
        self.steps: dict[int, Steps] = {}
        self.references: list[tuple[Steps, str, Node | None]] = []
        self._anchors: dict[str, Node] = {}
        self._edges: dict[int, list[tuple[str, str | int | None, Node]]] = {}
        self._known: dict[tuple[int, int | None], int] = {}
        self._chain = 0
        self._add(root, ())
        for node in self.nodes:  # grows: a reference may lead to where no keyword does
            for keyword in _REFERENCES & node.keys():
                target = self._target(node[keyword])
                steps = (*self.steps[id(node)], keyword)
                self.references.append((steps, str(node[keyword]), target))
                if target is not None:
                    self._edges[id(node)].append((keyword, None, target))
                    if id(target) not in self.steps:
                        self._add(target, steps)

    def _add(self, start: Node, steps: Steps) -> None:
        stack = [(start, steps)]
        while stack:
            node, steps = stack.pop()
            self.nodes.append(node)
            self.steps[id(node)] = steps
            edges = self._edges[id(node)] = []
            for keyword, value in node.items():
                if keyword in _NAMES and isinstance(value, str):
                    self._anchors.setdefault(value.removeprefix("#"), node)
                if keyword not in _APPLIED and keyword not in _UNUSED:
                    continue
                for key, part in parts(keyword, value):
                    if isinstance(part, dict):
                        child = cast("Node", part)
                        stack.append((child, (*steps, keyword, *(() if key is None else (key,)))))
                        if keyword in _APPLIED:
                            edges.append((keyword, key, child))

    def _target(self, reference: Any) -> Node | None:
        found: Any = None
        if isinstance(reference, str) and reference.startswith("#"):
            pointer = reference[1:2] in ("", "/")
            found = at(self.root, reference) if pointer else self._anchors.get(reference[1:])
        if isinstance(found, bool):  # `true` and `false` are schemas too, and lead nowhere
            return _LEAF
        return cast("Node", found) if isinstance(found, dict) else None

    def visits(self, node: Node, levels: int | None) -> int:
        """How many subschemas one value and what is in it, so many levels deep, may meet.

        Without a limit of levels a recursion counts once, as for the engine, which remembers.
        """
        mark = (id(node), levels)
        if mark in self._known:
            return self._known[mark]
        if self._chain > LONGEST_CHAIN:
            return ENDLESS
        self._known[mark] = 0 if levels is None else ENDLESS
        self._chain += 1
        total, widest = 1, 0
        for keyword, _, child in self._edges[id(node)]:
            if keyword in _SAME_VALUE or keyword in _REFERENCES:
                total += self.visits(child, levels)
            elif levels != 0:
                below = self.visits(child, levels and levels - 1)
                if keyword in _ONE_OF_THEM:  # a value has one name, so it meets one of these
                    widest = max(widest, below)
                else:
                    total += below
        self._chain -= 1
        self._known[mark] = min(total + widest, ENDLESS)
        return self._known[mark]

    def secrets(self) -> frozenset[str] | None:
        """The properties whose values are not to be shown; None when it may be any."""
        names: set[str] = set()
        stack: list[tuple[Node, str | None]] = [(self.root, None)]
        seen: set[tuple[int, str | None]] = set()
        while stack:
            node, name = stack.pop()
            if (id(node), name) in seen:
                continue
            seen.add((id(node), name))
            if node.get("writeOnly") is True or node.get("format") == "password":
                if name is None:
                    return None
                names.add(name)
            for keyword, key, child in self._edges[id(node)]:
                stack.append((child, str(key) if keyword == "properties" else name))
        return frozenset(names)


def parts(keyword: str, value: Any) -> Iterable[tuple[str | int | None, Any]]:
    """The schemas, or patterns, that one keyword holds, each with its name or number."""
    if isinstance(value, list):
        return enumerate(cast("list[Any]", value))
    if isinstance(value, dict) and keyword in _MAPS:
        return cast("Node", value).items()
    return ((None, cast("Any", value)),)


def at(root: Mapping[str, Any], reference: str) -> Any:
    """What a reference such as `#/$defs/a` points at, or None."""
    if "%" in reference:
        from urllib.parse import unquote

        reference = unquote(reference)
    try:
        return lookup(root, reference[1:])
    except LookupError:
        return None
