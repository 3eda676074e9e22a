"""What a schema alone tells, so that a call need not ask it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

NUMBERS = ("integer", "number", "boolean", "null")


def plain_outputs(schema: Mapping[str, Any] | None) -> frozenset[type]:
    """Python types that surely fit an output schema, and hold nothing to hide or to cut."""
    numbers: dict[str, set[type]] = {
        "integer": {int},
        "number": {int, float},
        "boolean": {bool},
        "null": {type(None)},
    }
    found: set[type] = set()
    for name, types in numbers.items():
        if schema is None or (len(schema) == 1 and schema.get("type") == name):
            found |= types
    return frozenset(found)


def only(schema: Mapping[str, Any], types: Collection[str]) -> bool:
    """Whether arguments that fit the schema are all of these types."""
    if schema.get("additionalProperties") is not False or "patternProperties" in schema:
        return False
    properties: Mapping[str, Any] = schema.get("properties", {})
    found = [part.get("type") for part in properties.values() if hasattr(part, "get")]
    return len(found) == len(properties) and all(kind in types for kind in found)
