"""The forms of a tool that trust needs: what is pinned, what stands in for it, what is bare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NoReturn, cast

import msgspec

from toolcrib.core.canonical import canonical, digest_bytes
from toolcrib.core.context import ToolContext
from toolcrib.core.entry import Entry, Unavailable
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import Denial
from toolcrib.protocol.mcp.definitions import RELAY, readable

Hide = Callable[[Any], Any]
"""Gives a value without secrets."""
REASON = "definition_changed"
_READ = (
    *("name", "title", "description", "input_schema", "output_schema", "effects", "idempotent"),
    *("version", "category", "tags", "permissions", "requires_approval", "annotations"),
    "config",
)
"""What is read of a tool that does not come with a definition of its own."""


def key_of(spec: ToolSpec) -> str:
    """How the lock names a tool."""
    return spec.name if spec.version == "0" else f"{spec.name}@{spec.version}"


def is_relay(spec: ToolSpec) -> bool:
    """Whether the tool is ours and only stands for something else of the server's."""
    return RELAY in spec.annotations and "definition" not in spec.config


def definition_of(spec: ToolSpec, hide: Hide) -> tuple[dict[str, Any], str]:
    """Everything of a tool that a model or a person reads, as plain JSON values, and the digest.
    A tool without a definition of its own is pinned with what runs it, secrets hidden. Raises
    ValueError for what cannot be written down."""
    raw: Any = spec.config.get("definition")
    if isinstance(raw, Mapping):
        found = readable(cast("Mapping[str, Any]", raw))
    else:
        whole = spec.to_dict()
        whole["config"] = hide(whole["config"])
        found = {key: whole[key] for key in _READ if whole[key] not in (None, [], {}, "", False)}
    try:
        text = canonical(found)
        return msgspec.json.decode(text), digest_bytes(text)
    except (TypeError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise ValueError(f"it cannot be pinned: {error}") from None


def quarantined(entry: Entry, mark: str, message: str, since: float) -> Entry:
    """What is in the catalog in a tool's place: its name, and nothing that its author says."""
    spec = ToolSpec(
        name=entry.spec.name,
        version=entry.spec.version,
        kind=entry.spec.kind,
        description="This tool is quarantined: what it says of itself has to be reviewed.",
        input_schema={"type": "object"},
        config={"quarantined": mark},
    )
    down = Unavailable(REASON, message, since)
    return Entry(spec, _refuse, owner=entry.owner, unavailable=down)


async def _refuse(ctx: ToolContext) -> NoReturn:
    raise Denial(REASON, "the tool is quarantined")


def without_words(entry: Entry, provider: str) -> Entry:
    """The tool with none of its author's prose: names, types and limits are left."""
    spec = entry.spec
    raw: Any = spec.config.get("definition")
    config = spec.config
    if isinstance(raw, Mapping):
        config = {**config, "definition": _bare_definition(cast("Mapping[str, Any]", raw))}
    own = str(config.get("tool") or spec.name)
    output = spec.output_schema
    return entry.described(
        replace(
            spec,
            title=None,
            description=f"The tool {own} of {provider}.",
            input_schema=_bare(spec.input_schema),
            output_schema=None if output is None else _bare(output),
            config=config,
            annotations={},
        )
    )


_KEPT = frozenset(
    {
        *("$schema", "$id", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor", "type", "enum"),
        *("const", "default", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "format"),
        *("exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems"),
        *("uniqueItems", "maxContains", "minContains", "maxProperties", "minProperties"),
        *("required", "dependentRequired", "contentEncoding", "contentMediaType", "readOnly"),
        *("writeOnly", "deprecated", "x-mcp-header"),
    }
)
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_INNER = frozenset(
    {
        *("items", "additionalItems", "additionalProperties", "contains", "propertyNames", "not"),
        *("if", "then", "else", "unevaluatedItems", "unevaluatedProperties", "contentSchema"),
        *("allOf", "anyOf", "oneOf", "prefixItems"),
    }
)


def _bare(schema: Any) -> Any:
    """A schema with the keywords that decide something. Those that only say something, and those
    that nobody knows, are left out."""
    if isinstance(schema, list | tuple):
        return [_bare(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, Mapping):
        return schema
    made: dict[str, Any] = {}
    for key, value in cast("Mapping[str, Any]", schema).items():
        if key in _NAMED and isinstance(value, Mapping):
            inner = cast("Mapping[str, Any]", value)
            made[key] = {name: _bare(each) for name, each in inner.items()}
        elif key in _INNER:
            made[key] = _bare(value)
        elif key in _KEPT:
            made[key] = value
    return made


def _bare_definition(raw: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: raw[key] for key in ("name", "execution") if key in raw}
    for key in ("inputSchema", "outputSchema"):
        if key in raw:
            kept[key] = _bare(raw[key])
    hints: Any = raw.get("annotations")
    if isinstance(hints, Mapping):
        told = cast("Mapping[str, Any]", hints)
        kept["annotations"] = {k: v for k, v in told.items() if isinstance(v, bool)}
    return kept
