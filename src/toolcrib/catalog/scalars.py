"""The shapes of single values: numbers, text, dates, identifiers, choices."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import decimal
import uuid
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Annotated, Any

import msgspec

from toolcrib.catalog.shape import ANY, ConversionError, Read, Shape, described
from toolcrib.errors import SpecError

_TIME = r"^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?$"
_DURATION = r"^-?P([0-9]+D)?(T([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]{1,6})?S)?)?$"
# Four digits of exponent are plenty; a longer one makes arithmetic with the value a bomb.
_DECIMAL = r"^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,4})?$"


def read_int(value: Any) -> int:
    """Read an integer. JSON Schema counts 1.0 as one; a boolean is none."""
    if value.__class__ is int:
        return value
    if value.__class__ is float and value.is_integer():
        return int(value)
    raise ConversionError(f"expected an integer, not {described(value)}")


def read_float(value: Any) -> float:
    """Read a number."""
    if value.__class__ is float:
        return value
    if value.__class__ is int:
        try:
            return float(value)
        except OverflowError:
            raise ConversionError("the number is too large") from None
    raise ConversionError(f"expected a number, not {described(value)}")


def _exactly(kind: type, name: str) -> Read:
    def read(value: Any) -> Any:
        if value.__class__ is kind:
            return value
        raise ConversionError(f"expected {name}, not {described(value)}")

    return read


def _from_text(parse: Callable[[str], Any], name: str) -> Read:
    def read(value: Any) -> Any:
        if value.__class__ is not str:
            raise ConversionError(f"expected {name} as text, not {described(value)}")
        try:
            return parse(value)
        except (ValueError, ArithmeticError):
            raise ConversionError(f"expected {name}") from None

    return read


def _msgspec(kind: Any) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        # msgspec's ValidationError is no ValueError in every release; say what it is here.
        try:
            return msgspec.convert(text, kind)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from None

    return parse


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _bytearray(text: str) -> bytearray:
    return bytearray(_base64(text))


def _decimal(text: str) -> decimal.Decimal:
    value = decimal.Decimal(text)
    if not value.is_finite():
        raise ValueError(text)
    return value


def _string(read: Read, rank: int = 0, **schema: Any) -> Shape:
    return Shape({"type": "string", **schema}, read, kind="ordered", rank=rank)


_AWARE = Annotated[dt.datetime, msgspec.Meta(tz=True)]
_BASE64 = {"type": "string", "contentEncoding": "base64"}

INT = Shape({"type": "integer"}, read_int, kind="number")
FLOAT = Shape({"type": "number"}, read_float, kind="number")
TEXT = Shape({"type": "string"}, _exactly(str, "text"), plain=True, kind="text", rank=1)
NULL = Shape({"type": "null"}, _exactly(type(None), "null"), plain=True)

SCALARS: dict[Any, Shape] = {
    int: INT,
    float: FLOAT,
    str: TEXT,
    bool: Shape({"type": "boolean"}, _exactly(bool, "a boolean"), plain=True),
    None: NULL,
    type(None): NULL,
    Any: ANY,
    object: ANY,
    bytes: Shape(_BASE64, _from_text(_base64, "bytes in base64"), kind="bytes", rank=2),
    bytearray: Shape(_BASE64, _from_text(_bytearray, "bytes in base64"), kind="bytes", rank=2),
    dt.datetime: _string(
        _from_text(_msgspec(_AWARE), "a date and time with UTC offset, like 2026-01-31T09:00:00Z"),
        format="date-time",
    ),
    dt.date: _string(_from_text(_msgspec(dt.date), "a date like 2026-01-31"), format="date"),
    dt.time: _string(_from_text(dt.time.fromisoformat, "a time like 09:00:00"), pattern=_TIME),
    dt.timedelta: _string(
        _from_text(_msgspec(dt.timedelta), "a duration like PT1H30M"), pattern=_DURATION
    ),
    uuid.UUID: _string(_from_text(_msgspec(uuid.UUID), "a UUID"), format="uuid"),
    decimal.Decimal: _string(_from_text(_decimal, "a decimal number like 19.99"), pattern=_DECIMAL),
}
"""The shape of each class that needs no further looking at."""


def path_shape(kind: Callable[[str], Any]) -> Shape:
    """The shape of a path class."""
    return Shape({"type": "string", "format": "path"}, _from_text(kind, "a path"), rank=1)


def choice_shape(choices: Iterable[tuple[Any, Any]], what: str) -> Shape:
    """The shape of a fixed set of (JSON value, Python value) pairs."""
    table: dict[tuple[bool, Any], Any] = {}
    shown: list[Any] = []
    for value, result in choices:
        if not (value is None or isinstance(value, str | int | float)):
            raise SpecError(
                f"{what} has the value {value!r}, which is not a JSON scalar",
                cure="Use text or numbers as values",
            )
        table.setdefault((value.__class__ is bool, value), result)
        shown.append(value)
    if not shown:
        raise SpecError(f"{what} has no values", cure="Give it at least one")

    def read(value: Any) -> Any:
        try:
            # True equals 1 in Python and not in JSON, so the key says which it is.
            return table[value.__class__ is bool, value]
        except (KeyError, TypeError):
            raise ConversionError(f"expected one of {', '.join(map(repr, shown))}") from None

    schema: dict[str, Any] = {"enum": shown}
    for kind, name in ((str, "string"), (bool, "boolean"), (int, "integer")):
        if all(value.__class__ is kind for value in shown):
            schema = {"type": name, "enum": shown}
    plain = all(v is r and v.__class__ is not int for (_, v), r in table.items())
    return Shape(schema, read, plain=plain)


def literal_shape(values: Iterable[Any]) -> Shape:
    """The shape of a `Literal`."""
    pairs = [(value.value if isinstance(value, Enum) else value, value) for value in values]
    return choice_shape(pairs, "a Literal")


def enum_shape(kind: type[Enum]) -> Shape:
    """The shape of an `Enum`: its values, not its names."""
    return choice_shape([(member.value, member) for member in kind], f"the enum {kind.__name__}")
