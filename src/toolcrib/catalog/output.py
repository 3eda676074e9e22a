"""The output schema of a function, from its return annotation."""

from __future__ import annotations

import collections.abc as abc
import inspect
import types
import typing
from typing import Annotated, Any

from toolcrib.catalog.names import Names
from toolcrib.catalog.types import TypeReader
from toolcrib.core.result import ToolResult
from toolcrib.errors import SpecError

_NOTHING: frozenset[Any] = frozenset(
    {inspect.Signature.empty, None, type(None), Any, object, typing.NoReturn, typing.Never}
)
_AWAITABLE = (abc.Awaitable, abc.Coroutine)


def output_schema(annotation: Any, names: Names) -> dict[str, Any] | None:
    """The schema of what a function returns; None when its annotation promises nothing in JSON."""
    try:
        if isinstance(annotation, str):
            annotation = names.resolve(annotation)
        if typing.get_origin(annotation) in _AWAITABLE:
            annotation = typing.get_args(annotation)[-1]
        if _says_nothing(annotation):
            return None
        reader = TypeReader(names, closed=False)
        schema = dict(reader.field(annotation).schema)
    except SpecError:
        # What comes out need not have a JSON form that is known beforehand; arguments must.
        return None
    if not schema:
        return None
    if reader.defs:
        schema["$defs"] = reader.defs
    return schema


def _says_nothing(annotation: Any) -> bool:
    if isinstance(annotation, type):
        return annotation in _NOTHING or issubclass(annotation, ToolResult)
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return _says_nothing(typing.get_args(annotation)[0])
    if origin is typing.Union or origin is types.UnionType:
        return any(part is ToolResult for part in typing.get_args(annotation))
    return origin is None and annotation.__hash__ is not None and annotation in _NOTHING
