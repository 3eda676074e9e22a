"""What a single value can be: each kind reads a node, and describes itself to editors."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from toolcrib.core import units
from toolcrib.core.names import check_name
from toolcrib.core.profile import Rate
from toolcrib.errors import ConfigError
from toolcrib.host.config.environment import VARIABLE
from toolcrib.host.config.node import Node
from toolcrib.host.config.reading import Reading
from toolcrib.reasons import is_reason


class Nothing(enum.Enum):
    """What is read where a mistake was noted instead."""

    BAD = enum.auto()


BAD: Final = Nothing.BAD


class Kind(Protocol):
    """What a value can be."""

    @property
    def name(self) -> str:
        """In words, with an article: `a whole number`."""
        ...

    def read(self, node: Node, key: str, reading: Reading) -> Any:
        """The value, or BAD after noting the mistake."""
        ...

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of what is accepted."""
        ...


class Unfit(Exception):
    """A value is not of the kind: in other words than the usual, or with a cure."""

    def __init__(self, cure: str | None = None, *, message: str | None = None) -> None:
        super().__init__(message)
        self.cure = cure
        self.message = message
        """What follows the key; None for `must be …, not …`."""


class Value(msgspec.Struct, frozen=True):
    """A kind made of a function."""

    name: str
    convert: Callable[[Node], Any]
    json: dict[str, Any]
    """The schema of the value where it is not a variable."""

    def read(self, node: Node, key: str, reading: Reading) -> Any:
        try:
            return self.convert(node)
        except Unfit as unfit:
            message = unfit.message or f"must be {self.name}, not {node.shown}"
            reading.wrong(node, key, f"{key} {message}", unfit.cure)
            return BAD

    def schema(self) -> dict[str, Any]:
        if self.json.get("type") == "string" and "pattern" not in self.json:
            return dict(self.json)
        return {"anyOf": [self.json, {"type": "string", "pattern": VARIABLE}]}


def _text(node: Node) -> str:
    if isinstance(node.value, str):
        if node.value:
            return node.value
        raise Unfit("Give it a value, or remove the line", message="is empty")
    if isinstance(node.value, bool | int | float):
        raise Unfit(f'Put it in quotes: "{node.written or node.value}"')
    raise Unfit


def _any_text(node: Node) -> str:
    return "" if node.value == "" else _text(node)


def _flag(node: Node) -> bool:
    if isinstance(node.value, bool):
        return node.value
    if node.variable is not None and node.value in ("true", "false"):
        return node.value == "true"
    raise Unfit("Use true or false; yes, no, on and off are plain text")


def _number(node: Node) -> int | float:
    value = node.value
    if node.variable is not None and isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise Unfit from None
        value = int(value) if value.is_integer() else value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unfit
    return value


def whole(least: int = 0, most: int | None = None) -> Value:
    """A whole number from `least` to `most`."""
    limit = f"from {least} to {most}" if most is not None else f"of at least {least}"

    def convert(node: Node) -> int:
        value = _number(node)
        if isinstance(value, float) or value < least or (most is not None and value > most):
            raise Unfit
        return value

    json: dict[str, Any] = {"type": "integer", "minimum": least}
    return Value(
        f"a whole number {limit}", convert, json if most is None else {**json, "maximum": most}
    )


def _share(node: Node) -> float:
    value = _number(node)
    if not 0 <= value <= 1:
        raise Unfit
    return float(value)


def choice(*words: str) -> Value:
    """One of some words."""

    def convert(node: Node) -> str:
        if isinstance(node.value, str) and node.value in words:
            return node.value
        near = units.did_you_mean(str(node.value), words) if node.variable is None else None
        raise Unfit(f"Did you mean {near}?" if near else None)

    return Value(f"one of {', '.join(words)}", convert, {"enum": list(words)})


def _unit(parse: Callable[[Any], Any]) -> Callable[[Node], Any]:
    def convert(node: Node) -> Any:
        if node.value is None or node.entries is not None or node.items is not None:
            raise Unfit
        try:
            return parse(node.value)
        except ValueError as error:
            if node.variable is not None:
                raise Unfit from None
            what, cure = _told(str(error))
            raise Unfit(cure, message=f"is wrong: {what}") from None

    return convert


def _told(text: str) -> tuple[str, str]:
    """What is wrong, and the cure, of a sentence about a unit."""
    what, _, cure = text.partition(" Write ")
    what, _, near = what.rstrip(".").replace("; did you", ": did you").partition(": did ")
    return what, f"Did {near} Write {cure}" if near else f"Write {cure}"


def _rate(value: Any) -> Rate:
    rate = units.rate(value)
    return Rate(count=rate.count, seconds=rate.seconds)


def _name(node: Node) -> str:
    text = _text(node)
    try:
        return check_name(text)
    except ConfigError as error:
        raise Unfit(error.cure, message=f"is wrong: {error.message}") from None


def _reason(node: Node) -> str:
    text = _text(node)
    if not is_reason(text):
        raise Unfit("Use lower case words joined by _, such as branch_prefix_required")
    return text


def _path(node: Node) -> str:
    return _absolute(node, _text(node))


def _absolute(node: Node, path: str) -> str:
    if "\0" in path:
        raise Unfit("Remove it", message="holds a NUL character")
    return os.path.normpath(node.origin.base / path)


def _store(node: Node) -> str:
    text = _text(node)
    if text == "memory":
        return text
    scheme, _, path = text.partition(":")
    if scheme != "sqlite" or not path:
        raise Unfit
    return f"sqlite:{_absolute(node, path)}"


_DURATION = r"^\s*([0-9]+(\.[0-9]+)?(us|ms|s|m|h|d|w))+\s*$"
_SIZE = r"^\s*[0-9]+(\.[0-9]+)? ?([kKMGT]?B|[KMGT]iB)\s*$"
_RATE = r"^\s*[0-9]+ ?/ ?[0-9A-Za-z.]+\s*$"

TEXT = Value("text", _text, {"type": "string"})
ANY_TEXT = Value("text", _any_text, {"type": "string"})
FLAG = Value("true or false", _flag, {"type": "boolean"})
NUMBER = Value("a number", _number, {"type": "number"})
SHARE = Value("a number from 0 to 1", _share, {"type": "number", "minimum": 0, "maximum": 1})
DURATION = Value(
    "a duration such as 30s",
    _unit(units.duration),
    {"anyOf": [{"type": "string", "pattern": _DURATION}, {"type": "number"}]},
)
PAUSE = Value(
    "a duration such as 30s, or 0",
    _unit(lambda value: units.duration(value, zero=True)),
    DURATION.json,
)
SIZE = Value(
    "a size such as 64kB",
    _unit(lambda value: units.size(value, zero=True)),
    {"anyOf": [{"type": "string", "pattern": _SIZE}, {"type": "integer"}]},
)
RATE = Value(
    "a rate such as 60/min",
    _unit(_rate),
    {"type": "string", "pattern": _RATE},
)
NAME = Value("a tool's name", _name, {"type": "string", "pattern": "^[A-Za-z0-9_.:-]{1,128}$"})
REASON = Value("a reason code", _reason, {"type": "string", "pattern": "^[a-z_][a-z0-9_]*$"})
PATH = Value("a path", _path, {"type": "string"})
STORE = Value(
    "memory or sqlite:PATH", _store, {"type": "string", "pattern": "^(memory|sqlite:.+)$"}
)
