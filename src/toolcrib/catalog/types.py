"""From annotations to shapes: the JSON Schema of a type, and how its values are read."""

from __future__ import annotations

import collections
import collections.abc as abc
import dataclasses
import re
import sys
import types
import typing
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, ForwardRef, Literal, TypeVar, cast

import msgspec

from toolcrib.catalog.constraints import Notes, constrain, read_notes
from toolcrib.catalog.names import Names
from toolcrib.catalog.scalars import SCALARS, TEXT, enum_shape, literal_shape, path_shape
from toolcrib.catalog.shape import ANY, Shape
from toolcrib.errors import SpecError

_ARRAYS: dict[Any, Callable[[Any], Any]] = {
    list: list,
    set: set,
    frozenset: frozenset,
    collections.deque: collections.deque,
    abc.Sequence: list,
    abc.MutableSequence: list,
    abc.Collection: list,
    abc.Iterable: list,
    abc.Set: set,
    abc.MutableSet: set,
}
_MAPPINGS: dict[Any, Callable[[Any], Any]] = {
    dict: dict,
    abc.Mapping: dict,
    abc.MutableMapping: dict,
    collections.OrderedDict: collections.OrderedDict,
}
_CURE = (
    "Use JSON-like types: str, int, float, bool, list, dict, Literal, Enum, a dataclass, "
    "TypedDict, NamedTuple, msgspec.Struct or pydantic model"
)


class TypeReader:
    """Reads the annotations of one function; named types gather in `defs`."""

    def __init__(self, names: Names, *, closed: bool = True) -> None:
        self.names = names
        self.closed = closed
        """Objects take no other keys than their fields: for input yes, for output no, since a
        function may return a subclass."""
        self.defs: dict[str, dict[str, Any]] = {}
        self._known: dict[Any, Shape] = {}

    def shape(self, annotation: Any) -> Shape:
        """The shape of an annotation; a `SpecError` says why there is none."""
        if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
            return self._class(annotation)
        if annotation is None or annotation is Any:
            return SCALARS[annotation]
        if isinstance(annotation, str):
            return self.shape(self.names.resolve(annotation))
        if isinstance(annotation, ForwardRef):
            return self.shape(self.names.resolve(annotation.__forward_arg__))
        if isinstance(annotation, dataclasses.InitVar):
            return self.shape(cast("Any", annotation).type)
        if isinstance(annotation, typing.NewType):
            return self.shape(annotation.__supertype__)
        if type(annotation).__name__ == "TypeAliasType":
            return self._alias(annotation)
        if annotation is typing.LiteralString:
            return TEXT
        if isinstance(annotation, TypeVar):
            raise SpecError(
                f"the type variable {annotation.__name__} stands for no type in particular",
                cure="Name the type; a tool is called with JSON, not with types",
            )
        return self._generic(annotation, typing.get_origin(annotation))

    def annotated(self, annotation: Any) -> tuple[Shape, Notes]:
        """The shape of an annotation, and what `Annotated` says besides."""
        if isinstance(annotation, str):
            annotation = self.names.resolve(annotation)
        if typing.get_origin(annotation) is not Annotated:
            return self.shape(annotation), Notes()
        inner, *metadata = typing.get_args(annotation)
        notes = read_notes(metadata)
        return constrain(self.shape(inner), notes), notes

    def field(self, annotation: Any, description: str | None = None) -> Shape:
        """The shape of a field with its description and further keywords in the schema."""
        shape, notes = self.annotated(annotation)
        schema = dict(shape.schema)
        if text := notes.description or description:
            schema["description"] = text
        schema.update(notes.keywords)
        return msgspec.structs.replace(shape, schema=schema)

    def named(self, key: Any, name: str, build: Callable[[str], Shape]) -> Shape:
        """A shape that is written once, in `$defs`, so that it may contain itself.

        `build` is given the name under which it will stand there.
        """
        if (known := self._known.get(key)) is not None:
            return known
        name = self.free_name(name)
        ref = {"$ref": f"#/$defs/{name}"}
        finished: list[Shape] = []
        self._known[key] = Shape(ref, lambda value: finished[0].read(value))
        self.defs[name] = {}
        shape = build(name)
        finished.append(shape)
        self.defs[name] = shape.schema
        shape = msgspec.structs.replace(shape, schema=ref, kind="", members=(), bounded=False)
        self._known[key] = shape
        return shape

    def free_name(self, name: str) -> str:
        """A name for `$defs` that no other type has."""
        name = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "Type"
        number, free = 1, name
        while free in self.defs:
            number += 1
            free = f"{name}_{number}"
        return free

    def _alias(self, alias: Any) -> Shape:
        return self.named(alias, alias.__name__, lambda _: self.shape(alias.__value__))

    def _class(self, cls: type[Any]) -> Shape:
        if (scalar := SCALARS.get(cls)) is not None:
            return scalar
        # Most tools take and give nothing else: the rest is loaded for those that do.
        from toolcrib.catalog.arrays import array_shape, mapping_shape

        if Enum in cls.__mro__:
            return enum_shape(cls)
        if hasattr(cls, "__fspath__") and _is_path(cls):
            return path_shape(cls)
        if (shape := self._model(cls, cls)) is not None:
            return shape
        if cls is tuple:
            return array_shape(ANY, tuple)
        if cls in _ARRAYS:
            return array_shape(ANY, _ARRAYS[cls])
        if cls in _MAPPINGS:
            return mapping_shape(TEXT, ANY, _MAPPINGS[cls])
        raise _refusal(cls)

    def _model(self, annotation: Any, cls: type) -> Shape | None:
        from toolcrib.catalog.models import builder
        from toolcrib.catalog.pydantic_models import pydantic_shape

        pydantic = sys.modules.get("pydantic")
        # While pydantic is still being imported it has no BaseModel yet.
        base = getattr(pydantic, "BaseModel", None)
        if base is not None and issubclass(cls, base):
            return pydantic_shape(self, cls)
        build = builder(cls)
        if build is None:
            return None
        arguments = typing.get_args(annotation)
        words = [cls.__name__, *(getattr(a, "__name__", str(a)) for a in arguments)]
        return self.named(annotation, "_".join(words), lambda _: build(self, cls, arguments))

    def _generic(self, annotation: Any, origin: Any) -> Shape:
        from toolcrib.catalog.arrays import array_shape, mapping_shape, tuple_shape
        from toolcrib.catalog.unions import union_shape

        arguments = typing.get_args(annotation)
        if origin is Annotated:
            return self.field(annotation)
        if origin is Literal:
            return literal_shape(arguments)
        if origin in (typing.Union, types.UnionType):
            return union_shape([self.shape(member) for member in arguments])
        if origin in (typing.Required, typing.NotRequired, typing.Final):
            return self.shape(arguments[0])
        if annotation is typing.Tuple:  # noqa: UP006
            return array_shape(ANY, tuple)
        if origin is tuple:
            if len(arguments) == 2 and arguments[1] is Ellipsis:
                return array_shape(self.shape(arguments[0]), tuple)
            return tuple_shape([self.shape(item) for item in arguments])
        if origin in _ARRAYS:
            return array_shape(self.shape(arguments[0]) if arguments else ANY, _ARRAYS[origin])
        if origin in _MAPPINGS:
            key, value = (self.shape(a) for a in arguments) if arguments else (TEXT, ANY)
            return mapping_shape(key, value, _MAPPINGS[origin])
        if isinstance(origin, type) and (shape := self._model(annotation, origin)) is not None:
            return shape
        raise _refusal(annotation)


def _is_path(cls: type) -> bool:
    # Whoever annotates with a path has imported pathlib; nobody else should have to.
    return any(b.__name__ == "PurePath" and "pathlib" in b.__module__ for b in cls.__mro__)


def _refusal(annotation: Any) -> SpecError:
    name = annotation.__qualname__ if isinstance(annotation, type) else str(annotation)
    return SpecError(f"the type {name} has no JSON form", cure=_CURE)
