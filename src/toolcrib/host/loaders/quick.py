"""Entries that say nothing unusual become items in a hurry; in JSON, without a node for each value.

Whatever is not plainly right here is left to the careful reading, which knows lines and words:
this file refuses nothing, it only declines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from json.decoder import scanstring  # pyright: ignore[reportUnknownVariableType, reportAttributeAccessIssue]
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType

from toolcrib.core.canonical import canonical
from toolcrib.core.schema import admit
from toolcrib.core.spec import Effect
from toolcrib.core.units import duration
from toolcrib.errors import SchemaError
from toolcrib.host.config.document import parse_json
from toolcrib.host.config.node import MAX_DEPTH, Origin
from toolcrib.host.config.tools import place_of
from toolcrib.host.loaders.remote import refused

_SPACE = re.compile(r"[ \t\n\r]*+")
_Text = Annotated[str, Meta(min_length=1)]
_Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.:-]{1,128}\Z")]
_Words = list[_Text] | UnsetType


class _Usual(msgspec.Struct, forbid_unknown_fields=True):
    """An entry that needs no careful reading; python, templates and policies always do."""

    name: _Name
    kind: Literal["http", "shell", "process", "storage"]
    input_schema: dict[str, Any] | UnsetType = UNSET
    output_schema: dict[str, Any] | UnsetType = UNSET
    config: dict[str, Any] | UnsetType = UNSET
    description: str | UnsetType = UNSET
    title: _Text | UnsetType = UNSET
    effects: list[Effect] | UnsetType = UNSET
    idempotent: bool | UnsetType = UNSET
    timeout: str | UnsetType = UNSET
    version: _Text | UnsetType = UNSET
    category: _Text | UnsetType = UNSET
    tags: _Words = UNSET
    permissions: _Words = UNSET
    requires_approval: bool | UnsetType = UNSET
    requires_secrets: _Words = UNSET
    requires_tools: _Words = UNSET
    conflicts_with: _Words = UNSET
    annotations: dict[str, Any] | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


_SETS = ("effects", "tags", "permissions", "requires_secrets", "requires_tools", "conflicts_with")


class Piece(NamedTuple):
    """One entry of a JSON document, as text and as a value, and the line it begins on."""

    line: int
    text: str
    value: Any


def usual_item(entry: Any, *, remote: bool) -> dict[str, Any] | None:
    """The item of an entry, without its place; None where it has to be read with care."""
    try:
        msgspec.convert(entry, _Usual)
        canonical(entry)  # halves of characters
        item: dict[str, Any] = dict(entry)
        if remote and refused(entry) is not None:
            return None
        if "timeout" in item:
            item["timeout"] = duration(item["timeout"])
        for name in ("input_schema", "output_schema"):
            if name in item:
                admit(item[name], where=name)
    except (ValueError, OverflowError, SchemaError):
        return None
    for name in _SETS:
        if name in item:
            item[name] = frozenset(item[name])
    item.setdefault("enabled", True)
    return item


def item_of(piece: Piece, origin: Origin, *, remote: bool) -> dict[str, Any] | None:
    """The item of an entry of JSON, or None where it has to be read with care."""
    text = piece.text
    if "${" in text or text.count("{") + text.count("[") > MAX_DEPTH - 2:
        return None
    item = usual_item(piece.value, remote=remote)
    if item is not None:
        item["source"] = f"{origin.label}:{piece.line}"
        item["base"] = str(origin.base)
        item["lines"] = _Lines(piece, origin)
    return item


class _Lines(Mapping[str, int]):
    """Where the keys of an entry stand, found when somebody asks: that is, when one is wrong."""

    def __init__(self, piece: Piece, origin: Origin) -> None:
        self._text = piece.text
        self._line = piece.line
        self._origin = origin
        self._found: dict[str, int] | None = None

    def __getitem__(self, key: str) -> int:
        return self._lines()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines())

    def __len__(self) -> int:
        return len(self._lines())

    def _lines(self) -> dict[str, int]:
        if self._found is None:
            node = parse_json(self._text, self._origin)
            lines: dict[str, int] = {} if node is None else place_of(node)["lines"]
            self._found = {key: line + self._line - 1 for key, line in lines.items()}
        return self._found


class _Unusual(Exception):
    """The document is not one that can be read in a hurry."""


def pieces(text: str) -> list[Piece] | None:
    """The entries of `{"tools": […]}`, or None for any other document."""
    try:
        return list(_pieces(text))
    except (_Unusual, ValueError, IndexError, RecursionError):
        return None


def _pieces(text: str) -> Iterator[Piece]:
    at = _after(text, 0, "{")
    key, at = cast("tuple[str, int]", scanstring(text, _after(text, at, '"'), True))
    if key != "tools":
        raise _Unusual
    at = _after(text, _after(text, at, ":"), "[")
    line, counted = 1, 0
    while True:
        at = _skipped(text, at)
        value, end = _decode(text, at)
        line, counted = line + text.count("\n", counted, at), at
        yield Piece(line, text[at:end], value)
        at = _skipped(text, end)
        if text[at] != ",":
            break
        at += 1
    at = _skipped(text, _after(text, _after(text, at, "]"), "}"))
    if at != len(text):
        raise _Unusual


def _skipped(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _after(text: str, at: int, mark: str) -> int:
    at = _skipped(text, at)
    if text[at] != mark:
        raise _Unusual
    return at + 1


def _pairs(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Unusual  # a key stands twice
    return found


def _no_number(word: str) -> NoReturn:
    raise _Unusual


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0:
        raise _Unusual
    return number


def _whole(text: str) -> int:
    if len(text) > 18:  # perhaps over 64 bits
        raise _Unusual
    return int(text)


_decode = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_constant=_no_number, parse_float=_finite, parse_int=_whole
).raw_decode
