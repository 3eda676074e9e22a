"""From a file, or a mapping of the same content, to a checked `HostConfig`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from toolcrib.core.profile import Profile
from toolcrib.core.settings import HostConfig
from toolcrib.errors import ConfigError
from toolcrib.host.config.environment import expand
from toolcrib.host.config.files import gather
from toolcrib.host.config.inherit import resolve
from toolcrib.host.config.node import Node, Origin, node_of
from toolcrib.host.config.parts import ROOT, host_settings, principal
from toolcrib.host.config.reading import Reading, joined, nearest
from toolcrib.host.config.seeds import normalise
from toolcrib.host.config.serving import as_written, serve_settings
from toolcrib.host.config.servingcheck import check_serving, profile_mentions

_BY_NAME = ("host", "providers", "sandboxes", "profiles", "principals", "serve")
_LISTS = ("plugins", "tools", "extensions", "exporters")


def load_config(path: str | Path, *, env: Mapping[str, str] | None = None) -> HostConfig:
    """The configuration in a file and the files it includes.

    Every mistake is found in one pass: the `ConfigError` raised is the first in file order,
    with the rest in `others`. `env` stands in for the environment.
    """
    reading = Reading(os.environ if env is None else env)
    roots = gather(Path(path), reading)
    return _assemble(roots, reading, tuple(reading.files))


def config_from_mapping(
    data: Mapping[str, Any], *, base: Path | None = None, env: Mapping[str, str] | None = None
) -> HostConfig:
    """The configuration in a mapping with the content of a file; paths start from `base`."""
    reading = Reading(os.environ if env is None else env)
    folder = Path(os.path.abspath(base or "."))  # noqa: PTH100 - symbolic links stay as written
    origin = Origin("config", "config", folder)
    try:
        root = node_of(data, origin)
    except ValueError as error:
        raise ConfigError(
            f"the configuration {error}",
            file=origin.file,
            cure="Use text, numbers, true, false, None, lists and mappings",
        ) from None
    if root.entries is None:
        raise ConfigError(
            f"the configuration must be a mapping, not {root.shown}", file=origin.file
        )
    root = normalise(expand(root, reading), reading)
    if root.get("include") is not None:
        reading.wrong(
            root, "include", "a configuration given as a mapping includes no files", "Give a path"
        )
    return _assemble([root], reading, ())


def _assemble(roots: list[Node], reading: Reading, sources: tuple[str, ...]) -> HostConfig:
    merged: dict[str, Any] = {name: {} for name in _BY_NAME}
    merged |= dict.fromkeys(_LISTS, ())
    for root in roots:
        values = ROOT.read(root, "", reading)
        for name in _BY_NAME:
            merged[name] = {**merged[name], **values.get(name, {})}
        for name in _LISTS:
            merged[name] = (*merged[name], *values.get(name, ()))
    _check_names(roots, reading)
    _check_tools(roots, reading)
    written = [name for root in roots for name, _ in _entries(root.get("profiles"))]
    profiles = resolve(merged["profiles"], written, reading)
    _check_profiles(roots, written, reading)
    check_serving(roots, merged["serve"], merged["principals"], reading)
    reading.check()
    lines = {key: place for root in roots for key, place in _knobs(root)}
    return _config(merged, profiles, reading, sources, lines, as_written(roots))


def _config(
    merged: dict[str, Any],
    profiles: dict[str, Profile],
    reading: Reading,
    sources: tuple[str, ...],
    lines: dict[str, str],
    doors: dict[str, Any],
) -> HostConfig:
    people: dict[str, dict[str, Any]] = merged["principals"]
    return HostConfig(
        settings=host_settings(merged["host"]),
        profiles=profiles,
        principals={name: principal(name, given) for name, given in people.items()},
        principal_profiles={
            name: given["profiles"] for name, given in people.items() if "profiles" in given
        },
        plugins=merged["plugins"],
        tools=merged["tools"],
        providers=merged["providers"],
        sandboxes=merged["sandboxes"],
        extensions=merged["extensions"],
        exporters=merged["exporters"],
        serve=doors,
        serving=serve_settings(merged["serve"]),
        secrets=frozenset(reading.secrets),
        lines=lines,
        sources=sources,
    )


def _knobs(root: Node) -> Iterator[tuple[str, str]]:
    """Where the policy knobs of profiles stand; what they mean is known once tools are built."""
    for profile, node in _entries(root.get("profiles")):
        for tool, knobs in _entries(node.get("policies")):
            key = f"profiles.{profile}.policies.{tool}"
            yield key, knobs.source or ""
            for knob, value in _entries(knobs):
                yield f"{key}.{knob}", value.source or ""


def _check_names(roots: list[Node], reading: Reading) -> None:
    """A name stands once in all files; within one file the parser has seen to it."""
    for section in _BY_NAME:
        seen: dict[str, Node] = {}
        for root in roots:
            node = root.get(section)
            for name, entry in ((node.entries if node else None) or {}).items():
                first = seen.setdefault(name, entry.key)
                if first is not entry.key:
                    key = joined(section, name)
                    message = f"{key} stands here and at {first.source}"
                    reading.wrong(entry.key, key, message, "Keep one of the two")


def _check_tools(roots: list[Node], reading: Reading) -> None:
    seen: dict[tuple[str, str], Node] = {}
    for root in roots:
        node = root.get("tools")
        for index, item in enumerate((node.items if node else None) or ()):
            named = item.get("name") or item.get("template")
            version = item.get("version")
            if named is None or not isinstance(named.value, str):
                continue
            which = named.value, str(version.value) if version else "0"
            first = seen.setdefault(which, named)
            if first is not named:
                reading.wrong(
                    named,
                    f"tools[{index}].name",
                    f"tools[{index}] is named {named.shown}, as the tool at {first.source} is",
                    "Give it another name, or another version",
                )


def _check_profiles(roots: list[Node], known: list[str], reading: Reading) -> None:
    for root in roots:
        for key, node in _mentions(root):
            if isinstance(node.value, str) and node.value and node.value not in known:
                message = f"{key} names {node.shown}, and there is no such profile"
                reading.wrong(node, key, message, nearest(node.value, known, "profile"))


def _mentions(root: Node) -> Iterator[tuple[str, Node]]:
    """Where profiles are named, apart from `extends`."""
    host = root.get("host")
    if host is not None and (node := host.get("profile")) is not None:
        yield "host.profile", node
    for name, entry in _entries(root.get("principals")):
        listed = entry.get("profiles")
        for index, node in enumerate((listed.items if listed else None) or ()):
            yield f"{joined('principals', name)}.profiles[{index}]", node
    yield from profile_mentions(root.get("serve"))


def _entries(node: Node | None) -> Iterator[tuple[str, Node]]:
    for name, entry in ((node.entries if node else None) or {}).items():
        yield name, entry.node
