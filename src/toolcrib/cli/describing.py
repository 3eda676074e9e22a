"""Tools in lists, trails, and the plug-ins in use, as people read them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from toolcrib.cli.output import clock, put, took
from toolcrib.core.events import Event
from toolcrib.core.settings import HostConfig
from toolcrib.core.spec import ToolSpec


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
