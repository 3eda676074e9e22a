"""Wrong settings of a store are named, with the cure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcrib.errors import ConfigError
from toolcrib.providers.storage.provider import factory


class Folder:
    """What a provider is lent."""

    folder = Path()

    def sandbox(self, name: str | None = None) -> Any:
        raise AssertionError("a store runs no commands")

    def file(self, path: str) -> Path:
        return Path(path)


@pytest.mark.parametrize(
    ("settings", "key", "cure"),
    [
        ({"backend": "sqllite"}, "backend", "Did you mean sqlite?"),
        ({"backend": None}, "backend", "Known: memory, sqlite, postgres, postgresql"),
        ({"scopes": "session"}, "scopes", "Did you mean scope?"),
        ({"scope": "sesion"}, "scope", "Did you mean session?"),
        ({"backend": "sqlite"}, "path", "Write path: data/notes.db"),
        ({"backend": "sqlite", "path": 5}, "path", "Write it in quotes"),
        ({"backend": "postgres"}, "url", "Write url: ${DATABASE_URL}"),
        ({"backend": "postgres", "url": "mysql://x"}, "url", None),
        ({"path": "x.db"}, "path", "Remove it, or write backend: sqlite"),
        ({"max_value": "64 kBs"}, "max_value", None),
        ({"max_key": 0}, "max_key", "Write a number from 1 to 1024"),
        ({"max_items": "many"}, "max_items", "Write a number from 1 to 10000000"),
        ({"max_items": True}, "max_items", "Write a number from 1 to 10000000"),
        ({"tools": "read"}, "tools", "Write some of: read, write, list, delete, search"),
        ({"tools": []}, "tools", "Write some of: read, write, list, delete, search"),
        ({"tools": ["reed"]}, "tools", "Did you mean read?"),
        ({"prefix": "my notes"}, "prefix", "Use 1 to 128 of: letters A-Z a-z, digits, and _ . : -"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_setting_is_named(settings: Any, key: str, cure: str | None) -> None:
    with pytest.raises(ConfigError) as caught:
        factory("notes", settings, Folder())
    assert caught.value.key == key
    if cure is not None:
        assert caught.value.cure == cure


def test_a_name_that_cannot_begin_a_tool_is_refused() -> None:
    with pytest.raises(ConfigError, match="contains ' '"):
        factory("my notes", {}, Folder())


def test_the_address_of_a_database_is_never_quoted() -> None:
    with pytest.raises(ConfigError) as caught:
        factory("notes", {"backend": "postgres", "url": "mysql://u:hunter2@x"}, Folder())
    assert "hunter2" not in str(caught.value)


def test_a_missing_driver_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError) as caught:
        factory("notes", {"backend": "postgres", "url": "postgresql://x"}, Folder())
    assert caught.value.cure == "Install it with: pip install 'toolcrib[postgres]'"


def test_sizes_have_units() -> None:
    store = factory("notes", {"max_value": "2kB"}, Folder())
    [write] = [spec for spec in store.known_tools() if spec.name == "notes-write"]
    assert "2000 bytes" in write.input_schema["properties"]["value"]["description"]
