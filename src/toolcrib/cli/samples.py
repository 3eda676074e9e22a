"""Arguments that would fit, to show people what a call looks like."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Mapping
from typing import Any

from toolcrib.cli.arguments import Schema, as_schema, convert, types


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


def typed(arguments: Mapping[str, Any], schema: Schema) -> list[str]:
    """The arguments as words of a command line that this program reads back."""
    words: list[str] = []
    properties: Mapping[str, Any] = schema.get("properties") or {}
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value)
        read = convert(text, as_schema(properties.get(name)), schema)
        # True is not 1, and a list of one is not its item.
        plain = read == value and type(read) is type(value) and not text.startswith("@")
        if plain and isinstance(value, str | int | float):
            words.append(shlex.quote(f"{name}={text}"))
        else:
            words.append(shlex.quote(f"{name}:={json.dumps(value, ensure_ascii=False)}"))
    return words
