"""Which loader an item of `tools:` asks for: `- load: …` with its settings."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl

from toolcrib.core.jsontext import shown
from toolcrib.core.units import did_you_mean, duration
from toolcrib.errors import ConfigError
from toolcrib.host.loaders.database import PostgresLoader, SqliteLoader
from toolcrib.host.loaders.files import ENDINGS, FileLoader
from toolcrib.host.loaders.http import HttpLoader
from toolcrib.host.loaders.modules import ModuleLoader
from toolcrib.host.loaders.reader import FORMATS, Format

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):").match
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*").fullmatch
_PLACES = frozenset({"source", "base", "lines", "enabled"})
_HTTP = ("etag", "interval", "sha256", "public_key", "private", "headers", "format")


AnyLoader = FileLoader | ModuleLoader | HttpLoader | SqliteLoader | PostgresLoader


def loader_for(
    item: Mapping[str, Any], folder: str | Path, *, env: Mapping[str, str] | None = None
) -> AnyLoader:
    """The loader that `item` asks for; relative paths start from `folder`. Reads nothing yet."""
    where = item.get("load")
    if not isinstance(where, str) or not where:
        raise ConfigError(
            f"load must name a source, not {shown(where)}",
            key="load",
            cure="Write a file, a folder, a pattern, a module, https://…, sqlite:… or postgres://…",
        )
    given = {name: value for name, value in item.items() if name not in {"load", *_PLACES}}
    scheme = _scheme(where)
    if scheme in ("http", "https"):
        return _http(where, given)
    if scheme == "sqlite":
        path, table = _table(where.partition(":")[2], given)
        return SqliteLoader(Path(folder, path), table=table)
    if scheme in ("postgres", "postgresql"):
        _only(given, ("table",), "a database")
        return PostgresLoader(where, table=given.get("table", "tools"))
    if scheme is not None:
        known = ("https", "http", "sqlite", "postgres", "postgresql")
        close = did_you_mean(scheme, known)
        raise ConfigError(
            f"tools cannot be loaded from {scheme}:",
            key="load",
            cure=f"Did you mean {close}:?" if close else "Use https, sqlite or postgres, or a path",
        )
    if where.endswith(".py"):
        _only(given, (), "a Python file")
        return ModuleLoader(where, folder)
    if _is_module(where, Path(folder)):
        _only(given, (), "a module")
        return ModuleLoader(where, folder)
    _only(given, ("format",), "a file")
    return FileLoader(where, folder, format=_format(given), env=env)


def _scheme(where: str) -> str | None:
    match = _SCHEME(where)
    # One letter is a drive of another system, which no path here begins with either.
    return match[1].lower() if match is not None else None


def _is_module(where: str, folder: Path) -> bool:
    """Whether a word with dots is a module: it looks like one, and no file or folder is meant."""
    if not _MODULE(where) or where.lower().endswith(ENDINGS):
        return False
    return not os.path.exists(folder / where)  # noqa: PTH110 - a path object refuses some names


def _http(where: str, given: Mapping[str, Any]) -> HttpLoader:
    _only(given, _HTTP, "an address")
    settings = dict(given)
    if "interval" in settings:
        try:
            settings["interval"] = duration(settings["interval"])
        except ValueError as error:
            raise ConfigError(str(error), key="interval") from None
    if not isinstance(settings.get("etag", True), bool):
        raise ConfigError("etag must be true or false", key="etag", cure="Leave it out: it is on")
    for name in ("sha256", "public_key"):
        if not isinstance(settings.get(name, ""), str):
            raise ConfigError(f"{name} must be text", key=name, cure="Put it in quotes")
    headers = settings.get("headers", {})
    if not isinstance(headers, Mapping) or not all(
        isinstance(value, str) for value in cast("Mapping[str, Any]", headers).values()
    ):
        cure = 'Write {Authorization: "Bearer ${TOKEN}"}'
        raise ConfigError("headers must be a mapping to text", key="headers", cure=cure)
    settings["format"] = _format(given)
    return HttpLoader(where, **settings)


def _table(rest: str, given: Mapping[str, Any]) -> tuple[str, str]:
    path, _, query = rest.partition("?")
    if not path:
        raise ConfigError("sqlite: names no file", key="load", cure="Write sqlite:tools.db")
    settings = dict(given)
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in settings:
            raise ConfigError(f"{name} is given twice", key=name, cure="Keep one of the two")
        settings[name] = value
    _only(settings, ("table",), "a database")
    return path, settings.get("table", "tools")


def _format(given: Mapping[str, Any]) -> Format | None:
    wanted = given.get("format")
    if wanted is None:
        return None
    for known in FORMATS:
        if wanted == known:
            return known
    close = did_you_mean(str(wanted), FORMATS)
    raise ConfigError(
        f"{shown(wanted)} is not a format",
        key="format",
        cure=f"Did you mean {close}?" if close else f"Known: {', '.join(FORMATS)}",
    )


def _only(given: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    for name in given:
        if name not in known:
            close = did_you_mean(name, known)
            cure = f"Known: {', '.join(known)}" if known else "Remove it"
            raise ConfigError(
                f"loading from {what} has no setting {name!r}",
                key=name,
                cure=f"Did you mean {close}?" if close else cure,
            )
