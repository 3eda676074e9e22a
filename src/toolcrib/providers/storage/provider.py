"""The provider of type `storage`: agents keep JSON values under keys."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from toolcrib.core.context import ToolContext
from toolcrib.core.protocols import Workshop
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import ToolFailure
from toolcrib.providers.storage.backend import Backend, check_key, folded, make_item
from toolcrib.providers.storage.settings import (
    Action,
    StorageSettings,
    build_backend,
    read_settings,
)
from toolcrib.providers.storage.tools import KIND, specs

_Act = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]


def factory(name: str, settings: Mapping[str, Any], workshop: Workshop) -> StorageProvider:
    """The store `name` as configured; nothing is opened yet. Raises `ConfigError`."""
    read = read_settings(name, settings)
    return StorageProvider(name, read, build_backend(name, read, workshop))


class StorageProvider:
    """One store: tools to read, write, list, delete and search what is kept in it."""

    kind = KIND

    def __init__(self, name: str, settings: StorageSettings, backend: Backend) -> None:
        self.name = name
        self._settings = settings
        self._backend = backend
        made = specs(name, settings)
        self._specs = tuple(made.values())
        acts: dict[Action, _Act] = {
            "read": self._read,
            "write": self._write,
            "list": self._list,
            "delete": self._delete,
            "search": self._search,
        }
        # By the whole name, which is never taken apart: `a` and `a-b` cannot be mixed up.
        self._acts = {spec.name: acts[action] for action, spec in made.items()}

    async def __aenter__(self) -> StorageProvider:
        await self._backend.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._backend.close()

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Its tools, the same at all times."""
        return self._specs

    def known_tools(self) -> Sequence[ToolSpec]:
        """Its tools, also when it cannot be reached."""
        return self._specs

    async def health(self) -> None:
        """Raises when what is kept cannot be reached."""
        await self._backend.health()

    async def forget(self, session_id: str) -> None:
        """Delete what belongs to a session that has ended."""
        if self._settings.scope == "session":
            await self._backend.forget(_owner("session", session_id))

    async def execute(self, ctx: ToolContext) -> dict[str, Any]:
        """Run one of its tools."""
        name = ctx.tool if ctx.spec is None else ctx.spec.name
        act = self._acts.get(name)
        if act is None:
            raise ToolFailure(f"the store {self.name} has no tool {name}", reason="unknown_tool")
        return await act(self._owner(ctx), ctx.arguments)

    def _owner(self, ctx: ToolContext) -> str:
        """Whose data the call sees. It comes from the host and never from arguments."""
        scope = self._settings.scope
        if scope == "global":
            return scope
        if scope == "principal":
            return _owner(scope, ctx.principal.name)
        if not ctx.session_id:
            raise ToolFailure(
                f"the store {self.name} keeps data for sessions, and this call has none. "
                "Call it within a session, or have the store's scope changed",
                reason="session_required",
            )
        return _owner(scope, ctx.session_id)

    async def _read(self, owner: str, given: Mapping[str, Any]) -> dict[str, Any]:
        key = check_key(given["key"], self._settings.room)
        found = await self._backend.read(owner, key)
        if found is None:
            raise ToolFailure(f"there is no key {key!r}", reason="key_not_found")
        text, version = found
        return {"value": json.loads(text), "version": version}

    async def _write(self, owner: str, given: Mapping[str, Any]) -> dict[str, Any]:
        room = self._settings.room
        item = make_item(given["key"], given["value"], room)
        version = await self._backend.write(owner, item, given.get("if_version"), room)
        return {"version": version}

    async def _list(self, owner: str, given: Mapping[str, Any]) -> dict[str, Any]:
        limit = given.get("limit", 100)
        prefix, after = given.get("prefix", ""), given.get("cursor") or ""
        # One more than wanted: it tells whether there is a next page.
        found = await self._backend.list(owner, _plain(prefix), _plain(after), limit + 1)
        more = len(found) > limit
        return {"items": _items(found[:limit]), "cursor": found[limit - 1][0] if more else None}

    async def _delete(self, owner: str, given: Mapping[str, Any]) -> dict[str, Any]:
        key = check_key(given["key"], self._settings.room)
        return {"deleted": await self._backend.delete(owner, key, given.get("if_version"))}

    async def _search(self, owner: str, given: Mapping[str, Any]) -> dict[str, Any]:
        limit = given.get("limit", 20)
        found = await self._backend.search(owner, folded(_plain(given["text"])), limit + 1)
        return {"items": _items(found[:limit]), "more": len(found) > limit}


def _owner(scope: str, who: str) -> str:
    return f"{scope}:{who}"


def _items(found: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{"key": key, "version": version} for key, version in found]


def _plain(text: str) -> str:
    """Text that every backend can compare; nothing kept contains what is replaced here."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
