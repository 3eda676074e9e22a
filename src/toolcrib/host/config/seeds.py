"""Other spellings of the same things, turned into ours before anything is read.

`tool_type`, `implementation_config`, `parameters`, `metadata`, `function_name`, `mcpServers`,
and profile files that hold a policy per tool. This is the one place that knows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from toolcrib.host.config.node import Entry, Node
from toolcrib.host.config.parts import ORDER
from toolcrib.host.config.profiles import PROFILE
from toolcrib.host.config.reading import Reading, joined

_RENAMED = {
    "tool_type": "kind",
    "implementation_config": "config",
    "parameters": "input_schema",
    "is_dangerous": "requires_approval",
}
_METADATA = frozenset(
    {"version", "category", "tags", "permissions", "requires_approval", "is_dangerous"}
)
_PROFILE_KEYS = frozenset(setting.name for setting in PROFILE.settings) | {"name"}


def normalise(root: Node, reading: Reading) -> Node:
    """`root` in our spelling."""
    if root.entries is None:
        return root
    if _is_profile(root.entries):
        root = _as_profiles(root)
    entries = dict(root.entries or {})
    if "mcpServers" in entries:
        entries = _providers(entries, reading)
    tools = entries.get("tools")
    if tools is not None and tools.node.items is not None:
        items = (as_tool(item, f"tools[{i}]", reading) for i, item in enumerate(tools.node.items))
        entries["tools"] = Entry(tools.key, tools.node.holding(tuple(items)))
    profiles = entries.get("profiles")
    if profiles is not None and profiles.node.entries is not None:
        named = {
            name: Entry(entry.key, _profile(entry.node))
            for name, entry in profiles.node.entries.items()
        }
        entries["profiles"] = Entry(profiles.key, profiles.node.holding(named))
    return root.holding(entries)


def _is_profile(entries: Mapping[str, Entry]) -> bool:
    """Whether a whole file is one profile: it has a profile's keys and none of our top level."""
    tools = entries.get("tools")
    mapped = tools is not None and tools.node.entries is not None
    if any(name in ORDER for name in entries if name != "tools" or not mapped):
        return False
    return mapped or any(name in _PROFILE_KEYS for name in entries)


def _as_profiles(root: Node) -> Node:
    """`{name: x, …}` as `{profiles: {x: {…}}}`; without a name, the file's own is taken."""
    entries = dict(root.entries or {})
    named = entries.pop("name", None)
    stem = PurePath(root.origin.label).stem
    name = named.node.value if named is not None else stem
    if not isinstance(name, str):
        # Left in place, the reader says that a profile has no such setting as this name.
        name, entries = stem, dict(root.entries or {})
    key = named.node if named is not None else root
    profile = Entry(key.holding(name), root.holding(entries))
    profiles = Entry(root.holding("profiles"), root.holding({name: profile}))
    return root.holding({"profiles": profiles})


def _profile(node: Node) -> Node:
    """A policy per tool becomes a rule per tool, before the profile's own rules, and policies."""
    entries = dict(node.entries or {})
    tools = entries.get("tools")
    if tools is None or (tools.node.entries is None and tools.node.items is None):
        return node
    del entries["tools"]
    rules = [_allow(item, item) for item in tools.node.items or ()]
    policies: dict[str, Entry] = {}
    for name, entry in (tools.node.entries or {}).items():
        rules.append(_allow(entry.key, entry.key.holding(name)))
        inner = entry.node.entries or {}
        knobs = inner["policy"].node if set(inner) == {"policy"} else entry.node
        if knobs.value is not None:
            policies[name] = Entry(entry.key, knobs)
    own_rules, own_policies = entries.get("rules"), entries.get("policies")
    if own_rules is None or own_rules.node.items is not None or own_rules.node.value is None:
        own = (own_rules.node.items or ()) if own_rules else ()
        entries["rules"] = Entry(tools.key, tools.node.holding((*rules, *own)))
    if own_policies is None or own_policies.node.entries is not None:
        more = (own_policies.node.entries or {}) if own_policies else {}
        entries["policies"] = Entry(tools.key, tools.node.holding({**policies, **more}))
    return node.holding(entries)


def _allow(place: Node, name: Node) -> Node:
    return place.holding({"allow": Entry(place.holding("allow"), name)})


def as_tool(node: Node, key: str, reading: Reading) -> Node:
    """One entry of `tools:` in our spelling."""
    if node.entries is None:
        return node
    entries: dict[str, Entry] = {}
    flat = dict(node.entries)
    metadata = flat.pop("metadata", None)
    if metadata is not None and metadata.node.entries is not None:
        other: dict[str, Entry] = {}
        for name, entry in metadata.node.entries.items():
            if name not in _METADATA:
                other[name] = entry
            else:
                _put(entries, name, entry, key, reading)
        if other:
            entries["annotations"] = Entry(metadata.key, metadata.node.holding(other))
    elif metadata is not None and metadata.node.value is not None:
        flat["metadata"] = metadata
    for name, entry in flat.items():
        _put(entries, name, entry, key, reading)
    config = entries.get("config")
    kind = entries.get("kind")
    if config is not None and (kind is None or kind.node.value == "python"):
        _lift_function(entries, config, key, reading)
    return node.holding(entries)


def _put(entries: dict[str, Entry], name: str, entry: Entry, key: str, reading: Reading) -> None:
    ours = _RENAMED.get(name, name)
    earlier = entries.get(ours)
    if earlier is None:
        entries[ours] = entry
    elif ours == "requires_approval" and isinstance(earlier.node.value, bool):
        # Two words for "dangerous": either of them is enough.
        if earlier.node.value is False:
            entries[ours] = entry
    else:
        message = f"{key} says {ours} twice: here as {name!r}, and on line {earlier.key.line}"
        reading.wrong(entry.key, joined(key, name), message, f"Keep {ours}")


def _lift_function(entries: dict[str, Entry], config: Entry, key: str, reading: Reading) -> None:
    inner = dict(config.node.entries or {})
    for name, ours in (("module", "module"), ("function_name", "function"), ("function",) * 2):
        if name in inner:
            _put(entries, ours, inner.pop(name), joined(key, "config"), reading)
    if inner or config.node.entries is None:
        entries["config"] = Entry(config.key, config.node.holding(inner) if inner else config.node)
    else:
        del entries["config"]


def _providers(entries: dict[str, Entry], reading: Reading) -> dict[str, Entry]:
    """`mcpServers: {x: {command, args, env}}` as providers of type mcp."""
    servers = entries.pop("mcpServers")
    ours = entries.get("providers")
    named = dict((ours.node.entries or {}) if ours else {})
    if servers.node.entries is None:
        message = "mcpServers must be a mapping from server names"
        reading.wrong(servers.node, "mcpServers", message, "Move them to providers")
    for name, entry in (servers.node.entries or {}).items():
        if name in named:
            message = f"mcpServers.{name} is also a provider, on line {named[name].key.line}"
            reading.wrong(entry.key, joined("mcpServers", name), message, "Keep one of the two")
            continue
        named[name] = Entry(entry.key, _server(entry.node))
    if ours is None or ours.node.entries is not None or ours.node.value is None:
        key = ours.key if ours else servers.key
        entries["providers"] = Entry(key, (ours or servers).node.holding(named))
    return entries


def _server(node: Node) -> Node:
    if node.entries is None:
        return node
    entries = dict(node.entries)
    entries["type"] = Entry(node.holding("type"), node.holding("mcp"))
    command, arguments = entries.get("command"), entries.pop("args", None)
    if command is not None and isinstance(command.node.value, str):
        words = (command.node, *((arguments.node.items or ()) if arguments else ()))
        entries["command"] = Entry(command.key, command.node.holding(words))
    return node.holding(entries)
