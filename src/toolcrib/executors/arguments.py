"""What a tool's schema says about each argument, as far as a command line has to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from toolcrib.core.jsontext import lookup
from toolcrib.core.spec import ToolSpec
from toolcrib.core.units import did_you_mean
from toolcrib.errors import SpecError

SCALARS = frozenset({"string", "integer", "number", "boolean"})
_ARRAY = frozenset({"array"})
_BOOLEAN = frozenset({"boolean"})


@dataclass(frozen=True, slots=True)
class Argument:
    """One property of the input schema."""

    name: str
    kinds: frozenset[str]
    """The JSON types it may have; empty when the schema does not say."""
    items: frozenset[str]
    """The JSON types of its items, where it may be an array."""
    always: bool
    """Whether every call has it: required, or with a default, and never null."""
    listed: bool
    """Whether its values are an enumeration."""

    @property
    def is_scalar(self) -> bool:
        """Whether it becomes one argument of a command."""
        kinds = self.kinds - {"null"}
        return bool(kinds) and kinds <= SCALARS

    @property
    def is_list(self) -> bool:
        """Whether it becomes several arguments of a command."""
        return self.kinds - {"null"} == _ARRAY and bool(self.items) and self.items <= SCALARS

    @property
    def is_flag(self) -> bool:
        """Whether it is true or false."""
        return self.kinds - {"null"} == _BOOLEAN


def read_arguments(spec: ToolSpec) -> dict[str, Argument]:
    """The arguments of a tool, by name."""
    schema = spec.input_schema
    properties: Mapping[str, Any] = schema.get("properties") or {}
    required: Sequence[str] = schema.get("required") or ()
    return {name: _argument(name, schema, part, required) for name, part in properties.items()}


def _argument(
    name: str, schema: Mapping[str, Any], part: object, required: Sequence[str]
) -> Argument:
    inner = _resolved(schema, part)
    kinds = _kinds(schema, part)
    given = name in required or inner.get("default") is not None
    return Argument(
        name=name,
        kinds=kinds,
        items=_kinds(schema, inner.get("items")),
        always=given and "null" not in kinds,
        listed="enum" in inner or "const" in inner,
    )


def _resolved(schema: Mapping[str, Any], part: object) -> Mapping[str, Any]:
    """The schema itself, behind references into the same document."""
    for _ in range(16):
        if not isinstance(part, Mapping):
            return {}
        found = cast("Mapping[str, Any]", part)
        reference = found.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return found
        try:
            part = lookup(schema, reference[1:])
        except (KeyError, IndexError, ValueError, LookupError):
            return {}
    return {}


def _kinds(schema: Mapping[str, Any], part: object, depth: int = 0) -> frozenset[str]:
    found = _resolved(schema, part)
    told = found.get("type")
    if isinstance(told, str):
        return frozenset({told})
    if isinstance(told, list | tuple):
        return frozenset(str(kind) for kind in cast("list[Any]", told))
    if "const" in found:
        return frozenset({_kind_of(found["const"])})
    if "enum" in found:
        return frozenset(_kind_of(value) for value in cast("list[Any]", found["enum"]))
    kinds: set[str] = set()
    for choice in cast("list[Any]", found.get("anyOf") or found.get("oneOf") or ()):
        inner = _kinds(schema, choice, depth + 1) if depth < 16 else frozenset[str]()
        if not inner:
            return inner
        kinds |= inner
    return frozenset(kinds)


def _kind_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, Mapping) else "array"


def unknown(name: str, known: Mapping[str, Any], spec: ToolSpec, key: str) -> SpecError:
    """The mistake of naming an argument that the schema does not have."""
    close = did_you_mean(name, known)
    hint = f"Did you mean {close}?" if close else f"Known: {', '.join(known) or 'none'}"
    return SpecError(
        f"tool {spec.name}: {key} names {name!r}, which is not in input_schema.properties",
        key=key,
        cure=hint,
    )
