"""The settings described to editors and to the documentation, from their declarations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from toolcrib.host.config.credentials import Issuers
from toolcrib.host.config.kinds import Kind
from toolcrib.host.config.parts import ROOT
from toolcrib.host.config.shapes import Either, ListOf, MapOf, Section


class Documented(NamedTuple):
    """One setting as the documentation shows it."""

    path: str
    """Dotted, with NAME for names of the user's choice and [] for members of a list."""
    type: str
    default: str
    doc: str


def config_schema() -> dict[str, Any]:
    """The JSON Schema (draft-07) of a configuration file."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Toolcrib configuration",
        **ROOT.schema(),
    }


def document_settings() -> list[Documented]:
    """Every setting: path, type, default and one sentence."""
    return list({row.path: row for row in _walk(ROOT, "")}.values())


def _walk(kind: Kind, path: str) -> Iterator[Documented]:
    if isinstance(kind, ListOf):
        yield from _walk(kind.item, f"{path}[]")
    elif isinstance(kind, MapOf):
        yield from _walk(kind.item, f"{path}.NAME")
    elif isinstance(kind, Either):
        yield from _walk(kind.mapping, path)
    elif isinstance(kind, Issuers):
        yield from _walk(kind.one, path)
    elif isinstance(kind, Section):
        for setting in kind.settings:
            here = f"{path}.{setting.name}" if path else setting.name
            yield Documented(here, setting.kind.name, setting.default, setting.doc)
            yield from _walk(setting.kind, here)
