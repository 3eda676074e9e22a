"""Where a host keeps what is its own: its store, the trail's key and anchor."""

from __future__ import annotations

from pathlib import Path

from toolcrib.core.protocols import Store
from toolcrib.core.settings import HostConfig

STATE = ".toolcrib"
"""The folder in which the command line keeps the store of a configuration beside it."""
_BESIDE = ("", "-wal", "-shm", "-journal", ".key")
"""What SQLite and the trail put beside the store's file."""


class OwnFiles:
    """The host's own files and folders. What was noted once is never forgotten: a configuration
    that names another store does not move the one that is open."""

    def __init__(self) -> None:
        self._noted: dict[Path, None] = {}

    def __call__(self) -> tuple[Path, ...]:
        """All of them, absolute."""
        return tuple(self._noted)

    def note_config(self, config: HostConfig) -> None:
        """What a configuration says about them."""
        settings = config.settings
        if settings.store is not None:
            self.note_store(settings.store)
        for file in (settings.audit_key, settings.audit_anchor):
            if file is not None:
                self._note(Path(file))
        if config.sources:
            self._note(Path(config.sources[0]).parent / STATE)

    def note_store(self, store: str | Store) -> None:
        """What belongs to a store."""
        if isinstance(store, str):
            kind, _, name = store.partition(":")
            path = Path(name) if kind == "sqlite" and name else None
        else:
            path = store.path
        if path is not None:
            for end in _BESIDE:
                self._note(path.with_name(f"{path.name}{end}"))

    def _note(self, path: Path) -> None:
        path = path.absolute()
        self._noted[path.parent if path.parent.name == STATE else path] = None
