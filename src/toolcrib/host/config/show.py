"""A configuration as it holds: resolved, with sources, secrets hidden."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from toolcrib.core.profile import Limit, Profile, Rate, Rule
from toolcrib.core.settings import HostConfig, HostSettings
from toolcrib.core.units import format_duration
from toolcrib.host.config.load import load_config
from toolcrib.host.config.reading import MASK, mask

_SECRET_KEY = re.compile(
    r"(?:^|[_-])(?:secret|password|passwd|token|credential|authorization|api[_-]?key)s?$", re.I
).search
_DURATIONS = frozenset(
    {
        "timeout",
        "deadline",
        "guard_time",
        "drain",
        "lease",
        "ready",
        "queue_timeout",
        "backoff",
        "max_backoff",
    }
)
_PLACES = frozenset({"source", "base", "lines", "place"})


def show_config(config: HostConfig | str | Path, *, env: Mapping[str, str] | None = None) -> str:
    """The configuration as YAML, each rule and entry with the place it came from."""
    if not isinstance(config, HostConfig):
        config = load_config(config, env=env)
    document: dict[str, Any] = {"version": 1, "host": _host(config.settings)}
    document |= {
        "plugins": [_Sourced(entry["name"], entry.get("source")) for entry in config.plugins],
        "tools": [_Sourced(_without_place(tool), tool.get("source")) for tool in config.tools],
        "providers": _typed(config.providers),
        "sandboxes": _typed(config.sandboxes),
        "profiles": {name: _profile(profile) for name, profile in config.profiles.items()},
        "principals": {
            name: _given(
                roles=sorted(who.roles),
                permissions=sorted(who.permissions),
                profiles=list(config.principal_profiles.get(name, ())) or None,
                attributes=dict(who.attributes),
            )
            for name, who in config.principals.items()
        },
        "extensions": [_plug(entry) for entry in config.extensions],
        "exporters": [_plug(entry) for entry in config.exporters],
        "serve": config.serve,
    }
    shown = {key: value for key, value in document.items() if value not in ({}, [])}
    return _dump(shown, config.secrets, config.sources)


class _Sourced:
    """A value and the place it came from, which becomes a comment."""

    def __init__(self, value: Any, source: str | None) -> None:
        self.value = value
        self.source = source


def _host(settings: HostSettings) -> dict[str, Any]:
    given = _plain(settings)
    audit = {name[6:]: given.pop(name) for name in list(given) if name.startswith("audit_")}
    return {**{k: v for k, v in given.items() if v != []}, "audit": audit}


def _profile(profile: Profile) -> _Sourced:
    shown = _plain(profile)
    for name in ("name", "extends"):
        shown.pop(name, None)
    shown["rules"] = [_Sourced(_rule(rule), rule.source) for rule in profile.rules]
    shown["limits"] = [_Sourced(_limit(limit), limit.source) for limit in profile.limits]
    shown["listing"] = {k: v for k, v in shown["listing"].items() if v not in (None, [])}
    source = profile.source
    if profile.extends is not None:
        # Its parents' share is in what is shown, so `extends` itself would add it again.
        source = f"{source}, with what it has from {profile.extends}"
    return _Sourced({k: v for k, v in shown.items() if v not in ([], {})}, source)


def _rule(rule: Rule) -> dict[str, Any]:
    names = {"names": "tools", "categories": "category", "kinds": "kind"}
    match = {names.get(k, k): v for k, v in _plain(rule.match).items() if v}
    shown: dict[str, Any] = {rule.verdict: match.get("tools") if set(match) == {"tools"} else match}
    if rule.when is not None:
        when = {key: value for key, value in _plain(rule.when).items() if value}
        if rule.when.arguments:
            arguments: dict[str, dict[str, Any]] = {}
            for held in rule.when.arguments:
                arguments.setdefault(held.argument, {})[held.kind] = _plain(held.value)
            when["arguments"] = arguments
        shown["when"] = when
    return {**shown, **_given(reason=rule.reason, message=rule.message)}


def _limit(limit: Limit) -> dict[str, Any]:
    shown = _plain(limit)
    for name in ("calls", "quota", "repeat"):
        rate: Rate | None = getattr(limit, name)
        if rate is not None:
            shown[name] = f"{rate.count}/{format_duration(rate.seconds)}"
    return {key: value for key, value in shown.items() if value != []}


def _typed(entries: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        name: _Sourced(_without_place(entry), entry.get("place", {}).get("source"))
        for name, entry in entries.items()
    }


def _plug(entry: dict[str, Any]) -> _Sourced:
    return _Sourced({entry["name"]: _plain(entry["settings"])}, entry.get("source"))


def _without_place(entry: dict[str, Any]) -> dict[str, Any]:
    shown = _plain({key: value for key, value in entry.items() if key not in _PLACES})
    if isinstance(shown.get("timeout"), float):
        shown["timeout"] = format_duration(shown["timeout"])
    return shown


def _given(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value not in (None, [], {})}


def _plain(value: Any) -> Any:
    """Structs, sets and read-only mappings as plain data; seconds as durations."""
    if isinstance(value, msgspec.Struct):
        pairs = msgspec.structs.asdict(value)
        pairs = {k: v for k, v in pairs.items() if v is not None and k not in _PLACES}
        return {
            key: format_duration(member)
            if key in _DURATIONS and isinstance(member, float)
            else _plain(member)
            for key, member in pairs.items()
        }
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value)
        return {key: _plain(member) for key, member in pairs.items()}
    if isinstance(value, frozenset):
        return sorted(cast("frozenset[str]", value))
    if isinstance(value, list | tuple):
        return [_plain(member) for member in cast("Sequence[Any]", value)]
    return value


def _dump(document: dict[str, Any], secrets: frozenset[str], sources: Sequence[str]) -> str:
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

    def note(parent: Any, at: str | int, member: Any, indent: int) -> None:
        if isinstance(member, _Sourced) and member.source:
            parent.yaml_set_comment_before_after_key(at, before=member.source, indent=indent)

    def commented(value: Any, indent: int, key: str = "") -> Any:
        if isinstance(value, _Sourced):
            return commented(value.value, indent, key)
        if isinstance(value, Mapping):
            mapping: Any = CommentedMap()
            for name, member in cast("Mapping[str, Any]", value).items():
                mapping[name] = commented(member, indent + 2, name)
                note(mapping, name, member, indent)
            return mapping
        if isinstance(value, list):
            sequence: Any = CommentedSeq()
            for index, member in enumerate(cast("list[Any]", value)):
                sequence.append(commented(member, indent + 2, key))
                note(sequence, index, member, indent)
            return sequence
        if value is None or isinstance(value, bool):
            return value
        hidden = MASK if _SECRET_KEY(key) and isinstance(value, str) else mask(str(value), secrets)
        return hidden if hidden != str(value) or isinstance(value, str) else value

    yaml: Any = YAML()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 100
    stream = io.StringIO()
    yaml.dump(commented(document, 0), stream)
    return f"# from {', '.join(sources) or 'a mapping'}\n{stream.getvalue()}"
