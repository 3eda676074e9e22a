"""Object schemas put together: both at once, one of several, and a root made of such parts."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, cast

from toolcrib.catalog.formats.subset import Schema, quoted, say, types_of
from toolcrib.catalog.formats.words import condition, names, sketch, words_for
from toolcrib.core.canonical import canonical

_LARGER = ("exclusiveMinimum", "minItems", "minLength", "minProperties", "minimum")
_SMALLER = ("exclusiveMaximum", "maxItems", "maxLength", "maxProperties", "maximum")
_CLOSING = ("additionalProperties", "unevaluatedProperties")
_CHOICE = {"const", "enum", "type", "title", "description", "default"}
_OBJECT = {"type", "properties", "required", "additionalProperties", "title", "description"}

# OpenAI: "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'const'/'not'
# at the top level". Anthropic: "input_schema does not support oneOf, allOf, or anyOf at the top
# level". Gemini: the schema must describe an object whose properties are the parameters.
AT_ROOT = ("$ref", "allOf", "anyOf", "oneOf", "enum", "const", "not")


def merge(first: Schema, second: Schema) -> Schema:
    """What is valid under both, never less; what cannot be joined is said in words."""
    second, extra = _apart(first, second)
    made = {**second, **first}
    for key in first.keys() & second.keys():
        one, two = first[key], second[key]
        if one == two or key in (*_CLOSING, "title", "default", "examples"):
            continue
        if key in _JOIN:
            made[key] = _JOIN[key](one, two)
        else:
            extra.append(words_for(key, two))
    for key in _CLOSING:
        # Properties that the other schema brings along are listed now, which only widens this.
        if False in (first.get(key), second.get(key)):
            made[key] = False
    say(made, *sorted(extra))
    return made


def _apart(first: Schema, second: Schema) -> tuple[Schema, list[str]]:
    """`second` without the keywords that only mean something together, if `first` has them too."""
    extra: list[str] = []
    for group in (("if", "then", "else"), ("contains", "minContains", "maxContains")):
        head = group[0]
        if head in first and head in second and any(first.get(k) != second.get(k) for k in group):
            part = {key: second[key] for key in group if key in second}
            extra.append(condition(part) if head == "if" else words_for(head, part[head]))
            second = {key: value for key, value in second.items() if key not in group}
    order = first.get("prefixItems"), second.get("prefixItems")
    if None not in order and order[0] != order[1]:
        # Each `items` starts where its own list ends.
        extra.append(words_for("prefixItems", order[1]))
        second = {k: v for k, v in second.items() if k not in ("prefixItems", "items")}
    return second, extra


def either(branches: list[Schema], described: Collection[str] = ()) -> Schema:
    """One object schema for all `branches`: all their properties, and what all of them need."""
    # What only some branches say of a property that is `described` already would bind the others.
    # Of any other property it is all that is known, and so the best description there is.
    made: Schema = {"type": "object"}
    seen: dict[str, dict[bytes, Schema]] = {}
    for branch in branches:
        for name, part in cast("dict[str, Schema]", branch.get("properties", {})).items():
            seen.setdefault(name, {}).setdefault(canonical(part), part)
    for name in described:
        if not all(name in branch.get("properties", {}) or _shut(branch) for branch in branches):
            seen.pop(name, None)
    if seen:
        made["properties"] = {n: _choice([*parts.values()]) for n, parts in seen.items()}
    shared = [
        name
        for name in branches[0].get("required", [])
        if all(name in branch.get("required", []) for branch in branches)
    ]
    if shared:
        made["required"] = shared
    if all(_shut(branch) for branch in branches):
        made["additionalProperties"] = False
    return made


def object_root(schema: Schema) -> Schema:
    """`schema` with an object at its root and none of the keywords of `AT_ROOT` there."""
    rest = dict(schema)
    defs = rest.pop("$defs", None)
    made = _settle(rest, defs or {}, ())
    made["type"] = "object"
    made.setdefault("properties", {})
    order = ("type", "title", "description", "properties", "required")
    made = {k: made[k] for k in order if k in made} | made
    return {**made, "$defs": defs} if defs else made


def _settle(node: Schema, defs: Schema, path: tuple[str, ...]) -> Schema:
    made = {key: value for key, value in node.items() if key not in AT_ROOT}
    simple = True
    ref = str(node.get("$ref", "")).removeprefix("#/$defs/")
    if ref in defs and ref not in path:
        made = merge(made, _settle(defs[ref], defs, (*path, ref)))
    for part in node.get("allOf", []):
        made = merge(made, _settle(part, defs, path))
    for key in ("anyOf", "oneOf"):
        branches = [_settle(part, defs, path) for part in node.get(key, [])]
        # Arguments are always an object, so an alternative that is none can never be meant.
        branches = [b for b in branches if "object" in (types_of(b) or ["object"])]
        if len(branches) == 1:
            made = merge(made, branches[0])
        elif branches:
            made = merge(made, either(branches, made.get("properties", {})))
            say(made, _alternatives(branches, only=key == "oneOf"))
            simple = simple and all(branch.keys() <= _OBJECT for branch in branches)
    for key in ("enum", "const", "not"):
        if key in node:
            say(made, _refusal(node[key]) if key == "not" else words_for(key, node[key]))
    if not simple:
        # What a branch says beyond its properties is gone, and with it what it would let through.
        made.pop("unevaluatedProperties", None)
    return made


def _alternatives(branches: list[Schema], *, only: bool) -> str:
    shown = [sketch(branch) if branch.keys() <= _OBJECT else quoted(branch) for branch in branches]
    if not all(shown):
        return ""
    how = "exactly one" if only else "at least one"
    return f"{how} of these sets of arguments is needed: {' or '.join(shown)}"


def _refusal(schema: Schema) -> str:
    if schema.keys() == {"required"} and schema["required"]:
        together = " together" if len(schema["required"]) > 1 else ""
        return f"never {names(schema['required'])}{together}"
    return words_for("not", schema)


def _choice(parts: list[Schema]) -> Schema:
    if len(parts) == 1:
        return parts[0]
    if all(part.keys() <= _CHOICE and part.keys() & {"const", "enum"} for part in parts):
        # The values that tell the alternatives apart read best as one list.
        values: list[Any] = []
        for part in parts:
            values += [v for v in part.get("enum", [part.get("const")]) if not _among(v, values)]
        kinds = [part.get("type") for part in parts]
        same = isinstance(kinds[0], str) and kinds.count(kinds[0]) == len(kinds)
        return {"type": kinds[0], "enum": values} if same else {"enum": values}
    return {"anyOf": parts}


def _shut(branch: Schema) -> bool:
    return branch.get("additionalProperties") is False and "patternProperties" not in branch


def _among(value: Any, values: list[Any]) -> bool:
    # In Python True equals 1; in JSON it does not.
    return any(value == v and isinstance(value, bool) == isinstance(v, bool) for v in values)


def _types(one: Any, two: Any) -> Any:
    left, right = types_of({"type": one}), types_of({"type": two})
    both = [kind for kind in left if kind in right or (kind == "integer" and "number" in right)]
    both += ["integer"] if "integer" in right and "number" in left and "integer" not in both else []
    return one if not both else both[0] if len(both) == 1 else both


def _properties(one: Schema, two: Schema) -> Schema:
    made = {**one, **two}
    for name in one.keys() & two.keys():
        if one[name] != two[name]:
            made[name] = {"allOf": [one[name], two[name]]}
    return made


def _joined(one: str, two: str) -> str:
    made: Schema = {"description": one}
    say(made, two)
    return made["description"]


_JOIN: dict[str, Callable[[Any, Any], Any]] = {
    "type": _types,
    "properties": _properties,
    "patternProperties": _properties,
    "required": lambda one, two: list(dict.fromkeys([*one, *two])),
    "enum": lambda one, two: [value for value in one if _among(value, two)] or one,
    "items": lambda one, two: {"allOf": [one, two]},
    "allOf": lambda one, two: [*one, *two],
    "description": _joined,
    **dict.fromkeys(_LARGER, max),
    **dict.fromkeys(_SMALLER, min),
}
