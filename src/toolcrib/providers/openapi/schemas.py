"""Schemas of a document as JSON Schema 2020-12 that stands alone."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

import msgspec

from toolcrib.core.schema import MAX_NODES, admit
from toolcrib.errors import SchemaError
from toolcrib.providers.openapi.document import Document, Node, Unusable

_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_ONE = ("items", "not", "if", "then", "else", "contains", "propertyNames", "additionalProperties")
_ONE_MORE = ("unevaluatedItems", "unevaluatedProperties")
_MANY = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "dependentSchemas")
_KEPT = [
    "title",
    "enum",
    "const",
    "format",
    "multipleOf",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minContains",
    "maxContains",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "deprecated",
]
_LONGEST = 300
_MOST = 4 * MAX_NODES
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_.-]")


class SchemaWriter:
    """Writes one tool's schemas; what they refer to goes to `definitions`."""

    def __init__(
        self, document: Document, *, words: bool = True, levels: int | None = None
    ) -> None:
        self._document = document
        self._words = words
        self._levels = levels
        """How many references deep schemas are kept; deeper ones accept anything."""
        self._left = _MOST
        self.definitions: dict[str, Any] = {}
        self._names: dict[str, str] = {}
        self._waiting: deque[tuple[str, str, int]] = deque()

    def write(self, schema: Any) -> Any:
        """A schema of the document, with all that it refers to."""
        made = self._schema(schema, 0)
        while self._waiting:
            name, reference, level = self._waiting.popleft()
            if self._levels is not None and level > self._levels:
                self.definitions[name] = {}
            else:
                target = self._document.target(reference)
                self.definitions[name] = self._schema(target, level)
        return made

    def _schema(self, schema: Any, level: int) -> Any:
        self._document.go_on()
        self._left -= 1
        if self._left < 0:
            # A schema of that size is refused anyway; writing all of it could take for ever.
            raise SchemaError(f"it has more than {_MOST} parts")
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping):
            raise Unusable("one of its schemas is not an object")
        node = cast("Node", schema)
        if "$ref" in node:
            return self._reference(node, level)
        made = self._plain(node, level)
        return _dated(made, node) if self._document.old else made

    def _reference(self, node: Node, level: int) -> dict[str, Any]:
        reference = node["$ref"]
        self._document.target(reference)
        name = self._names.get(reference)
        if name is None:
            stem = _NOT_IN_NAME.sub("_", str(reference).rsplit("/", 1)[-1]) or "root"
            name, count = stem, 1
            while name in self.definitions:
                count += 1
                name = f"{stem}_{count}"
            self._names[reference] = name
            self.definitions[name] = {}
            self._waiting.append((name, reference, level + 1))
        # In 3.0 nothing beside a reference means anything.
        beside = {} if self._document.old else self._plain(node, level)
        return {**beside, "$ref": f"#/$defs/{name}"}

    def _plain(self, node: Node, level: int) -> dict[str, Any]:
        made: dict[str, Any] = {key: node[key] for key in _KEPT if key in node}
        kind = _type(node.get("type"))
        if kind:
            made["type"] = kind
        for key in (*_ONE, *_ONE_MORE):
            if key in node:
                made[key] = self._schema(node[key], level)
        for key in _MANY:
            if isinstance(node.get(key), list) and node[key]:
                made[key] = [self._schema(item, level) for item in node[key]]
        for key in _NAMED:
            if isinstance(node.get(key), Mapping):
                made[key] = {
                    name: self._schema(item, level)
                    for name, item in cast("Node", node[key]).items()
                    if not self._read_only(item)
                }
        _require(made, node)
        pattern = node.get("pattern")
        if isinstance(pattern, str) and _usable(pattern):
            made["pattern"] = pattern
        if self._words and (words := said(node)):
            made["description"] = words
        return made

    def _read_only(self, schema: Any) -> bool:
        """Whether a property is only ever sent by the server."""
        try:
            return self._document.follow(schema).get("readOnly") is True
        except Unusable:
            return False


def said(node: Node, longest: int = _LONGEST) -> str:
    """The description of a part. A default is told, not kept: a host fills in what a schema gives
    as default, and a server would take that for a wish (a PATCH would reset what it omits)."""
    words = str(node.get("description") or "").strip()
    if len(words) > longest:
        words = words[: longest - 1] + "…"
    default = node.get("default")
    if default is not None and isinstance(default, str | int | float | bool):
        told = f"Default: {msgspec.json.encode(default).decode()[:80]}."
        words = f"{words} {told}" if words else told
    return words


def _type(kind: Any) -> Any:
    if isinstance(kind, list):
        known = [k for k in dict.fromkeys(cast("list[Any]", kind)) if k in _TYPES]
        return known or None
    return kind if isinstance(kind, str) and kind in _TYPES else None


def _require(made: dict[str, Any], node: Node) -> None:
    needed: Any = node.get("required")
    if not isinstance(needed, list):
        return
    gone: set[Any] = set()
    if isinstance(node.get("properties"), Mapping):
        gone = set(node["properties"]) - set(made["properties"])
    names = [n for n in dict.fromkeys(cast("list[Any]", needed)) if isinstance(n, str)]
    if kept := [name for name in names if name not in gone]:
        made["required"] = kept


def _dated(made: dict[str, Any], node: Node) -> dict[str, Any]:
    """The words of 3.0 that JSON Schema has others for."""
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        said = made.get(exclusive)
        if isinstance(said, bool):
            del made[exclusive]
            if said and bound in made:
                made[exclusive] = made.pop(bound)
    if node.get("nullable") is not True:
        return made
    if isinstance(made.get("enum"), list) and None not in made["enum"]:
        made["enum"] = [*made["enum"], None]
    if isinstance(made.get("type"), str):
        made["type"] = [made["type"], "null"]
        if any(key in made for key in ("allOf", "anyOf", "oneOf", "not")):
            words = {k: made.pop(k) for k in ("title", "description") if k in made}
            return {**words, "anyOf": [made, {"type": "null"}]}
    elif any(key in made for key in ("allOf", "anyOf", "oneOf")):
        words = {k: made.pop(k) for k in ("title", "description") if k in made}
        return {**words, "anyOf": [made, {"type": "null"}]}
    return made


@lru_cache(4096)
def _usable(pattern: str) -> bool:
    """Whether the engine takes a pattern; one that it does not is left to the server."""
    try:
        admit({"type": "object", "properties": {"a": {"pattern": pattern}}})
    except SchemaError:
        return False
    return True
