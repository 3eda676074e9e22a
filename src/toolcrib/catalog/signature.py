"""The JSON Schema of a Python function, and how JSON arguments become its arguments."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Annotated, Any

import msgspec

from toolcrib.catalog.callables import (
    bound_names,
    docstring_of,
    flavour_of,
    innermost,
    name_of,
    signature_of,
)
from toolcrib.catalog.constraints import constrain, is_field_info, read_notes
from toolcrib.catalog.conversion import Convert, compile_convert
from toolcrib.catalog.defaults import MISSING, json_default
from toolcrib.catalog.docstring import parse
from toolcrib.catalog.names import Names
from toolcrib.catalog.output import output_schema
from toolcrib.catalog.shape import ANY, ConversionError, Read, Shape
from toolcrib.catalog.types import TypeReader
from toolcrib.core.context import ToolContext
from toolcrib.errors import SpecError

__all__ = ["ConversionError", "Signature", "describe"]


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """What a function takes and gives, as data."""

    name: str
    description: str
    """The docstring without its sections."""
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    defaults: Mapping[str, Any] | None
    """The JSON default of each parameter that has one; None when no parameter has."""
    context_parameter: str | None
    """The parameter that receives the `ToolContext`; it is not in the schema."""
    convert: Convert | None
    """Validated JSON arguments, defaults filled in, to arguments of the annotated types. None
    when they can be passed as they are. Raises `ConversionError`."""
    is_async: bool
    """`async def`, generators included."""
    is_generator: bool
    """It yields; with `is_async` it is an asynchronous generator."""
    accepts_extra: bool
    """It has `**kwargs`, so unknown arguments are taken."""
    positional: tuple[str, ...]
    """The parameters that must be passed by position, in order."""


def describe(
    function: Callable[..., Any], *, name: str | None = None, description: str | None = None
) -> Signature:
    """Read a function's signature, annotations and docstring.

    Takes functions, methods, partials and objects with `__call__`. Arguments bound by a partial
    are not shown. Raises `SpecError`, with the function's file and line, for what has no JSON form.
    """
    inner = innermost(function)
    try:
        return _describe(function, inner, name, description)
    except SpecError as error:
        if error.file is not None:
            raise
        code: types.CodeType | None = getattr(inner, "__code__", None)
        raise SpecError(
            f"function {name_of(function)}: {error.message}",
            file=code.co_filename if code else None,
            line=code.co_firstlineno if code else None,
            cure=error.cure,
        ) from None


def _describe(
    function: Callable[..., Any], inner: Any, name: str | None, description: str | None
) -> Signature:
    words = parse(docstring_of(function, inner))
    signature = signature_of(function)
    bound = bound_names(function)
    reader = TypeReader(Names(inner))
    fold = _Fold(reader, words.parameters)
    for parameter in signature.parameters.values():
        if parameter.name not in bound:
            try:
                fold.add(parameter)
            except SpecError as error:
                raise SpecError(
                    f"parameter {parameter.name!r}: {error.message}", cure=error.cure
                ) from None
    is_async, is_generator = flavour_of(function)
    return Signature(
        name=name or name_of(function),
        description=words.description if description is None else description,
        input_schema=fold.schema(),
        output_schema=None
        if is_generator
        else output_schema(signature.return_annotation, reader.names),
        defaults=fold.defaults or None,
        context_parameter=fold.context,
        convert=compile_convert(fold.reads, fold.fill, frozenset(fold.properties), fold.extra),
        is_async=is_async,
        is_generator=is_generator,
        accepts_extra=fold.extra is not None,
        positional=tuple(fold.positional),
    )


class _Fold:
    """Gathers the parameters of one function."""

    def __init__(self, reader: TypeReader, words: Mapping[str, str]) -> None:
        self.reader = reader
        self.words = words
        self.properties: dict[str, dict[str, Any]] = {}
        self.required: list[str] = []
        self.defaults: dict[str, Any] = {}
        self.reads: list[tuple[str, Read]] = []
        self.fill: dict[str, Any] = {}
        self.positional: list[str] = []
        self.context: str | None = None
        self.extra: Shape | None = None

    def add(self, parameter: Parameter) -> None:
        name, annotation = parameter.name, parameter.annotation
        if parameter.kind is Parameter.VAR_POSITIONAL:
            raise SpecError(
                f"*{name} cannot be called with named arguments",
                cure=f"Replace it by a list: {name}: list[…]",
            )
        if annotation.__class__ is str:
            annotation = self.reader.names.resolve(annotation)
        if parameter.kind is Parameter.VAR_KEYWORD:
            self.extra = ANY if annotation is Parameter.empty else self.reader.shape(annotation)
            return
        if parameter.kind is Parameter.POSITIONAL_ONLY:
            self.positional.append(name)
        if _is_context(annotation):
            if self.context is not None:
                raise SpecError(
                    f"the context is taken by {self.context!r} already", cure="Remove one of them"
                )
            self.context = name
            return
        self._property(parameter, annotation)

    def _property(self, parameter: Parameter, annotation: Any) -> None:
        name, default = parameter.name, parameter.default
        if annotation is Parameter.empty:
            shape, notes = ANY, None
        else:
            shape, notes = self.reader.annotated(annotation)
        if is_field_info(default):
            notes = read_notes([default], notes)
            shape = constrain(shape, read_notes([default]))
            default = _field_default(default)
            self.fill[name] = default
        required = default is Parameter.empty
        if default is None and not _reads_null(shape):
            from toolcrib.catalog.unions import optional_shape

            shape = optional_shape(shape)  # `x: int = None` means what it says at run time
        schema = dict(shape.schema)
        text = self.words.get(name)
        if notes is not None:
            text = notes.description or text
            schema.update(notes.keywords)
        if text:
            schema["description"] = text
        self.properties[name] = schema
        read = None if shape.plain else shape.read
        if required:
            self.required.append(name)
            self.fill.pop(name, None)
        elif (value := json_default(shape, default)) is not MISSING:
            schema["default"] = self.defaults[name] = value
            self.fill.pop(name, None)
            if read is None and value.__class__ in (list, dict):
                read = _copy  # else every call would share, and could change, one default
        elif parameter.kind is Parameter.POSITIONAL_ONLY:
            self.fill[name] = default  # a later one may be given, and places cannot be skipped
        if read is not None:
            self.reads.append((name, read))

    def schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object", "properties": self.properties}
        if self.required:
            schema["required"] = self.required
        if self.extra is None:
            schema["additionalProperties"] = False
        else:
            schema["additionalProperties"] = dict(self.extra.schema) or True
        if self.reader.defs:
            schema["$defs"] = self.reader.defs
        return schema


def _copy(value: Any) -> Any:
    return msgspec.to_builtins(value)


def _reads_null(shape: Shape) -> bool:
    try:
        return shape.read(None) is None
    except ConversionError:
        return False


def _field_default(field: Any) -> Any:
    # pydantic has its own mark for "no default"; its only sure sign is the class name.
    if type(field.default).__name__ != "PydanticUndefinedType":
        return field.default
    if field.default_factory is not None:
        raise SpecError(
            "Field(default_factory=…) has no meaning in a function's signature",
            cure="Use None as default and make the value in the function",
        )
    return Parameter.empty


def _is_context(annotation: Any) -> bool:
    if isinstance(annotation, type):
        return issubclass(annotation, ToolContext)
    origin = typing.get_origin(annotation)
    if origin is Annotated or origin is typing.Union or origin is types.UnionType:
        return any(_is_context(part) for part in typing.get_args(annotation))
    return False
