"""Tools as the Model Context Protocol lists them."""

from __future__ import annotations

from typing import Any, cast

from toolcrib.catalog.formats.references import find
from toolcrib.catalog.formats.subset import Schema, plain
from toolcrib.core.spec import ToolSpec


def mcp(spec: ToolSpec) -> dict[str, Any]:
    """`spec` as an MCP `Tool`."""
    made: dict[str, Any] = {"name": spec.wire_name}
    if spec.title:
        made["title"] = spec.title
    if spec.description:
        made["description"] = spec.description
    # Any JSON Schema of its declared draft is welcome here, with an object at the root.
    made["inputSchema"] = {**plain(spec.input_schema), "type": "object"}
    output = cast("Schema | None", plain(spec.output_schema))
    if output is not None and _is_object(output):
        # Clients of the revisions before 2026 refuse a whole list for an output that is no object.
        made["outputSchema"] = {**output, "type": "object"}
    made["annotations"] = _hints(spec)
    return made


def _is_object(schema: Schema) -> bool:
    target = find(schema, schema["$ref"]) if "$ref" in schema else None
    return "object" in (schema.get("type"), (target or {}).get("type"))


def _hints(spec: ToolSpec) -> dict[str, bool]:
    # With unknown effects each hint is the protocol's own default, which is the worst case.
    known = spec.effects is not None
    effects = spec.effects or frozenset()
    return {
        "readOnlyHint": spec.read_only,
        # Code that is run can do anything, so it counts as the worst.
        "destructiveHint": not known or not effects.isdisjoint({"destructive", "execute"}),
        "idempotentHint": spec.idempotent or spec.read_only,
        "openWorldHint": not known or not effects.isdisjoint({"egress", "execute"}),
    }
