"""What an operator asks a running host about itself, as the command line shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec

from toolcrib.errors import ConfigError
from toolcrib.host.host import ToolHost
from toolcrib.host.parts import Parts
from toolcrib.host.reports.audit import verify_trail
from toolcrib.host.reports.describing import described, no_tool, plugin_rows, provider_rows
from toolcrib.transports.faults import Fault

if TYPE_CHECKING:
    from toolcrib.core.principal import Principal
    from toolcrib.host.reports.findings import Finding
    from toolcrib.host.reports.project import Project

INVARIANTS = "policy.yaml"
_turns: WeakKeyDictionary[ToolHost, asyncio.Lock] = WeakKeyDictionary()


def _turn(host: ToolHost) -> asyncio.Lock:
    """Entered for what is examined in threads: one after the other. Side by side they only take
    the processor from calls, and load the same modules at the same moment."""
    return _turns.setdefault(host, asyncio.Lock())


def show_tool(host: ToolHost, name: str) -> dict[str, Any]:
    """Everything about one tool, secrets hidden. Raises `Fault`."""
    entry = host.catalog.get(name)
    if entry is None:
        raise Fault("unknown_tool", no_tool(host, name))
    return described(entry, host.redactor.value)


async def check_tools(host: ToolHost) -> list[dict[str, Any]]:
    """What became of each entry of the configuration, as its file is now."""
    from toolcrib.host.reports.checking import check_tools

    async with _turn(host):
        fates = await asyncio.to_thread(lambda: check_tools(_project(host)))
    return [fate._asdict() for fate in fates]


def overview(
    host: ToolHost, who: Principal | str, profile: str | None, *, every: bool
) -> dict[str, Any]:
    """Every tool, and what a caller may do with it; without `every`, those it may know of."""
    from toolcrib.host.reports.overview import overview

    found = overview(host, who, profile, None, every=every)
    return {"rows": found.rows, "missing": found.missing}


async def verified(host: ToolHost, parts: Parts) -> dict[str, Any]:
    """Whether the trail is what was written."""
    store = parts.store
    if not store.durable:
        return {"ok": True, "runs": [], "kept": False}
    await store.flush()
    settings = host.settings
    key = settings.audit_key or (None if store.path is None else f"{store.path}.key")
    anchor = None if settings.audit_anchor is None else Path(settings.audit_anchor)
    found = await verify_trail(store, None if key is None else Path(key), anchor)
    return {**msgspec.to_builtins(found), **found.to_dict(), "kept": True}


def providers(host: ToolHost) -> list[dict[str, Any]]:
    """The live sources of tools, and how each is."""
    return provider_rows(host)


async def plugins(host: ToolHost) -> list[dict[str, Any]]:
    """What is installed or listed, what it offers, and what of it is in use."""
    from toolcrib.host.plugins import find_plugins

    async with _turn(host):
        found = await asyncio.to_thread(find_plugins, host.config.plugins)
    return plugin_rows(found, host.config)


def configuration(host: ToolHost) -> str:
    """The configuration in force as YAML, secrets masked."""
    from toolcrib.host.config import show_config

    return show_config(host.config)


async def check_configuration(host: ToolHost) -> dict[str, Any]:
    """Whether the file as it is now could be put in force; nothing changes."""
    from toolcrib.host.reports.settings import check_settings

    async with _turn(host):
        found = await asyncio.to_thread(check_settings, _file(host))
    return {**msgspec.to_builtins(found), "ok": found.ok}


async def proved(host: ToolHost) -> dict[str, Any]:
    """What the rules let happen that they should not."""
    from toolcrib.host.verify import verify

    beside: Path | None = None
    if host.config.sources:
        beside = Path(host.config.sources[0]).parent / INVARIANTS
    file = beside if beside is not None and await asyncio.to_thread(beside.is_file) else None
    async with _turn(host):
        report = await asyncio.to_thread(verify, host, file)
    return {"report": report.to_dict(), "invariants": None if file is None else str(file)}


async def diagnosis(host: ToolHost, parts: Parts) -> list[dict[str, Any]]:
    """What is well and what is not, each with a cure: sandboxes and providers as they are in this
    host, the rest as it would be for a new one."""
    async with _turn(host):
        return await _diagnosis(host, parts)


async def _diagnosis(host: ToolHost, parts: Parts) -> list[dict[str, Any]]:
    from toolcrib.host.reports.findings import Finding, after, before, misread
    from toolcrib.host.reports.living import living, see, user

    project: Project | None = None
    unusable: Sequence[Finding] = ()
    try:
        project = await asyncio.to_thread(_project, host) if host.config.sources else None
    except ConfigError as error:
        unusable = [misread(error)]
    found = [*await asyncio.to_thread(lambda: list(before(project))), *unusable, *user()]
    found += await living(see(host))
    broken = parts.trail.broken
    if broken is not None:
        found.append(Finding("trail", "fail", str(broken), "See the host's log, and restart it"))
    found += await asyncio.to_thread(lambda: list(after(project)))
    return [finding._asdict() for finding in found]


def _file(host: ToolHost) -> Path:
    """The configuration's file. Raises `Fault` where there is none."""
    if not host.config.sources:
        raise Fault("not_found", "this host was not made from a configuration file")
    return Path(host.config.sources[0])


def _project(host: ToolHost) -> Project:
    from toolcrib.host.reports.project import project_of

    return project_of(_file(host))
