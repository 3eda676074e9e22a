"""What a provider's schema cannot say, said in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from toolcrib.catalog.formats.subset import Schema, quoted


def _count(limit: str, one: str, many: str) -> Callable[[Any], str]:
    return lambda value: f"{limit} {value} {one if value == 1 else many}"


def _needs(value: dict[str, list[str]]) -> str:
    return "; ".join(f"`{name}` needs {names(others)}" for name, others in value.items() if others)


def _patterns(value: Schema) -> str:
    parts = (f"a property named like `{key}`: {quoted(part)}" for key, part in value.items())
    return "; ".join(parts)


def names(words: list[str]) -> str:
    """`a`, `b` and `c`."""
    marked = [f"`{word}`" for word in words]
    return " and ".join([", ".join(marked[:-1]), marked[-1]] if len(marked) > 1 else marked)


_WORDS: dict[str, Callable[[Any], str]] = {
    "minLength": _count("at least", "character", "characters"),
    "maxLength": _count("at most", "character", "characters"),
    "pattern": lambda value: f"matches the pattern `{value}`",
    "format": lambda value: f"format {value}",
    "contentEncoding": lambda value: f"encoded as {value}",
    "contentMediaType": lambda value: f"content of type {value}",
    "exclusiveMinimum": lambda value: f"more than {value}",
    "exclusiveMaximum": lambda value: f"less than {value}",
    "multipleOf": lambda value: f"a multiple of {value}",
    "uniqueItems": lambda value: "no item twice" if value else "",
    "contains": lambda value: f"contains an item that matches {quoted(value)}",
    "prefixItems": lambda value: f"items in this order: {quoted(value)}",
    "minContains": lambda value: f"at least {value} such items",
    "maxContains": lambda value: f"at most {value} such items",
    "minProperties": _count("at least", "property", "properties"),
    "maxProperties": _count("at most", "property", "properties"),
    "propertyNames": lambda value: f"property names match {quoted(value)}",
    "patternProperties": _patterns,
    "dependentRequired": _needs,
    "dependentSchemas": lambda value: f"with such a property also: {quoted(value)}",
    "enum": lambda value: f"one of {', '.join(quoted(item) for item in value)}",
    "const": lambda value: f"exactly {quoted(value)}",
    "not": lambda value: f"must not match {quoted(value)}",
    "anyOf": lambda value: f"matches at least one of {quoted(value)}",
    "oneOf": lambda value: f"matches exactly one of {quoted(value)}",
    "allOf": lambda value: f"matches all of {quoted(value)}",
    "type": lambda value: f"type {quoted(value)}",
    "default": lambda value: f"default {quoted(value)}",
    "examples": lambda value: f"for example {', '.join(quoted(item) for item in value[:3])}",
    "deprecated": lambda value: "deprecated" if value else "",
}


def words_for(keyword: str, value: Any) -> str:
    """The constraint `keyword: value` in a few words; nothing for what constrains nothing."""
    spoken = _WORDS.get(keyword)
    return spoken(value) if spoken else ""


def condition(node: Schema) -> str:
    """`if`, `then` and `else` of `node` in words."""
    if "if" not in node:
        return ""
    then = f" then {quoted(node['then'])}" if "then" in node else ""
    other = f" otherwise {quoted(node['else'])}" if "else" in node else ""
    return f"if {quoted(node['if'])}{then}{other}" if then or other else ""


def sketch(branch: Schema) -> str:
    """One alternative of a union of objects: what it needs, and the values it fixes."""
    properties = cast("dict[str, Schema]", branch.get("properties", {}))
    fixed = {
        name: part["const"] if "const" in part else part["enum"][0]
        for name, part in properties.items()
        if "const" in part or len(part.get("enum", ())) == 1
    }
    needed = list(dict.fromkeys([*branch.get("required", []), *fixed]))
    said = [f"`{name}`" + (f" = {quoted(fixed[name])}" if name in fixed else "") for name in needed]
    return f"({', '.join(said)})" if said else ""
