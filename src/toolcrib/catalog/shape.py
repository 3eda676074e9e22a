"""How one annotation looks in JSON, and how its JSON value becomes a Python value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

Read = Callable[[Any], Any]
"""Turns a JSON value into the annotated type; raises `ConversionError` when it does not fit."""

Kind = Literal["", "number", "text", "bytes", "array", "object", "ordered"]
"""What bounds can be said about: a `number`, the length of `text`, `bytes`, an `array` or an
`object`, a value `ordered` in Python but not in JSON (dates, decimals), or nothing."""


class ConversionError(ValueError):
    """A JSON value does not become the annotated type. Says where and why."""

    def __init__(
        self, message: str, path: str = "", others: tuple[ConversionError, ...] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        """Where the value stands, such as `filter.tags[2]`."""
        self.others = others
        """What is wrong with the other arguments."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message

    def under(self, key: str | int) -> ConversionError:
        """The same mistake, seen from the object or array that holds the value."""
        # A key may be anything the caller made up, and messages stay short.
        step = f"[{key}]" if isinstance(key, int) else key if len(key) <= 80 else f"{key[:79]}…"
        joint = "." if self.path and not self.path.startswith("[") else ""
        return ConversionError(self.message, f"{step}{joint}{self.path}")

    def all(self) -> tuple[ConversionError, ...]:
        """This mistake and those of the other arguments."""
        return (self, *self.others)


class Shape(msgspec.Struct, frozen=True):
    """One annotation: its schema, and how its values are read."""

    schema: dict[str, Any]
    """Shared between uses: copy it before adding to it."""
    read: Read
    plain: bool = False
    """A value that fits the schema is already the Python value, so reading can be left out."""
    kind: Kind = ""
    rank: int = 0
    """In a union lower ranks are tried first: what takes any text comes after what is choosy."""
    members: tuple[Shape, ...] = ()
    """The alternatives, when this is a union."""
    bounded: bool = False
    """The schema has bounds, which a default may break."""


def same(value: Any) -> Any:
    """Read a value that may be anything."""
    return value


ANY = Shape({}, same, plain=True, rank=3)


def described(value: Any) -> str:
    """A JSON value in the words of an error message: its type, never its content."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "an array"
        case dict():
            return "an object"
        case _:
            return f"a {type(value).__name__}"  # pyright: ignore[reportUnknownArgumentType]
