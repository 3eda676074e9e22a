"""The shapes of pydantic models, which bring their own schema and their own reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.catalog.shape import ConversionError, Read, Shape
from toolcrib.errors import SpecError

if TYPE_CHECKING:
    from toolcrib.catalog.types import TypeReader

_REF = "#/$defs/"


def pydantic_shape(reader: TypeReader, cls: Any) -> Shape:
    """The shape of a model class. pydantic itself is never imported from here."""

    def build(name: str) -> Shape:
        try:
            schema: dict[str, Any] = cls.model_json_schema(
                mode="validation" if reader.closed else "serialization"
            )
        except Exception as error:  # pydantic has an exception class per cause
            raise SpecError(
                f"pydantic cannot write the schema of {cls.__name__}: {error}",
                cure="Use fields with a JSON form",
            ) from None
        return Shape(_adopt(reader, schema, name), _reader(cls))

    return reader.named(cls, cls.__name__, build)


def _adopt(reader: TypeReader, schema: dict[str, Any], own_name: str) -> dict[str, Any]:
    """Move the model's own `$defs` to the function's, under names that are free there."""
    inner: dict[str, Any] = schema.pop("$defs", {})
    renamed: dict[str, str] = {}
    own = schema.get("$ref", "").removeprefix(_REF)
    if own in inner:  # a model that contains itself stands in its own `$defs`
        schema = inner.pop(own)
        renamed[own] = own_name
    for name, definition in inner.items():
        if reader.defs.get(name) == definition:
            continue
        free = reader.free_name(name)
        if free != name:
            renamed[name] = free
        reader.defs[free] = definition
    if renamed:
        schema = _rename(schema, renamed)
        for name in inner:
            free = renamed.get(name, name)
            reader.defs[free] = _rename(reader.defs[free], renamed)
    return schema


def _rename(value: Any, renamed: dict[str, str]) -> Any:
    if isinstance(value, list):
        return [_rename(item, renamed) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(value, dict):
        return value
    result: dict[str, Any] = {}
    for key, item in value.items():  # pyright: ignore[reportUnknownVariableType]
        if key == "$ref" and isinstance(item, str) and item.startswith(_REF):
            name = item.removeprefix(_REF)
            result["$ref"] = _REF + renamed.get(name, name)
        else:
            result[key] = _rename(item, renamed)
    return result


def _reader(cls: Any) -> Read:
    def read(value: Any) -> Any:
        # The JSON form, because a strict model takes a date from JSON text and not from a str.
        try:
            return cls.model_validate_json(msgspec.json.encode(value))
        except ValueError as error:
            raise _explained(error) from None

    return read


def _explained(error: ValueError) -> ConversionError:
    errors = getattr(error, "errors", None)
    if not callable(errors):
        return ConversionError(str(error))
    found: Any = errors(include_url=False, include_context=False, include_input=False)
    first = ConversionError(found[0]["msg"][:1].lower() + found[0]["msg"][1:])
    for step in reversed(found[0]["loc"]):
        first = first.under(step)
    return first
