"""A project: its configuration, its host and what it keeps."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import replace

from toolcrib.core.settings import HostConfig, LockMode
from toolcrib.host.reports.quiet import no_compiled_files, stdout_is_talk
from toolcrib.host.reports.words import many

if TYPE_CHECKING:
    from toolcrib.core.protocols import Store
    from toolcrib.host.host import ToolHost

T = TypeVar("T")

STATE = ".toolcrib"


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration that was read, with the store and the key it means."""

    path: Path
    written: HostConfig
    """As the file says."""
    config: HostConfig
    """With the store and the key that are meant where it says nothing."""
    store: Path | None
    """The file of the store; None when nothing is kept."""
    key: Path | None
    anchor: Path | None

    @property
    def folder(self) -> Path:
        """The folder of the configuration: calls from the command line work in it."""
        return Path(os.path.abspath(self.path)).parent  # noqa: PTH100 - links stay as written

    def host(self, *, approver: Any = None) -> ToolHost:
        """The host with its tools, loaded. Raises `ConfigError` with every mistake."""
        from toolcrib.host.host import ToolHost

        host = ToolHost(config=self.config, approver=approver)
        # Only a call may leave something behind.
        with stdout_is_talk(), no_compiled_files() if approver is None else nullcontext():
            host.load()
        return host

    def look(self, work: Callable[[ToolHost], T]) -> T:
        """What `work` finds in the host, with its providers up and its sandboxes tried. It writes
        nothing and keeps nothing; what it prints is talk."""
        from toolcrib.host.host import ToolHost
        from toolcrib.host.probing import try_sandboxes

        with no_compiled_files():
            if self.config.exporters:
                self.host()  # for their mistakes: nobody is told of what only looks
            host = ToolHost(config=_quiet(self.config), store="memory")
            # What is hidden from sandboxes is hidden here, too.
            host.own_files.note_config(self.config)
            with stdout_is_talk():
                host.load()
            boxes = any(entry.sandboxes for entry in host.catalog.snapshot().values())
            if not boxes and not host.sources.wanted:
                return work(host)

            async def looking() -> T:
                async with host:
                    await try_sandboxes(host.catalog)
                    return work(host)

            return run(looking())

    def desk(self) -> ToolHost:
        """A host without tools: enough to answer people's questions, and no code of theirs runs."""
        from toolcrib.host.host import ToolHost

        config = HostConfig(settings=replace(self.config.settings, profile=None))
        return ToolHost(config=replace(config, secrets=self.config.secrets))

    def prepare(self) -> None:
        """Make the folder for local state, when the store stands there."""
        if self.store is not None and self.store.parent == self.folder / STATE:
            ignore_state(self.store.parent)

    def read(self, work: Callable[[Store], Coroutine[Any, Any, T]], nothing: T) -> T:
        """What `work` finds in the store; `nothing` when nothing was kept yet."""
        if self.store is None or not self.store.exists():
            return nothing
        from toolcrib.host.parts import DEFAULT_STORE, open_store

        async def reading() -> T:
            store = open_store(DEFAULT_STORE, self.config.settings)
            await store.open()
            try:
                return await work(store)
            finally:
                await store.close()

        return asyncio.run(reading())


def _quiet(config: HostConfig) -> HostConfig:
    """The configuration for a host that leaves nothing behind: no key, no anchor, no exporters."""
    lock: LockMode = "frozen" if config.settings.lock == "frozen" else "look"
    settings = replace(config.settings, store=None, audit_key=None, audit_anchor=None, lock=lock)
    return replace(config, settings=settings, exporters=())


def project_of(path: Path) -> Project:
    """The project of a configuration file. Raises `ConfigError` with every mistake."""
    from toolcrib.host.config import load_config

    config = load_config(path)
    settings = config.settings
    folder = Path(os.path.abspath(path)).parent  # noqa: PTH100 - links stay as written
    name = settings.store or f"sqlite:{folder / STATE / 'trail.db'}"
    kind, _, file = name.partition(":")
    store = Path(file) if kind == "sqlite" else None
    key = settings.audit_key or (f"{store}.key" if store is not None else None)
    return Project(
        path=path,
        written=config,
        config=replace(config, settings=replace(settings, store=name, audit_key=key)),
        store=store,
        key=None if key is None else Path(key),
        anchor=None if settings.audit_anchor is None else Path(settings.audit_anchor),
    )


def ignore_state(folder: Path) -> None:
    """Make the folder for local state, which no repository should hold."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Do asynchronous work; what it prints is talk."""
    with stdout_is_talk():
        return asyncio.run(work)


def counted(host: ToolHost) -> str:
    """`2 tools, 1 provider, 1 profile`; providers only where there are some."""
    config = host.config
    providers = [many(len(config.providers), "provider")] if config.providers else []
    words = [many(len(host.catalog), "tool"), *providers, many(len(config.profiles), "profile")]
    return ", ".join(words)
