"""Tools and trails as people read them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolcrib.cli.arguments import as_schema, types
from toolcrib.cli.output import clock, put, table, took
from toolcrib.core.entry import Entry
from toolcrib.core.events import Event
from toolcrib.core.policy import NoPolicy
from toolcrib.core.settings import HostConfig
from toolcrib.core.spec import ToolSpec

_LIMITS = (
    *("enum", "const", "default", "format", "pattern", "minimum", "maximum"),
    *("exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems"),
)

Hide = Callable[[Any], Any]


def effects(spec: ToolSpec) -> str:
    """`read, write`; what is not known is treated as the worst."""
    return "unknown" if spec.effects is None else ", ".join(sorted(spec.effects)) or "none"


def listed(spec: ToolSpec, unavailable: str | None) -> dict[str, Any]:
    """A tool as a list of tools has it."""
    return {
        "name": spec.name,
        "kind": spec.kind,
        "version": spec.version,
        "title": spec.title,
        "description": spec.description,
        "category": spec.category,
        "tags": sorted(spec.tags),
        "effects": None if spec.effects is None else sorted(spec.effects),
        "input_schema": spec.to_dict()["input_schema"],
        "unavailable": unavailable,
    }


def described(entry: Entry, hide: Hide) -> dict[str, Any]:
    """Everything about one tool, secrets hidden."""
    spec = entry.spec
    return {
        **hide(spec.to_dict()),
        "wire_name": spec.wire_name,
        "digest": spec.digest,
        "source": spec.source,
        "knobs": hide(_knobs(entry)),
        "unavailable": entry.unavailable and entry.unavailable.message,
    }


def _knobs(entry: Entry) -> dict[str, Any]:
    if entry.policy is not None:
        return entry.policy.to_dict()
    return {} if entry.spec.policy is NoPolicy else dict.fromkeys(entry.spec.policy.fields())


def show_spec(entry: Entry, hide: Hide) -> None:
    """One tool, field by field, and its arguments in a table."""
    spec = entry.spec
    policy = None if spec.policy is NoPolicy else spec.policy.__name__
    if policy is not None and entry.policy is not None:
        policy = f"{policy} {json.dumps(hide(entry.policy.to_dict()))}"
    fields = {
        "kind": spec.kind,
        "version": spec.version,
        "wire name": None if spec.wire_name == spec.name else spec.wire_name,
        "category": spec.category,
        "tags": ", ".join(sorted(spec.tags)),
        "effects": f"{effects(spec)}, treated as the worst"
        if spec.effects is None
        else effects(spec),
        "idempotent": "yes" if spec.idempotent else None,
        "permissions": ", ".join(sorted(spec.permissions)),
        "approval": "required" if spec.requires_approval else None,
        "timeout": took(spec.timeout),
        "policy": policy,
        "unavailable": entry.unavailable and entry.unavailable.message,
        "source": spec.source,
        "digest": spec.digest,
    }
    put(f"{spec.name}   {spec.description.strip()}" if spec.description else spec.name)
    put("")
    for name, value in fields.items():
        if value:
            put(f"  {name:<12} {value}")
    rows = [_argument(name, part, spec) for name, part in _properties(spec).items()]
    put("")
    if rows:
        table(("argument", "type", "required", "limits", "description"), rows)
    else:
        put("  no arguments")


def _properties(spec: ToolSpec) -> Mapping[str, Any]:
    return spec.input_schema.get("properties") or {}


def _argument(name: str, part: Any, spec: ToolSpec) -> tuple[str, str, str, str, str]:
    known = as_schema(part)
    kinds = " or ".join(sorted(types(known, spec.input_schema))) or "any"
    limits = " ".join(f"{k}={json.dumps(known[k])}" for k in _LIMITS if k in known)
    required = "yes" if name in (spec.input_schema.get("required") or ()) else "no"
    return name, kinds, required, limits, str(known.get("description") or "")


def show_trail(id: str, events: Sequence[Event]) -> None:
    """What happened to one call, event by event."""
    start = events[0].time
    put(f"{id}   {clock(start)}")
    put("")
    for event in events:
        put(f"  {took(event.time - start):>10}   {event.type}")
        for key, value in event.data.items():
            if value is None or value == [] or value == {}:
                continue
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            put(f"  {'':>10}     {key:<14} {text}")


def used_names(config: HostConfig) -> frozenset[str]:
    """What a configuration uses of plug-ins, as `kind name`."""
    named = [f"extension {entry['name']}" for entry in config.extensions]
    named += [f"exporter {entry['name']}" for entry in config.exporters]
    named += [f"provider {entry.get('type')}" for entry in config.providers.values()]
    for tool in config.tools:
        named += [f"template {tool.get('template')}", f"executor {tool.get('kind')}"]
        policy: Mapping[str, Any] = tool.get("policy") or {}
        named.append(f"policy {policy.get('use')}")
    return frozenset([*named, f"store {(config.settings.store or '').partition(':')[0]}"])
