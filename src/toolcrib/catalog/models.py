"""The shapes of classes with named fields."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec

from toolcrib.catalog.arrays import tuple_shape
from toolcrib.catalog.defaults import MISSING, json_default
from toolcrib.catalog.docstring import parse
from toolcrib.catalog.scalars import choice_shape
from toolcrib.catalog.shape import ConversionError, Shape, described

if TYPE_CHECKING:
    from toolcrib.catalog.types import TypeReader

Build = Callable[["TypeReader", type, tuple[Any, ...]], Shape]


_PURE: tuple[Callable[[], Any], ...] = (list, dict, set, frozenset, tuple)


class Field(msgspec.Struct, frozen=True):
    """One field of a model."""

    name: str
    key: str
    """Its name in JSON."""
    shape: Shape
    required: bool


def builder(cls: type[Any]) -> Build | None:
    """Who builds the shape of `cls`, if it is a class with named fields."""
    if msgspec.Struct in cls.__mro__:
        return _struct
    # typing.is_typeddict() does not know the TypedDict of typing_extensions.
    if dict in cls.__mro__ and hasattr(cls, "__required_keys__"):
        return _typed_dict
    if dataclasses.is_dataclass(cls):
        return _dataclass
    if tuple in cls.__mro__ and hasattr(cls, "_fields"):
        return _named_tuple
    return None


def _dataclass(reader: TypeReader, cls: type, arguments: tuple[Any, ...]) -> Shape:
    hints = _hints(reader, cls, arguments)
    words = _class_words(cls).parameters
    fields: list[Field] = []
    # The mapping has the init-only fields too, which dataclasses.fields() leaves out.
    declared: dict[str, dataclasses.Field[Any]] = getattr(cls, "__dataclass_fields__", {})
    for name, field in declared.items():
        if not field.init or typing.get_origin(hints[name]) is ClassVar:
            continue
        absent = dataclasses.MISSING
        required = field.default is absent and field.default_factory is absent
        default = _default(field.default, field.default_factory, absent)
        shape = _shown(reader.field(hints[name], words.get(name)), default)
        fields.append(Field(name, name, shape, required))
    return _object(reader, cls, fields, _maker(cls))


def _typed_dict(reader: TypeReader, cls: type, arguments: tuple[Any, ...]) -> Shape:
    words = _class_words(cls).parameters
    fields: list[Field] = []
    demanded: frozenset[str] = getattr(cls, "__required_keys__", frozenset())
    for name, hint in _hints(reader, cls, arguments).items():
        required = name in demanded
        # Quoted annotations hide the marks from Python itself, so they are looked for again.
        origin = typing.get_origin(hint)
        if origin is typing.Required or origin is typing.NotRequired:
            required = origin is typing.Required
            (hint,) = typing.get_args(hint)
        fields.append(Field(name, name, reader.field(hint, words.get(name)), required))
    return _object(reader, cls, fields, None)


def _struct(reader: TypeReader, cls: Any, arguments: tuple[Any, ...]) -> Shape:
    words = _class_words(cls).parameters
    hints = _hints(reader, cls, arguments)
    fields: list[Field] = []
    tag, tag_field = cls.__struct_config__.tag, cls.__struct_config__.tag_field
    if tag_field is not None:
        fields.append(Field("", tag_field, choice_shape([(tag, tag)], "a tag"), True))
    for field in msgspec.structs.fields(cls):
        default = _default(field.default, field.default_factory, msgspec.NODEFAULT)
        shape = _shown(reader.field(hints[field.name], words.get(field.name)), default)
        fields.append(Field(field.name, field.encode_name, shape, field.required))
    make = _maker(cls)
    if cls.__struct_config__.array_like:
        return _array(cls, fields, make)
    return _object(reader, cls, fields, make)


def _named_tuple(reader: TypeReader, cls: Any, arguments: tuple[Any, ...]) -> Shape:
    hints = _hints(reader, cls, arguments)
    words = _class_words(cls).parameters
    fields: list[Field] = []
    for name in cls._fields:
        default = cls._field_defaults.get(name, MISSING)
        shape = _shown(reader.field(hints.get(name, Any), words.get(name)), default)
        fields.append(Field(name, name, shape, default is MISSING))
    return _array(cls, fields, _maker(cls))


def _object(
    reader: TypeReader,
    cls: type,
    fields: Sequence[Field],
    make: Callable[[dict[str, Any]], Any] | None,
) -> Shape:
    schema: dict[str, Any] = {"type": "object"}
    if text := _class_words(cls).description:
        schema["description"] = text
    schema["properties"] = {field.key: field.shape.schema for field in fields}
    if required := [field.key for field in fields if field.required]:
        schema["required"] = required
    if reader.closed:
        schema["additionalProperties"] = False
    keys = frozenset(field.key for field in fields)
    rows = [(field.key, field.name, field.shape.read, field.required) for field in fields]

    def read(value: Any) -> Any:
        if value.__class__ is not dict:
            raise ConversionError(f"expected an object, not {described(value)}")
        if not keys.issuperset(value):
            unknown = next(key for key in value if key not in keys)
            raise ConversionError("is not a field").under(unknown)
        result: dict[str, Any] = {}
        for key, name, read_field, required in rows:
            if key in value:
                try:
                    result[name] = read_field(value[key])
                except ConversionError as error:
                    raise error.under(key) from None
            elif required:
                raise ConversionError("is required", key)
        return result if make is None else make(result)

    plain = make is None and all(field.shape.plain for field in fields)
    return Shape(schema, read, plain=plain)


def _array(cls: type, fields: Sequence[Field], make: Callable[[dict[str, Any]], Any]) -> Shape:
    titled = [
        msgspec.structs.replace(field.shape, schema={"title": field.key, **field.shape.schema})
        for field in fields
    ]
    shape = tuple_shape(titled, sum(field.required for field in fields))
    names = [field.name for field in fields]
    read_items = shape.read
    if text := _class_words(cls).description:
        shape.schema["description"] = text

    def read(value: Any) -> Any:
        return make(dict(zip(names, read_items(value), strict=False)))

    return msgspec.structs.replace(shape, read=read)


def _maker(cls: Callable[..., Any]) -> Callable[[dict[str, Any]], Any]:
    def make(values: dict[str, Any]) -> Any:
        values.pop("", None)  # a Struct's tag, which is no argument of its class
        try:
            return cls(**values)
        except (TypeError, ValueError) as error:
            raise ConversionError(str(error)) from None

    return make


def _hints(reader: TypeReader, cls: type, arguments: tuple[Any, ...]) -> dict[str, Any]:
    hints = reader.names.fields(cls)
    if not arguments:
        return hints
    parameters: Iterable[Any] = getattr(cls, "__parameters__", ())
    given = dict(zip(parameters, arguments, strict=False))
    return {name: _filled(hint, given) for name, hint in hints.items()}


def _filled(hint: Any, given: dict[Any, Any]) -> Any:
    if isinstance(hint, TypeVar):
        return given.get(hint, hint)
    if parameters := getattr(hint, "__parameters__", ()):
        return hint[tuple(given.get(parameter, parameter) for parameter in parameters)]
    return hint


def _default(value: Any, factory: Any, absent: Any) -> Any:
    if value is not absent:
        return value
    # Other factories may have effects, or a new answer each time (uuid4, now).
    return factory() if factory in _PURE else MISSING


def _shown(shape: Shape, default: Any) -> Shape:
    value = MISSING if default is MISSING else json_default(shape, default)
    if value is MISSING:
        return shape
    return msgspec.structs.replace(shape, schema={**shape.schema, "default": value})


def _class_words(cls: type) -> Any:
    text = cls.__dict__.get("__doc__")
    # Dataclasses and NamedTuples without a docstring get their signature as one.
    return parse(None if text and text.startswith(f"{cls.__name__}(") else text)
