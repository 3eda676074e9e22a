"""The files that make a host what it is: those it keeps to itself, and those it is ruled by."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.core.settings import HostConfig
from toolcrib.errors import ConfigError

if TYPE_CHECKING:
    from toolcrib.core.protocols import Store


STATE = ".toolcrib"
"""The folder in which the command line keeps the store of a configuration beside it."""
_PROFILES = "profiles"
"""The folder beside a configuration whose files are read with it."""
LOCK = "toolcrib.lock"
"""The file beside a configuration that says what was accepted of other people's tools."""
_DATABASE = ("", "-wal", "-shm", "-journal")
"""What SQLite puts beside a file."""
_DEEPEST = 40


class OwnFiles:
    """The host's own files and folders. What was noted once is never forgotten: a configuration
    that names another store does not move the one that is open."""

    def __init__(self) -> None:
        self._noted: dict[Path, None] = {}
        self._guarded: dict[Path, None] = {}
        self._met: set[tuple[str, str]] = set()

    def __call__(self) -> tuple[Path, ...]:
        """What nobody may see, absolute: the store, the trail's key and anchor, the tokens, the
        doors' key and socket, and the stores of providers."""
        return tuple(self._noted)

    def guarded(self) -> tuple[Path, ...]:
        """What may be read and never changed, without links: whatever rules and tools came from.
        Links that lead there are among them."""
        return tuple(self._guarded)

    def note_config(self, config: HostConfig) -> None:
        """What a configuration says about them, and the files that it consists of."""
        settings = config.settings
        if settings.store is not None:
            self.note_store(settings.store)
        serving = config.serving
        tls = serving.http.tls
        for file in (
            settings.audit_key,
            settings.audit_anchor,
            serving.tokens_file,
            serving.http.unix,
            None if tls is None else tls.key,
        ):
            if file is not None:
                self._note(Path(file))
        for source in config.sources:
            self._guard(Path(source))
        # Without a file, the command line would still find its own in the working folder.
        folder = Path(config.sources[0]).parent if config.sources else Path()
        self._note(folder / STATE)
        self._guard(folder / _PROFILES)
        if (folder / LOCK).exists() or any(map(_pinned, config.providers.values())):
            self._guard(folder / LOCK)
        for item in (*config.tools, *config.plugins):
            self._note_tool(item)
        for provider in config.providers.values():
            self._note_provider(provider)

    def note_store(self, store: str | Store) -> None:
        """What belongs to a store."""
        if isinstance(store, str):
            kind, _, name = store.partition(":")
            path = Path(name) if kind == "sqlite" and name else None
        else:
            path = store.path
        if path is not None:
            self._note_database(path, ".key")

    def _note_tool(self, item: Mapping[str, Any]) -> None:
        """The file that describes a tool, and the files that its functions are in."""
        base = str(item.get("base") or "")
        if not base:
            return
        self._note_source(item.get("source"), base)
        config: Mapping[str, Any] = item.get("config") or {}
        for name in (
            item.get("load"),
            item.get("python"),
            item.get("module"),
            config.get("module"),
        ):
            if isinstance(name, str) and (base, name) not in self._met and "\0" not in name:
                self._met.add((base, name))
                for path in _module(Path(base), name):
                    self._guard(path)

    def _note_provider(self, settings: Mapping[str, Any]) -> None:
        place: Mapping[str, Any] = settings.get("place") or {}
        base = str(place.get("base") or ".")
        if settings.get("type") == "storage" and isinstance(settings.get("path"), str):
            self._note_database(Path(base, settings["path"]))
        self._note_source(place.get("source"), base)

    def _note_source(self, source: Any, base: str) -> None:
        """The file behind `tools/more.yaml:12`, which lies in `base`."""
        label = str(source or "").rpartition(":")[0]
        if label and (base, label) not in self._met and "\0" not in label:
            self._met.add((base, label))
            path = Path(base, Path(label).name)
            if path.is_file():
                self._guard(path)

    def _note_database(self, path: Path, *more: str) -> None:
        for end in (*_DATABASE, *more):
            self._note(path.with_name(f"{path.name}{end}"))

    def _note(self, path: Path) -> None:
        path = path.absolute()
        self._noted[path.parent if path.parent.name == STATE else path] = None

    def _guard(self, path: Path) -> None:
        for link in _links(path.absolute()):
            self._guarded[link] = None
        self._guarded[Path(os.path.realpath(path))] = None


def _pinned(provider: Mapping[str, Any]) -> bool:
    """Whether the lock has a say in a provider's tools."""
    from toolcrib.host.provider_settings import trust_of

    try:
        return trust_of(str(provider.get("type")), provider.get("trust")) != "off"
    except ConfigError:
        return True  # whoever builds it says what is wrong


def _module(base: Path, name: str) -> Iterator[Path]:
    """The files that a name of a module, or of a file or folder of tools, stands for."""
    if "://" in name:
        return
    if name.endswith(".py") or os.path.exists(base / name):  # noqa: PTH110 - refuses no name
        yield base / name
        return
    inner = base.joinpath(*name.split("."))
    for path in (inner.with_name(f"{inner.name}.py"), inner / "__init__.py"):
        if os.path.isfile(path):  # noqa: PTH113 - refuses no name
            yield path


def _links(path: Path, depth: int = 0) -> Iterator[Path]:
    """The links on the way to a path: whoever replaces one leads the host elsewhere."""
    here = "/"
    for part in path.parts[1:]:
        entry = Path(here, part)
        if entry.is_symlink() and depth < _DEEPEST:
            yield entry
            yield from _links(Path(os.path.normpath(Path(here, entry.readlink()))), depth + 1)
        here = os.path.realpath(entry)
