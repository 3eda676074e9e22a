"""Which loader an item asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcrib.errors import ConfigError
from toolcrib.host.loaders import (
    FileLoader,
    HttpLoader,
    ModuleLoader,
    PostgresLoader,
    SqliteLoader,
    loader_for,
)

PLACE: dict[str, Any] = {"source": "toolcrib.yaml:3", "base": "/x", "lines": {}, "enabled": True}


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        ({"load": "tools/*.yaml"}, FileLoader),
        ({"load": "tools.toml"}, FileLoader),
        ({"load": "folder"}, FileLoader),
        ({"load": "x.jsonc", "format": "toolregistry"}, FileLoader),
        ({"load": "tools.py"}, ModuleLoader),
        ({"load": "package.module"}, ModuleLoader),
        ({"load": "https://x.example/tools.json", "interval": "5m", "etag": False}, HttpLoader),
        ({"load": "http://x.example/t", "sha256": "a" * 64}, HttpLoader),
        ({"load": "http://127.0.0.1/t", "private": True}, HttpLoader),
        ({"load": "sqlite:tools.db?table=mine"}, SqliteLoader),
        ({"load": "sqlite:tools.db", "table": "mine"}, SqliteLoader),
        ({"load": "postgres://u:p@db.example/x", "table": "a.b"}, PostgresLoader),
        ({"load": "postgresql://db.example/x"}, PostgresLoader),
    ],
    ids=range(13),
)
def test_the_source_decides(tmp_path: Path, item: dict[str, Any], kind: type) -> None:
    (tmp_path / "folder").mkdir()
    assert type(loader_for({**item, **PLACE}, tmp_path)) is kind


def test_settings_arrive(tmp_path: Path) -> None:
    loader = loader_for({"load": "https://x.example/t", "interval": "5m"}, tmp_path)
    assert isinstance(loader, HttpLoader)
    assert loader.interval == 300
    sqlite = loader_for({"load": "sqlite:a/tools.db?table=mine"}, tmp_path)
    assert isinstance(sqlite, SqliteLoader)
    assert (sqlite.path, sqlite.table) == (tmp_path / "a/tools.db", "mine")


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"load": ""}, "load must name a source"),
        ({"load": 7}, "load must name a source, not 7"),
        ({"load": "ftp://x.example/t"}, "tools cannot be loaded from ftp:"),
        ({"load": "file:///etc/passwd"}, "tools cannot be loaded from file:"),
        ({"load": "x.yaml", "fromat": "utcp"}, "loading from a file has no setting 'fromat'"),
        ({"load": "x.yaml", "format": "utc"}, "'utc' is not a format. Did you mean utcp?"),
        ({"load": "x.py", "table": "x"}, "loading from a Python file has no setting 'table'"),
        ({"load": "a.b", "etag": True}, "loading from a module has no setting 'etag'"),
        ({"load": "http://x.example/t"}, "anybody on the way can change what comes over http"),
        ({"load": "https://u:p@x.example/t"}, "it holds a user or password"),
        ({"load": "https://x.example", "sha256": "abc"}, "sha256 must be 64 hexadecimal digits"),
        ({"load": "https://x.example", "sha256": 7}, "sha256 must be text"),
        ({"load": "https://x.example", "public_key": "abc"}, "public_key must be an Ed25519 key"),
        (
            {"load": "https://x.example", "public_key": "A" * 43 + "=", "sha256": "a" * 64},
            "sha256 and public_key are given",
        ),
        ({"load": "https://x.example", "interval": "soon"}, "'soon' is not a duration"),
        ({"load": "https://x.example", "etag": "yes"}, "etag must be true or false"),
        ({"load": "https://x.example", "private": "everything"}, "private: "),
        ({"load": "https://x.example", "headers": {"a": 1}}, "headers must be a mapping to text"),
        ({"load": "sqlite:"}, "sqlite: names no file"),
        ({"load": "sqlite:x.db?tabel=y"}, "loading from a database has no setting 'tabel'"),
        ({"load": "sqlite:x.db?table=y", "table": "y"}, "table is given twice"),
        ({"load": "sqlite:x.db?table=y;drop"}, "'y;drop' is not the name of a table"),
        ({"load": "postgres://x/y", "table": 'a"b'}, "is not the name of a table"),
    ],
    ids=range(23),
)
def test_wrong_items(tmp_path: Path, item: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loader_for(item, tmp_path)
    assert message in str(caught.value)
    assert "u:p@" not in str(caught.value)
    assert caught.value.key
