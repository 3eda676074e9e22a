"""Tools, providers and plug-ins as rows of data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict

from toolcrib.core.entry import Entry
from toolcrib.core.policy import NoPolicy
from toolcrib.core.settings import HostConfig
from toolcrib.core.spec import ToolSpec
from toolcrib.pipeline.plan import held_spec

if TYPE_CHECKING:
    from toolcrib.host.host import ToolHost
    from toolcrib.host.plugins import Plugin

Hide = Callable[[Any], Any]


class Listed(msgspec.Struct, frozen=True):
    """A tool in a list."""

    spec: ToolSpec
    unavailable: str | None
    """Why it cannot be called now."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        spec = self.spec
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
            "unavailable": self.unavailable,
        }


def described(entry: Entry, hide: Hide) -> dict[str, Any]:
    """Everything about one tool, secrets hidden."""
    spec = entry.spec
    knobs = _knobs(entry)
    missing, kind = object(), type(entry.policy)
    default = [name for name in knobs if getattr(kind, name, missing) == knobs[name]]
    return {
        **hide(held_spec(spec, entry.policy).to_dict()),
        "wire_name": spec.wire_name,
        "digest": spec.digest,
        "source": spec.source,
        "owner": entry.owner,
        "sandboxes": [{"name": box.name, "type": box.type} for box in entry.sandboxes],
        "knobs": hide(knobs),
        "defaults": [] if entry.policy is None else default,
        "unavailable": entry.unavailable and entry.unavailable.message,
    }


def _knobs(entry: Entry) -> dict[str, Any]:
    if entry.policy is not None:
        return entry.policy.to_dict()
    return {} if entry.spec.policy is NoPolicy else dict.fromkeys(entry.spec.policy.fields())


def no_tool(host: ToolHost, name: str) -> str:
    """That there is no such tool; where a provider is missing that may have it, that."""
    said = host.explain(name)
    if said.reason == "tool_unavailable":
        return f"{name}: {said.message}"
    near = host.catalog.suggest(name)
    hint = f". Did you mean {near}?" if near else ". `toolcrib tools` lists them"
    return f"{name}: no such tool (unknown_tool){hint}"


def provider_rows(host: ToolHost) -> list[dict[str, Any]]:
    """How each provider is."""
    types = {name: str(given.get("type")) for name, given in host.config.providers.items()}
    found = host.sources.status(warnings=True)
    return [{"type": types.get(each.name, "load"), **asdict(each)} for each in found]


def plugin_rows(found: Sequence[Plugin], config: HostConfig | None) -> list[dict[str, Any]]:
    """What each plug-in offers, and what of it a configuration uses."""
    used = frozenset[str]() if config is None else _used_names(config)
    return [asdict(p) | {"used": [o for o in p.offers if o in used]} for p in found]


def _used_names(config: HostConfig) -> frozenset[str]:
    """What a configuration uses of plug-ins, as `kind name`."""
    named = [f"extension {entry['name']}" for entry in config.extensions]
    named += [f"exporter {entry['name']}" for entry in config.exporters]
    named += [f"provider {entry.get('type')}" for entry in config.providers.values()]
    for tool in config.tools:
        named += [f"template {tool.get('template')}", f"executor {tool.get('kind')}"]
        policy: Mapping[str, Any] = tool.get("policy") or {}
        named.append(f"policy {policy.get('use')}")
    return frozenset([*named, f"store {(config.settings.store or '').partition(':')[0]}"])
