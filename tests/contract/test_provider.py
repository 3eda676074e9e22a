"""The providers keep the promises of their contract, and the contract notices who does not."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from postgres import shared_postgres
from toolcrib.core.context import ToolContext
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import ToolFailure
from toolcrib.providers.storage.provider import factory
from toolcrib.testing import ProviderContract, broken_promises


class Folder:
    """What a provider is lent; it needs no sandbox."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def sandbox(self, name: str | None = None) -> Any:
        raise AssertionError("a store runs no commands")

    def file(self, path: str) -> Path:
        return self.folder / path

    def keep_secret(self, text: str) -> None:
        raise AssertionError("no token is fetched")


class StorageContract(ProviderContract):
    settings: Mapping[str, Any] = MappingProxyType({})
    folder = Path()

    def make(self) -> Any:
        return factory("shop-notes", self.settings, Folder(self.folder))

    def good_call(self) -> Any:
        return "shop-notes-write", {"key": "a", "value": {"n": 1}}

    def failing_call(self) -> Any:
        return "shop-notes-read", {"key": "missing"}


class TestMemoryStorage(StorageContract):
    settings = MappingProxyType({"backend": "memory"})


class TestSqliteStorage(StorageContract):
    settings = MappingProxyType({"backend": "sqlite", "path": "data/notes.db"})

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path


class TestPostgresStorage(StorageContract):
    @pytest.fixture(autouse=True)
    async def _database(self) -> None:
        self.settings = {"backend": "postgresql", "url": await shared_postgres().new_database()}


class Bell:
    """A provider with everything that one may have."""

    name = "bell"
    kind = "bell"
    names = ("bell-ring",)

    def __init__(self) -> None:
        self.open = self.used = False

    def follow(self, changed: Any) -> None:
        self.changed = changed

    def known_tools(self) -> list[ToolSpec]:
        return [ToolSpec(name=name, kind="bell") for name in self.names]

    async def __aenter__(self) -> Any:
        self.open = True
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.open, self.used = False, True

    async def list_tools(self) -> list[ToolSpec]:
        return [ToolSpec(name="bell-ring", kind="bell")]

    async def health(self) -> None:
        if not self.open:
            raise ConnectionError

    async def execute(self, ctx: ToolContext) -> str:
        await asyncio.sleep(0)
        if ctx.tool != "bell-ring" or ctx.arguments:
            raise ToolFailure("it does not ring like that")
        return "ding"


class TestBell(ProviderContract):
    def make(self) -> Any:
        return Bell()

    def good_call(self) -> Any:
        return "bell-ring", {}

    def failing_call(self) -> Any:
        return "bell-ring", {"softly": True}


class OnceOnly(Bell):
    async def list_tools(self) -> list[ToolSpec]:
        return [ToolSpec(name="bell-ring", kind="bell", description=f"used: {self.used}")]

    def known_tools(self) -> list[ToolSpec]:
        return [ToolSpec(name="bell-ring", kind="bell", description="used: False")]


class Hypochondriac(Bell):
    async def health(self) -> None:
        raise ConnectionError("it hurts")


class Boaster(Bell):
    names = ("bell-ring", "bell-sing")


class Hasty(Bell):
    def follow(self, changed: Any) -> None:
        changed()


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (OnceOnly, "test_it_can_be_entered_again"),
        (Hypochondriac, "test_it_is_healthy_while_it_is_entered"),
        (Boaster, "test_what_it_knows_beforehand_are_its_tools"),
        (Hasty, "test_it_takes_somebody_who_follows_it"),
    ],
)
async def test_who_breaks_a_promise_is_found(broken: Any, test: str) -> None:
    class Suite(TestBell):
        def make(self) -> Any:
            return broken()

    found = await broken_promises(Suite)
    assert list(found) == [test], found
    assert found[test].startswith("broken promise: ")
