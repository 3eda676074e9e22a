"""What a JSON Schema says of a value, as far as the command line needs it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

Schema = Mapping[str, Any]


def as_schema(value: Any) -> Schema:
    """A schema, or the one that says nothing where `value` is none."""
    return cast("Schema", value) if isinstance(value, Mapping) else {}


def options(part: Schema, root: Schema, depth: int = 8) -> list[Schema]:
    """The schemas a value may fit: references followed, alternatives spread out."""
    if depth == 0:
        return []
    reference = part.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        found: Any = root
        for step in reference[2:].split("/"):
            found = as_schema(found).get(step.replace("~1", "/").replace("~0", "~"))
        return options(as_schema(found), root, depth - 1)
    several = [*part.get("anyOf", ()), *part.get("oneOf", ()), *part.get("allOf", ())]
    if not several:
        return [part]
    return [part, *(o for each in several for o in options(as_schema(each), root, depth - 1))]


def types(part: Schema, root: Schema) -> set[str]:
    """The JSON types a value may have; empty when the schema does not say."""
    found: set[str] = set()
    for option in options(part, root):
        said = option.get("type")
        found |= {said} if isinstance(said, str) else set(said or ())
    return found


def sample_arguments(
    schema: Schema, given: Mapping[str, Any] | None = None, wrong: Collection[str] = ()
) -> dict[str, Any]:
    """Values for what the schema requires; those given are kept unless they are wrong."""
    properties: Mapping[str, Any] = schema.get("properties") or {}
    required: list[str] = list(schema.get("required") or ())
    kept = {k: v for k, v in (given or {}).items() if k in properties and k not in wrong}
    made: dict[str, Any] = {}
    for index, name in enumerate(properties):
        if name in kept:
            made[name] = kept[name]
        elif name in required:
            made[name] = _sample(properties[name], schema, index)
    return made


def _sample(part: Any, root: Schema, index: int) -> Any:
    known = as_schema(part)
    for name in ("const", "default"):
        if known.get(name) is not None:
            return known[name]
    for name in ("examples", "enum"):
        if known.get(name):
            return known[name][0]
    wanted = types(known, root)
    low = known.get("minimum")
    if "string" in wanted or not wanted:
        return "text"
    if "integer" in wanted:
        return max(int(low), index + 1) if isinstance(low, int) else index + 1
    if "number" in wanted:
        return low if isinstance(low, int | float) else index + 0.5
    if "boolean" in wanted:
        return True
    if "array" in wanted:
        return [_sample(known.get("items"), root, index)]
    return sample_arguments(known) if "object" in wanted else None
