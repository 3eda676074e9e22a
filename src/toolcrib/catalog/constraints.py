"""What `Annotated` says beyond the type: a description, bounds, lengths, a pattern.

The objects of msgspec, annotated_types and pydantic are known by their attributes, so none of
these packages has to be installed. Metadata that says nothing of the kind is ignored.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from toolcrib.catalog.shape import ConversionError, Shape
from toolcrib.errors import SpecError

_COMPARE: dict[str, tuple[str, Callable[[Any, Any], bool], str]] = {
    "ge": ("minimum", operator.ge, "at least"),
    "gt": ("exclusiveMinimum", operator.gt, "more than"),
    "le": ("maximum", operator.le, "at most"),
    "lt": ("exclusiveMaximum", operator.lt, "less than"),
}
_LENGTH = {
    "text": {"min_length": "minLength", "max_length": "maxLength"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
}
_BOUNDS = (*_COMPARE, "multiple_of", "min_length", "max_length", "pattern")


class Notes(msgspec.Struct):
    """What the metadata of one annotation says."""

    description: str | None = None
    keywords: dict[str, Any] = {}
    """Further schema keywords: title, examples, and what the author adds."""
    bounds: dict[str, Any] = {}
    predicates: list[Callable[[Any], Any]] = []


def is_field_info(value: object) -> bool:
    """Whether `value` is what pydantic's `Field(…)` returns."""
    kind = type(value)
    return kind.__name__ == "FieldInfo" and kind.__module__.startswith("pydantic")


def read_notes(metadata: Iterable[Any], notes: Notes | None = None) -> Notes:
    """Gather what the metadata says; of two descriptions the later one counts."""
    notes = notes or Notes()
    for item in metadata:
        if isinstance(item, str):
            notes.description = item
            continue
        if isinstance(item, type):
            continue
        for name in ("description", "documentation"):
            if isinstance(text := getattr(item, name, None), str):
                notes.description = text
        if isinstance(title := getattr(item, "title", None), str):
            notes.keywords["title"] = title
        if isinstance(examples := getattr(item, "examples", None), list):
            notes.keywords["examples"] = examples
        for name in ("extra_json_schema", "json_schema_extra"):
            if isinstance(extra := getattr(item, name, None), dict):
                notes.keywords.update(extra)  # pyright: ignore[reportUnknownArgumentType]
        if is_field_info(item):
            read_notes(item.metadata, notes)
            continue
        for name in _BOUNDS:
            if (bound := getattr(item, name, None)) is not None:
                notes.bounds[name] = bound
        if getattr(item, "tz", None) is False:
            raise SpecError(
                "Meta(tz=False) asks for a date without UTC offset, which JSON arguments never are",
                cure="Drop tz=False and call .replace(tzinfo=None) in the function",
            )
        if type(item).__name__ == "Predicate" and callable(test := getattr(item, "func", None)):
            notes.predicates.append(test)
    return notes


def constrain(shape: Shape, notes: Notes) -> Shape:
    """The shape with the bounds added: in the schema where JSON Schema can say it, else checked."""
    for name, bound in notes.bounds.items():
        fitted = _bound(shape, name, bound)
        if fitted is None:
            raise SpecError(
                f"the bound {name}={bound!r} says nothing about this type",
                cure="Put it on the type it is about, such as list[Annotated[int, …]]",
            )
        shape = fitted
    for test in notes.predicates:
        name = getattr(test, "__name__", "the predicate")
        shape = _checked(shape, test, f"does not satisfy {name}")
    return shape


def _bound(shape: Shape, name: str, bound: Any) -> Shape | None:
    if shape.members:
        return _bound_union(shape, name, bound)
    if shape.kind == "number" and (name in _COMPARE or name == "multiple_of"):
        keyword = _COMPARE[name][0] if name in _COMPARE else "multipleOf"
        return _with(shape, keyword, bound if isinstance(bound, int | float) else float(bound))
    if shape.kind == "ordered" and name in _COMPARE:
        _, compare, words = _COMPARE[name]
        return _checked(shape, lambda value: compare(value, bound), f"must be {words} {bound}")
    if shape.kind == "ordered" and name == "multiple_of":
        return _checked(shape, lambda value: not value % bound, f"must be a multiple of {bound}")
    if shape.kind == "bytes" and name == "min_length":
        return _checked(
            shape, lambda value: len(value) >= bound, f"must have {bound} bytes or more"
        )
    if shape.kind == "bytes" and name == "max_length":
        return _checked(
            shape, lambda value: len(value) <= bound, f"must have {bound} bytes or less"
        )
    if shape.kind == "text" and name == "pattern":
        return _with(shape, "pattern", getattr(bound, "pattern", bound))
    keyword = _LENGTH.get(shape.kind, {}).get(name)
    return _with(shape, keyword, bound) if keyword else None


def _bound_union(shape: Shape, name: str, bound: Any) -> Shape | None:
    from toolcrib.catalog.unions import union_shape

    fitted = [_bound(member, name, bound) for member in shape.members]
    if not any(fitted):
        return None
    return union_shape([new or old for new, old in zip(fitted, shape.members, strict=True)])


def _with(shape: Shape, keyword: str, value: Any) -> Shape:
    return msgspec.structs.replace(shape, schema={**shape.schema, keyword: value}, bounded=True)


def _checked(shape: Shape, test: Callable[[Any], Any], message: str) -> Shape:
    inner = shape.read

    def read(value: Any) -> Any:
        result = inner(value)
        try:
            passed = test(result)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise ConversionError(f"{message}, which cannot be checked: {error}") from None
        if not passed:
            raise ConversionError(message)
        return result

    return msgspec.structs.replace(shape, read=read, plain=False)
