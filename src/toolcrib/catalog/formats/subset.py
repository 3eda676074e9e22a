"""Schemas on their way to a provider: copied, made JSON Schema 2020-12, walked, described."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import msgspec

Schema = dict[str, Any]

_ONE = (
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")

# A boolean is an ordinary value of these, and every provider takes it as such.
_BOOLEANS = ("additionalProperties", "unevaluatedItems", "unevaluatedProperties")

# Where a schema says which draft it is, the providers refuse the key or only know 2020-12.
_IDENTITY = ("$schema", "$id", "id", "$comment", "$vocabulary", "$recursiveAnchor")
_OLD_DRAFTS = ("draft-03", "draft-04", "draft-06", "draft-07")

_LONGEST = 300
"""How much of a schema is quoted in a description; more helps no model."""


def each(node: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """A copy of `node` in which `change` was applied to every schema directly below it."""
    made = dict(node)
    for key in _ONE:
        if isinstance(made.get(key), dict):
            made[key] = change(made[key])
    for key in _LISTS:
        if isinstance(made.get(key), list):
            made[key] = [change(part) for part in made[key]]
    for key in _MAPS:
        if isinstance(made.get(key), dict):
            made[key] = {name: change(part) for name, part in made[key].items()}
    return made


def modern(schema: Mapping[str, Any]) -> Schema:
    """A deep copy of `schema` in JSON Schema 2020-12, whichever draft it was written in."""
    copy = cast("Schema", plain(schema))
    old = any(draft in str(copy.get("$schema", "")) for draft in _OLD_DRAFTS)
    return _modern(copy, old)


def plain(value: Any) -> Any:
    """A deep copy of `value` made of dicts and lists."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast("Iterable[Any]", value)]
    return value


def _modern(node: Any, old: bool) -> Schema:
    if not isinstance(node, dict):
        return {} if node else {"not": {}}
    schema = {k: v for k, v in cast("Schema", node).items() if k not in _IDENTITY}
    for key in ("$dynamicRef", "$recursiveRef"):
        if key in schema:
            schema.setdefault("$ref", schema.pop(key))
    if old and "$ref" in schema:
        # Up to draft-07 nothing beside a $ref counts, so nothing there may start to count now.
        kept = ("$ref", "$defs", "definitions", "title", "description", "default")
        schema = {k: v for k, v in schema.items() if k in kept}
    if "if" not in schema:
        schema.pop("then", None)
        schema.pop("else", None)
    _modern_items(schema)
    _modern_bounds(schema)
    needs = cast("Schema", schema.pop("dependencies", None) or {})
    for name, need in needs.items():
        home = "dependentRequired" if isinstance(need, list) else "dependentSchemas"
        schema.setdefault(home, {}).setdefault(name, need)
    for key in _ONE:
        if key in schema and not (key in _BOOLEANS and isinstance(schema[key], bool)):
            schema[key] = _modern(schema[key], old)
    for key in _LISTS:
        if isinstance(schema.get(key), list):
            schema[key] = [_modern(part, old) for part in schema[key]]
    for key in _MAPS:
        if isinstance(schema.get(key), dict):
            schema[key] = {name: _modern(part, old) for name, part in schema[key].items()}
    return schema


def _modern_items(schema: Schema) -> None:
    rest = schema.pop("additionalItems", None)
    if isinstance(schema.get("items"), list):
        schema["prefixItems"] = schema.pop("items")
        if rest is not None:
            schema["items"] = rest
    if schema.get("items") is False:
        # OpenAI takes no boolean here, and a longest length says the same.
        del schema["items"]
        longest = len(schema.get("prefixItems", ()))
        schema["maxItems"] = min(longest, schema.get("maxItems", longest))


def _modern_bounds(schema: Schema) -> None:
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(schema.get(exclusive), bool):
            strict = schema.pop(exclusive)
            if strict and bound in schema:
                schema[exclusive] = schema.pop(bound)


def say(node: Schema, *words: str) -> None:
    """Add `words` to the description of `node`, as one sentence."""
    said = "; ".join(word for word in words if word)
    if not said:
        return
    sentence = said[0].upper() + said[1:]
    sentence += "" if sentence.endswith((".", "…")) else "."
    before = str(node.get("description", "")).rstrip()
    if before and before[-1] not in ".!?:;…":
        before += "."
    node["description"] = f"{before} {sentence}".strip()


def quoted(value: Any) -> str:
    """`value` as JSON, short enough for a description; what was cut shows as `…`."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def types_of(node: Schema) -> list[str]:
    """The types that `node` names, if any."""
    named = node.get("type", [])
    return [named] if isinstance(named, str) else list(named)
