"""The shapes of arrays and of objects whose keys are data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from toolcrib.catalog.scalars import INT
from toolcrib.catalog.shape import ConversionError, Read, Shape, described
from toolcrib.errors import SpecError

_INTEGER_KEY = "^(0|-?[1-9][0-9]*)$"
_UNIQUE: tuple[Callable[[Any], Any], ...] = (set, frozenset)


def array_shape(item: Shape, make: Callable[[Any], Any]) -> Shape:
    """The shape of `list[item]`, a set, or a tuple of any length."""
    schema: dict[str, Any] = {"type": "array"}
    if item.schema:
        schema["items"] = dict(item.schema)
    if make in _UNIQUE:
        schema["uniqueItems"] = True
    items = _items_reader(item.read)
    is_list = make is list

    def read(value: Any) -> Any:
        result = items(value)
        try:
            return result if is_list else make(result)
        except TypeError:
            raise ConversionError("objects and arrays cannot stand in a set") from None

    return Shape(schema, read, plain=item.plain and is_list, kind="array", bounded=item.bounded)


def _items_reader(read_item: Read) -> Callable[[Any], list[Any]]:
    def read(value: Any) -> list[Any]:
        if value.__class__ is not list:
            raise ConversionError(f"expected an array, not {described(value)}")
        result: list[Any] = []
        try:
            # extend() keeps what it has read so far, so the length tells which item failed.
            result.extend(map(read_item, value))
        except ConversionError as error:
            raise error.under(len(result)) from None
        return result

    return read


def tuple_shape(items: Sequence[Shape], required: int | None = None) -> Shape:
    """The shape of an array with one type per place, the first `required` of them needed."""
    least = len(items) if required is None else required
    schema: dict[str, Any] = {"type": "array"}
    if items:
        schema["prefixItems"] = [dict(item.schema) for item in items]
        schema["items"] = False
    schema["minItems"], schema["maxItems"] = least, len(items)
    reads = [item.read for item in items]

    def read(value: Any) -> tuple[Any, ...]:
        if value.__class__ is not list:
            raise ConversionError(f"expected an array, not {described(value)}")
        if not least <= len(value) <= len(reads):
            raise ConversionError(f"expected {len(reads)} items, not {len(value)}")
        result: list[Any] = []
        try:
            for read_item, item in zip(reads, value, strict=False):
                result.append(read_item(item))
        except ConversionError as error:
            raise error.under(len(result)) from None
        return tuple(result)

    return Shape(schema, read, bounded=any(item.bounded for item in items))


def mapping_shape(key: Shape, value: Shape, make: Callable[[Any], Any]) -> Shape:
    """The shape of `dict[key, value]`. JSON has text as keys, so the key must be read from text."""
    schema: dict[str, Any] = {"type": "object"}
    read_key: Read = key.read
    if key.schema == INT.schema:
        schema["propertyNames"] = {"pattern": _INTEGER_KEY}
        read_key = _read_integer_key
    elif key.schema.get("type") == "string":
        if len(key.schema) > 1:
            schema["propertyNames"] = dict(key.schema)
    elif key.schema:
        raise SpecError(
            "the keys of a dict must be text in JSON",
            cure="Use str, int, a Literal or Enum of text, a date or a UUID as key",
        )
    if value.schema:
        schema["additionalProperties"] = dict(value.schema)
    read_value = value.read
    plain_keys = key.plain

    def read(given: Any) -> Any:
        if given.__class__ is not dict:
            raise ConversionError(f"expected an object, not {described(given)}")
        result: dict[Any, Any] = {}
        for name, item in given.items():
            try:
                result[name if plain_keys else read_key(name)] = read_value(item)
            except ConversionError as error:
                raise error.under(name) from None
        return result if make is dict else make(result)

    plain = key.plain and value.plain and make is dict
    return Shape(schema, read, plain=plain, kind="object", bounded=key.bounded or value.bounded)


def _read_integer_key(text: str) -> int:
    # Longer numbers cost Python time out of proportion, and are no keys.
    if len(text) <= 40 and text.removeprefix("-").isdecimal():
        return int(text)
    raise ConversionError("expected an integer as key")
