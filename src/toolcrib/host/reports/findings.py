"""What is well and what is not, each with a cure."""

from __future__ import annotations

import asyncio
import os
import platform
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib.core.version import __version__
from toolcrib.errors import ConfigError, StoreError
from toolcrib.host.reports.living import Finding as Finding
from toolcrib.host.reports.living import Seen, living, see, tidy, user
from toolcrib.host.reports.project import Project, counted
from toolcrib.host.reports.quiet import no_compiled_files, stdout_is_talk
from toolcrib.host.reports.words import many

if TYPE_CHECKING:
    from toolcrib.core.protocols import Store

_LIBRARIES = (
    *("msgspec", "jsonschema-rs", "pyyaml", "ruamel.yaml", "click", "rich", "prometheus-client"),
)
_EXTRAS = ("aiohttp", "asyncpg", "cryptography", "opentelemetry-sdk", "pydantic-monty")
"""What some tools need; there when an extra was installed."""
_OLDEST_CLOCK = 1_735_689_600.0
"""The beginning of 2025: a clock that shows less was never set."""


def examine(project: Project | None, unusable: Sequence[Finding] = ()) -> list[Finding]:
    """Everything, for a project that nothing runs of. `unusable` says why there is none."""
    found = [*before(project), *unusable]
    if project is not None:
        found += user()
        seen = _usable(lambda: project.look(see))
        found += [] if seen is None else asyncio.run(living(seen))
    return [*found, *after(project)]


def before(project: Project | None) -> Iterator[Finding]:
    """What everything else needs: Python, libraries, the configuration."""
    yield _python()
    yield from _libraries()
    if project is not None:
        try:
            yield Finding("config", "ok", f"{project.path}: {counted(project.host())}")
        except ConfigError as error:
            yield misread(error)


def misread(error: ConfigError) -> Finding:
    """A configuration that cannot be used."""
    more = "`toolcrib config check` lists all mistakes" if error.others else None
    cure = ". ".join(filter(None, (error.cure, more))) or None
    text = f"{error.where}: {error.message}" if error.where else error.message
    return Finding("config", "fail", tidy(text), None if cure is None else tidy(cure))


def _usable(look: Callable[[], Seen]) -> Seen | None:
    try:
        return look()
    except ConfigError:
        return None  # told already


def after(project: Project | None) -> Iterator[Finding]:
    """What is kept, and what it goes by."""
    if project is not None:
        yield from _store(project)
        yield _key(project)
        yield _anchor(project)
    yield _clock(project)
    yield from _plugins(project)
    yield _threads(project)


def _python() -> Finding:
    text = f"{platform.python_version()}, toolcrib {__version__}"
    return Finding("python", "ok", text)


def _libraries() -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError, version

    found: list[str] = []
    for name in (*_LIBRARIES, *_EXTRAS):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            if name in _EXTRAS:
                continue
            cure = "Install toolcrib again with its dependencies"
            yield Finding("libraries", "fail", f"{name} is missing", cure)
    yield Finding("libraries", "ok", ", ".join(found))


def _store(project: Project) -> Iterator[Finding]:
    if project.store is None:
        cure = "Set host.store to sqlite:PATH to keep calls and approvals"
        yield Finding("store", "warn", "memory: nothing is kept between commands", cure)
        return
    folder = project.store.parent
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        cure = f"Make {folder} writable for this user, or set host.store"
        yield Finding("store", "fail", f"{project.store}: {error.strerror}", cure)
        return

    async def work(store: Store) -> int:
        return len(await store.runs())

    try:
        runs = project.read(work, None)
    except StoreError as error:
        what, _, cure = str(error).rpartition(". ")
        yield Finding("store", "fail", what or str(error), cure or None)
        return
    kept = "not made yet" if runs is None else f"{many(runs, 'run')} on the trail"
    yield Finding("store", "ok", f"{_short(project.store)}: writable, {kept}")


def _key(project: Project) -> Finding:
    key = project.key
    if key is None:
        return Finding("key", "ok", "none is needed: nothing is kept")
    if not key.exists():
        if project.store is not None and project.store.exists():
            cure = "Restore it from a backup: without it the trail cannot be verified"
            return Finding("key", "fail", f"{_short(key)} is missing", cure)
        return Finding("key", "ok", f"{_short(key)}: made with the first call")
    mode = stat.S_IMODE(key.stat().st_mode)
    if mode & 0o077:
        text = f"{_short(key)}: others can read it (mode {mode:04o})"
        return Finding("key", "fail", text, f"Run `chmod 600 {_short(key)}`")
    return Finding("key", "ok", f"{_short(key)}: only you can read it")


def _anchor(project: Project) -> Finding:
    if project.anchor is None:
        cure = "Set host.audit.anchor to a file in another place, to notice a trail cut short"
        return Finding("anchor", "warn", "none: whoever has the key can rewrite the trail", cure)
    return Finding("anchor", "ok", str(project.anchor))


def _clock(project: Project | None) -> Finding:
    now = time.time()
    shown = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(now))
    if now < _OLDEST_CLOCK:
        return Finding(
            "clock", "fail", f"it shows {shown}", "Set the clock: approvals expire by it"
        )

    async def work(store: Store) -> float:
        newest = 0.0
        position = 0
        while blocks := await store.blocks(after=position, limit=100):
            position = blocks[-1][0]
            newest = max(newest, *(block.time for _, block in blocks))
        return newest

    try:
        newest = project.read(work, 0.0) if project is not None else 0.0
    except StoreError:
        newest = 0.0
    if newest > now + 60:
        text = f"it shows {shown}, and the trail has records {newest - now:.0f} s later"
        return Finding("clock", "warn", text, "Set the clock: approvals expire by it")
    return Finding("clock", "ok", shown)


def _plugins(project: Project | None) -> Iterator[Finding]:
    from toolcrib.host.plugins import find_plugins

    with stdout_is_talk(), no_compiled_files():
        found = find_plugins(project.config.plugins if project is not None else ())
    for plugin in found:
        if plugin.problem is not None:
            cure = f"Update or uninstall {plugin.package or plugin.name}"
            if plugin.source is not None:
                cure = f"Mend it, or take it out of plugins: ({plugin.source})"
            yield Finding("plugins", "fail", f"{plugin.name}: {plugin.problem}", cure)
    good = [plugin.name for plugin in found if plugin.problem is None]
    if good or not found:
        yield Finding("plugins", "ok", ", ".join(good) or "none installed")


def _threads(project: Project | None) -> Finding:
    wanted = project.config.settings.threads if project is not None else 32
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    except (ImportError, OSError, AttributeError):
        most = -1
    text = f"{wanted} for synchronous functions, {os.cpu_count() or 1} processors"
    if 0 <= most < wanted:
        cure = "Set host.threads lower, or raise the limit (ulimit -u)"
        return Finding("threads", "fail", f"{text}; the system allows {most}", cure)
    return Finding("threads", "ok", text)


def _short(path: Path) -> str:
    shown = os.path.relpath(path)
    return str(path) if shown.startswith("..") else shown
