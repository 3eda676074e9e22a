"""The settings of a storage provider."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from toolcrib.core.names import check_name
from toolcrib.core.protocols import Workshop
from toolcrib.core.units import did_you_mean, size
from toolcrib.errors import ConfigError, SpecError
from toolcrib.providers.storage.backend import Backend, Room
from toolcrib.providers.storage.memory import MemoryBackend

Scope = Literal["global", "session", "principal"]
"""Whose data a call sees: everybody's · that of its session · that of its principal."""
Action = Literal["read", "write", "list", "delete", "search"]

SCOPES: tuple[Scope, ...] = ("global", "session", "principal")
ACTIONS: tuple[Action, ...] = ("read", "write", "list", "delete", "search")
BACKENDS = ("memory", "sqlite", "postgres", "postgresql")
KEYS = (
    "backend", "path", "url", "connections", "scope", "prefix", "tools", "description",
    "max_key", "max_value", "max_items", "max_total",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class StorageSettings:
    """What a configuration says about one store, checked."""

    backend: str
    scope: Scope
    prefix: str
    """What the names of its tools begin with."""
    tools: tuple[Action, ...]
    """The tools that it has."""
    description: str
    """What is kept there, in words for the model."""
    room: Room
    path: str | None
    url: str | None
    connections: int


def read_settings(name: str, given: Mapping[str, Any]) -> StorageSettings:
    """The settings of the store `name`. Raises `ConfigError` with key and cure."""
    for key in given:
        if key not in KEYS:
            raise _wrong(key, f"a storage provider has no setting {key!r}", _nearest(key, KEYS))
    backend = _choice(given, "backend", "memory", BACKENDS)
    backend = "postgres" if backend == "postgresql" else backend
    prefix = _text(given, "prefix") or name
    try:
        check_name(f"{prefix}-search")
    except SpecError as error:
        key = "prefix" if "prefix" in given else None
        raise ConfigError(error.message, key=key, cure=error.cure) from None
    standard = Room()
    return StorageSettings(
        backend=backend,
        scope=cast("Scope", _choice(given, "scope", "global", SCOPES)),
        prefix=prefix,
        tools=_tools(given.get("tools")),
        description=_text(given, "description") or "",
        room=Room(
            max_key=_count(given, "max_key", standard.max_key, 1024),
            max_value=_size(given, "max_value", standard.max_value),
            max_items=_count(given, "max_items", standard.max_items, 10_000_000),
            max_total=_size(given, "max_total", standard.max_total),
        ),
        path=_place(given, "path", backend, "sqlite", "Write path: data/notes.db"),
        url=_place(given, "url", backend, "postgres", "Write url: ${DATABASE_URL}"),
        connections=_count(given, "connections", 4, 100),
    )


def build_backend(name: str, settings: StorageSettings, workshop: Workshop) -> Backend:
    """Where the store `name` keeps things; nothing is opened yet."""
    if settings.path is not None:
        from toolcrib.providers.storage.sqlite import SqliteBackend

        return SqliteBackend(workshop.file(settings.path), name)
    if settings.url is not None:
        if not settings.url.startswith(("postgres://", "postgresql://")):
            raise _wrong("url", "the address of a PostgreSQL database begins with postgresql://")
        if importlib.util.find_spec("asyncpg") is None:
            raise _wrong(
                "backend",
                "the backend postgres needs the package asyncpg",
                "Install it with: pip install 'toolcrib[postgres]'",
            )
        from toolcrib.providers.storage.postgres import PostgresBackend

        return PostgresBackend(settings.url, name, connections=settings.connections)
    return MemoryBackend()


def _place(
    given: Mapping[str, Any], key: str, backend: str, needed_by: str, cure: str
) -> str | None:
    """A setting that one backend needs and the others cannot have."""
    value = _text(given, key)
    if backend == needed_by and value is None:
        raise _wrong(key, f"the backend {backend} needs {key}", cure)
    if backend != needed_by and value is not None:
        raise _wrong(
            key,
            f"the backend {backend} has no {key}",
            f"Remove it, or write backend: {needed_by}",
        )
    return value


def _tools(given: Any) -> tuple[Action, ...]:
    if given is None:
        return ACTIONS
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        cure = f"Write some of: {', '.join(ACTIONS)}"
        raise _wrong("tools", "tools is a list of what the store can do", cure)
    names = cast("Sequence[Any]", given)
    for name in names:
        if name not in ACTIONS:
            text = f"a store has no tool {name!r}"
            raise _wrong("tools", text, _nearest(str(name), ACTIONS))
    return tuple(action for action in ACTIONS if action in names)


def _choice(given: Mapping[str, Any], key: str, default: str, known: Sequence[str]) -> str:
    value = given.get(key, default)
    if value not in known:
        raise _wrong(key, f"{key}: there is no {value!r}", _nearest(str(value), known))
    return value


def _text(given: Mapping[str, Any], key: str) -> str | None:
    value = given.get(key)
    if value is not None and (not isinstance(value, str) or not value):
        raise _wrong(key, f"{key} is text, not {type(value).__name__}", "Write it in quotes")
    return value


def _count(given: Mapping[str, Any], key: str, default: int, most: int) -> int:
    value = given.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise _wrong(key, f"{key}: {value!r} cannot be used", f"Write a number from 1 to {most}")
    return value


def _size(given: Mapping[str, Any], key: str, default: int) -> int:
    try:
        return size(given.get(key, default))
    except ValueError as error:
        raise _wrong(key, f"{key}: {error}") from None


def _nearest(word: str, known: Sequence[str]) -> str:
    near = did_you_mean(word, known)
    return f"Did you mean {near}?" if near else f"Known: {', '.join(known)}"


def _wrong(key: str, message: str, cure: str | None = None) -> ConfigError:
    return ConfigError(message, key=key, cure=cure)
