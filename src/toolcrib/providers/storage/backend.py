"""What the storage provider asks of a backend, and the rules that hold in all of them."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

from toolcrib.core.jsontext import check_value
from toolcrib.errors import JsonError, ToolFailure

_BETWEEN = "\x1e"
"""Stands between the texts that are searched, so that nothing is found across two of them."""
_UNSEARCHED = str.maketrans({"\x00": "\ufffd", _BETWEEN: "\ufffd"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """How much may be kept."""

    max_key: int = 256
    """Characters of a key."""
    max_value: int = 64_000
    """Bytes of a value as JSON."""
    max_items: int = 10_000
    """Keys of one owner."""
    max_total: int = 16_000_000
    """Bytes of all values of one owner."""


class Item(NamedTuple):
    """A value ready to be kept."""

    key: str
    text: str
    """The value as JSON."""
    size: int
    """Its bytes."""
    words: str
    """What a search looks through: the key and all texts in the value, in one case."""


class Held(NamedTuple):
    """What one owner has now."""

    items: int
    size: int
    version: int
    """The newest version ever given to one of its keys."""


class Backend(Protocol):
    """Keeps items apart by owner. Keys come in the order of their code points.

    `write` and `delete` decide and act at once: of several callers with the same `if_version`
    exactly one gets through. A version is never given twice to an owner, also not for a key that
    was deleted in between. Failures of the system behind it are `ToolFailure`s with the reason
    `upstream_error`, or `outcome_unknown` when a change may have been made.
    """

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def health(self) -> None: ...
    async def read(self, owner: str, key: str) -> tuple[str, int] | None: ...
    async def write(self, owner: str, item: Item, if_version: int | None, room: Room) -> int: ...
    async def delete(self, owner: str, key: str, if_version: int | None) -> bool: ...
    async def list(
        self, owner: str, prefix: str, after: str, limit: int
    ) -> list[tuple[str, int]]: ...
    async def search(self, owner: str, words: str, limit: int) -> list[tuple[str, int]]: ...
    async def forget(self, owner: str) -> None: ...


def check_version(key: str, current: int, if_version: int | None) -> None:
    """Refuse a change whose condition is not met; 0 stands for a key that does not exist."""
    if if_version is None or if_version == current:
        return
    if current == 0:
        found = "it does not exist"
    elif if_version == 0:
        found = f"it exists, in version {current}"
    else:
        found = f"it is in version {current}"
    raise ToolFailure(
        f"{key!r} was not changed: {found}, not in version {if_version}. "
        "Read it again, and decide anew",
        reason="version_conflict",
        details={"key": key, "version": current},
    )


def check_room(held: Held, item: Item, old_size: int | None, room: Room) -> None:
    """Refuse an item for which there is no room left."""
    if old_size is None and held.items >= room.max_items:
        text = f"the store holds {held.items} keys, and no more than {room.max_items} may be kept"
    elif held.size - (old_size or 0) + item.size > room.max_total:
        text = f"with this value the store would hold more than {room.max_total} bytes"
    else:
        return
    raise ToolFailure(f"{text}. Delete something first", reason="storage_full")


def check_key(key: str, room: Room) -> str:
    """The key, if it is a good one."""
    if not key:
        problem = "a key is not empty"
    elif len(key) > room.max_key:
        problem = f"the key has {len(key)} characters; {room.max_key} are allowed"
    elif any(c < " " or "\x7f" <= c <= "\x9f" or "\ud800" <= c <= "\udfff" for c in key):
        problem = "a key has no control characters"
    else:
        return key
    raise ToolFailure(problem, reason="key_invalid")


def make_item(key: str, value: Any, room: Room) -> Item:
    """The item of a key and a value, if they are within the limits."""
    try:
        check_value(value, max_bytes=sys.maxsize)
    except JsonError as error:
        raise ToolFailure(f"the value cannot be kept: {error}", reason="value_invalid") from None
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    size = len(text.encode())
    if size > room.max_value:
        raise ToolFailure(
            f"the value has {size} bytes as JSON; {room.max_value} are allowed",
            reason="value_too_large",
        )
    return Item(check_key(key, room), text, size, _words(key, value))


def folded(text: str) -> str:
    """Text as it is searched: without regard to case."""
    return text.translate(_UNSEARCHED).casefold()


def _words(key: str, value: Any) -> str:
    found = [key]
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            found.append(one)
        elif isinstance(one, dict):
            left.extend(cast("dict[str, Any]", one).values())
        elif isinstance(one, list | tuple):
            left.extend(cast("list[Any]", one))
    return _BETWEEN.join(map(folded, found))
