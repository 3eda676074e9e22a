"""Definitions of prompts, resources and templates: what they go by, and how they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from toolcrib.protocol.mcp.definitions import visible
from toolcrib.transports.mcp.offers import What

_LONGEST_KEY = 4096
_WORDS = ("title", "description")


class Kind(msgspec.Struct, frozen=True):
    """One kind of list."""

    method: str
    member: str
    """Where the entries stand in the answer."""
    key: str
    """The member of an entry that it goes by."""
    what: What
    named: bool
    """Whether the key is a name, which we may choose another one for."""


PROMPTS = Kind("prompts/list", "prompts", "name", "prompts", True)
RESOURCES = Kind("resources/list", "resources", "uri", "resources", False)
TEMPLATES = Kind("resources/templates/list", "resourceTemplates", "uriTemplate", "resources", False)


def shown(kind: Kind, raw: Any) -> Mapping[str, Any] | None:
    """An entry as a client lists it: all it has, with no invisible characters in the words that
    people and models read. None for one that cannot be used."""
    if not isinstance(raw, dict):
        return None
    item = cast("dict[str, Any]", raw)
    key, name = item.get(kind.key), item.get("name")
    if not isinstance(key, str) or not 0 < len(key) <= _LONGEST_KEY or not isinstance(name, str):
        return None
    if not key.isprintable() or visible(key) != key:
        return None  # it goes by it, so it cannot be shown in another way
    words = _WORDS if kind.named else (*_WORDS, "name")
    made = _cleaned(item, words)
    arguments: Any = item.get("arguments")
    if isinstance(arguments, list):
        given = cast("list[Any]", arguments)
        clean = [_cleaned(one, _WORDS) if isinstance(one, dict) else one for one in given]
        if any(new is not old for new, old in zip(clean, given, strict=True)):
            made = {**made, "arguments": clean}
    return made


def _cleaned(item: Any, words: tuple[str, ...]) -> dict[str, Any]:
    changes = {
        word: clean
        for word in words
        if isinstance(text := item.get(word), str) and (clean := visible(text)) != text
    }
    return {**item, **changes} if changes else item
