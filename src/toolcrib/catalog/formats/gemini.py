"""Function declarations for the Gemini API and Vertex AI."""

from __future__ import annotations

import math
from typing import Any, cast

from toolcrib.catalog.formats.objects import merge, object_root
from toolcrib.catalog.formats.references import gather, inline
from toolcrib.catalog.formats.subset import Schema, each, modern, say, types_of
from toolcrib.catalog.formats.words import condition, words_for
from toolcrib.core.spec import ToolSpec

# `parametersJsonSchema` is documented next to `parameters` and excludes it. The older field is an
# OpenAPI subset whose parser refuses a request for one unknown key; the newer one takes JSON
# Schema, of which the reference documents these keywords as understood. ($ref is documented too,
# but references to $defs have been refused in practice, so they are written out. `oneOf` is read
# as `anyOf`, so that is what is sent.)
_UNDERSTOOD = frozenset(
    {
        "type",
        "title",
        "description",
        "format",
        "enum",
        "anyOf",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
    }
)

# Any other format is refused for some types or ignored.
_FORMATS = {"date-time", "date", "time", "int32", "int64", "float", "double"}

_ABOUT = ("title", "description", "default", "examples", "deprecated")

_TEXT = frozenset(
    {"minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"}
)
_NUMBER = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format"}
)
_ARRAY = frozenset(
    {
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "uniqueItems",
        "contains",
        "minContains",
        "maxContains",
        "unevaluatedItems",
    }
)
_OBJECT = frozenset(
    {
        "properties",
        "required",
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
        "dependentRequired",
        "dependentSchemas",
        "unevaluatedProperties",
    }
)
_TYPED = _TEXT | _NUMBER | _ARRAY | _OBJECT
_ONLY_FOR = {
    "string": _TEXT,
    "number": _NUMBER,
    "integer": _NUMBER,
    "array": _ARRAY,
    "object": _OBJECT,
}


def gemini(spec: ToolSpec) -> dict[str, Any]:
    """`spec` as a Gemini function declaration."""
    # The description is a required field of a declaration.
    made: dict[str, Any] = {
        "name": spec.wire_name,
        "description": spec.description or spec.title or spec.name,
    }
    root = _reduce(inline(object_root(gather(modern(spec.input_schema)))))
    closed = root.get("additionalProperties") is False
    if closed and not root.get("properties") and "description" not in root:
        # "For function with no parameters, this can be left unset": an object without properties
        # has been refused.
        return made
    made["parametersJsonSchema"] = root
    return made


def _reduce(node: Schema) -> Schema:
    """`node` in the keywords that are understood, the others in words."""
    node = _joined(node)
    about = {key: node[key] for key in _ABOUT if key in node}
    body = {key: value for key, value in node.items() if key not in _ABOUT}
    if "enum" in body or "const" in body:
        made = _values(body)
    elif "anyOf" in body or "oneOf" in body:
        made = _union(body)
    elif isinstance(body.get("type"), list):
        # A list of types has been refused; alternatives of one type each say the same.
        made = _one_of([_reduce(_only(body, kind)) for kind in types_of(body)])
    else:
        made = _single(body)
    return _described(made, about)


def _joined(node: Schema) -> Schema:
    """`node` with its `allOf`, which is not understood, merged into it."""
    while "allOf" in node:
        parts = cast("list[Schema]", node["allOf"])
        node = {key: value for key, value in node.items() if key != "allOf"}
        for part in parts:
            node = merge(node, _joined(part))
    return node


def _union(body: Schema) -> Schema:
    # Nothing but the alternatives may stand beside them, so each alternative takes the rest along.
    key = "anyOf" if "anyOf" in body else "oneOf"
    rest = {k: v for k, v in body.items() if k != key}
    return _one_of([_reduce(merge(rest, _joined(part))) for part in body[key]])


def _one_of(branches: list[Schema]) -> Schema:
    different = [b for i, b in enumerate(branches) if b not in branches[:i]]
    return different[0] if len(different) == 1 else {"anyOf": different}


def _only(body: Schema, kind: str) -> Schema:
    own = _ONLY_FOR.get(kind, frozenset[str]())
    kept = {key: value for key, value in body.items() if key in own or key not in _TYPED}
    return {**kept, "type": kind}


def _values(body: Schema) -> Schema:
    """Values listed by type: the list is understood for strings and numbers only."""
    listed = cast("list[Any]", body["enum"] if "enum" in body else [body["const"]])
    groups: dict[str, list[Any]] = {}
    for value in listed:
        groups.setdefault(_kind(value), []).append(value)
    kinds = types_of(body)
    if kinds:
        known = {*kinds, *(["number"] if "integer" in kinds else [])}
        groups = {kind: part for kind, part in groups.items() if kind in known} or groups
    return _one_of([_listed(kind, values) for kind, values in groups.items()])


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def _listed(kind: str, values: list[Any]) -> Schema:
    if kind == "string":
        return {"type": kind, "enum": values}
    if kind == "number":
        whole = all(isinstance(value, int) or value.is_integer() for value in values)
        return {"type": "integer" if whole else "number", "enum": values}
    made: Schema = {"type": kind}
    if kind in ("array", "object") or (kind == "boolean" and len(values) == 1):
        say(made, words_for("enum", values) if len(values) > 1 else words_for("const", values[0]))
    return made


def _single(body: Schema) -> Schema:
    body = _closed(_bounded(body))
    absent = [n for n, part in body.get("properties", {}).items() if part == {"not": {}}]
    if absent:
        body["properties"] = {n: p for n, p in body["properties"].items() if n not in absent}
    # Everything is said from the original, before what is below it gets reduced.
    said = [f"`{name}` must not be given" for name in absent]
    said += [words_for(key, body[key]) for key in body if key not in _UNDERSTOOD]
    said.append(condition(body))
    if body.get("format", "date") not in _FORMATS:
        said.append(words_for("format", body.pop("format")))
    made = each({key: body[key] for key in body if key in _UNDERSTOOD}, _reduce)
    if made.get("properties") == {}:
        del made["properties"]
    say(made, *said)
    return made


def _bounded(body: Schema) -> Schema:
    """Exclusive bounds as inclusive ones: the same for integers, one value wider for numbers."""
    made = dict(body)
    whole = body.get("type") == "integer"
    for exclusive, bound, pick in (
        ("exclusiveMinimum", "minimum", max),
        ("exclusiveMaximum", "maximum", min),
    ):
        if exclusive not in made:
            continue
        limit = made[exclusive]
        if whole:
            limit = math.floor(limit) + 1 if pick is max else math.ceil(limit) - 1
            del made[exclusive]
        made[bound] = pick(limit, made.get(bound, limit))
    return made


def _closed(body: Schema) -> Schema:
    """`additionalProperties` where it still means the same without its neighbours."""
    made = dict(body)
    sight = made.pop("unevaluatedProperties", None)
    beyond = any(key in made for key in ("if", "dependentSchemas"))
    if sight is not None and "additionalProperties" not in made and not beyond:
        made["additionalProperties"] = sight
    if made.get("additionalProperties") in (True, {}) or "patternProperties" in made:
        made.pop("additionalProperties", None)
    return made


def _described(made: Schema, about: Schema) -> Schema:
    own = made.pop("description", "")
    text: Schema = {"description": about["description"]} if about.get("description") else {}
    say(text, own)
    later = ("default", "examples", "deprecated")
    say(text, *(words_for(key, about[key]) for key in later if key in about))
    title = {"title": about["title"]} if "title" in about else {}
    head = {"type": made.pop("type")} if "type" in made else {}
    return {**head, **title, **text, **made}
