"""Tools for Anthropic's Messages API."""

from __future__ import annotations

import re
from typing import Any

from toolcrib.catalog.formats.objects import object_root
from toolcrib.catalog.formats.references import gather
from toolcrib.catalog.formats.subset import Schema, each, modern, quoted, say
from toolcrib.core.spec import ToolSpec

# "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'": one other key and the request is
# refused with every tool in it.
_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}").fullmatch


def anthropic(spec: ToolSpec) -> dict[str, Any]:
    """`spec` as a tool of the Messages API."""
    made: dict[str, Any] = {"name": spec.wire_name}
    if spec.description or spec.title:
        made["description"] = spec.description or spec.title
    # "It must match JSON Schema draft 2020-12": `modern` sees to that.
    made["input_schema"] = _accepted(object_root(gather(modern(spec.input_schema))))
    return made


def _accepted(node: Schema) -> Schema:
    made = each(node, _accepted)
    properties = made.get("properties", {})
    odd = {name: part for name, part in properties.items() if not _KEY(name)}
    if odd:
        # A new name would not reach the tool, so such a property is described instead, and the
        # object must be open for it.
        made["properties"] = {n: p for n, p in properties.items() if n not in odd}
        required = made.pop("required", [])
        kept = [name for name in required if name not in odd]
        if kept:
            made["required"] = kept
        made.pop("additionalProperties", None)
        made.pop("unevaluatedProperties", None)
        for name, part in odd.items():
            how = "needs" if name in required else "also takes"
            say(made, f"{how} the property {quoted(name)}: {quoted(part)}")
    return made
