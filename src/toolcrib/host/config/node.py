"""A configuration as read: values that know where they stand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from toolcrib.core.jsontext import shown

Scalar: TypeAlias = str | int | float | bool | None

MAX_NODES = 200_000
MAX_DEPTH = 64


class Origin(msgspec.Struct, frozen=True):
    """The file that a value stands in."""

    file: str
    """As messages show it: the way the user named the main file, so that editors find it."""
    label: str
    """As sources show it: relative to the main file's folder."""
    base: Path
    """The folder that relative paths start from."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A key of a mapping, where it stands, and its value."""

    key: Node
    node: Node


# A large file has a million of these: a frozen dataclass takes eight times as long to make, and
# none of them is part of a cycle, so the collector need not look at them.
class Node(msgspec.Struct, frozen=True, gc=False):
    """A value and its place."""

    value: Scalar | tuple[Node, ...] | dict[str, Entry]
    origin: Origin
    line: int | None = None
    column: int | None = None
    variable: str | None = None
    """The `${…}` this value came from: such a value is hidden, and may stand for a number."""
    written: str | None = None
    """A number or word as it stands in the file: `1.10` is not 1.1 when it names a version."""
    size: int = 1
    """How many values this one holds, itself counted."""

    @property
    def entries(self) -> dict[str, Entry] | None:
        """The entries of a mapping, or None."""
        return self.value if isinstance(self.value, dict) else None

    @property
    def items(self) -> tuple[Node, ...] | None:
        """The items of a list, or None."""
        return self.value if isinstance(self.value, tuple) else None

    @property
    def source(self) -> str:
        """`file:line`, as rules and tools name their place."""
        return self.origin.label if self.line is None else f"{self.origin.label}:{self.line}"

    @property
    def shown(self) -> str:
        """The value as it may stand in a message."""
        if self.variable is not None:
            return f"the value of ${{{self.variable}}}"
        if isinstance(self.value, dict):
            return "a mapping"
        if self.value is None:
            return "nothing"
        return shown(self.value) if self.written is None else self.written

    def plain(self) -> Any:
        """The value without places."""
        value = self.value
        if isinstance(value, dict):
            return {name: entry.node.plain() for name, entry in value.items()}
        if isinstance(value, tuple):
            return [item.plain() for item in value]
        return value

    def get(self, name: str) -> Node | None:
        """The value of a key of this mapping."""
        entry = self.entries.get(name) if self.entries is not None else None
        return entry.node if entry else None

    def holding(self, value: Scalar | tuple[Node, ...] | dict[str, Entry]) -> Node:
        """Another value at the same place."""
        return replace(self, value=value, variable=None, written=None)


def node_of(value: object, origin: Origin) -> Node:
    """Nodes without lines, for values that come from Python; ValueError when one is not data."""
    budget = [MAX_NODES]
    return _node_of(value, origin, 0, budget)


def _node_of(value: object, origin: Origin, depth: int, budget: list[int]) -> Node:
    budget[0] -= 1
    if budget[0] < 0 or depth > MAX_DEPTH:
        raise ValueError(f"holds over {MAX_NODES} values or is nested over {MAX_DEPTH} deep")
    if isinstance(value, Path):
        return Node(str(value), origin)
    if value is None or isinstance(value, str | int | float):
        return Node(plain_scalar(value), origin)
    if isinstance(value, list | tuple):
        members = cast("list[object]", value)
        return Node(tuple(_node_of(m, origin, depth + 1, budget) for m in members), origin)
    if isinstance(value, Mapping):
        entries: dict[str, Entry] = {}
        for name, member in cast("Mapping[object, object]", value).items():
            if not isinstance(name, str):
                raise ValueError(f"has the key {shown(name)}, which is not text")
            entries[name] = Entry(Node(name, origin), _node_of(member, origin, depth + 1, budget))
        return Node(entries, origin)
    raise ValueError(f"holds {shown(value)}, which is not plain data")


def plain_scalar(value: Scalar) -> Scalar:
    """`value`, if JSON can carry it; otherwise a ValueError."""
    if isinstance(value, str):
        return _whole_text(value)
    if isinstance(value, float) and value - value != 0:
        raise ValueError("holds a number that is infinite or none")
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise ValueError("holds a whole number of over 64 bits")
    return value


def _whole_text(text: str) -> str:
    """JSON writes one character above U+FFFF as two halves; a half alone is no character."""
    if text.isascii():
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError("holds half of a character (a lone surrogate)") from None
