"""Alternatives: `int | None`, `Cat | Dog`.

Always written as `anyOf`, the one form that every model provider takes; a list of types, which
is shorter, is refused by some of them and cannot hold bounds per alternative.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolcrib.catalog.scalars import NULL
from toolcrib.catalog.shape import ANY, ConversionError, Read, Shape, described


def union_shape(members: Sequence[Shape]) -> Shape:
    """The shape of one of several shapes."""
    if any(not member.schema for member in members):
        return ANY
    schemas: list[dict[str, Any]] = []
    for member in members:
        if member.schema not in schemas:
            schemas.append(dict(member.schema))
    return Shape(
        {"anyOf": schemas} if len(schemas) > 1 else schemas[0],
        _reader(members),
        plain=all(member.plain for member in members),
        rank=max(member.rank for member in members),
        members=tuple(members),
        bounded=any(member.bounded for member in members),
    )


def optional_shape(shape: Shape) -> Shape:
    """The shape, or null."""
    return union_shape([*(shape.members or (shape,)), NULL])


def _reader(members: Sequence[Shape]) -> Read:
    reads = [member.read for member in sorted(members, key=lambda member: member.rank)]
    kinds = {member.schema.get("type") for member in members}
    # With both, a number keeps the class it arrived in: neither 1 -> 1.0 nor 1.0 -> 1.
    keep_numbers = {"integer", "number"} <= kinds
    accepts_null = NULL in members
    others = [read for read in reads if read is not NULL.read]

    def read(value: Any) -> Any:
        if value is None and accepts_null:
            return None
        if keep_numbers and value.__class__ in (int, float):
            return value
        failures: list[ConversionError] = []
        for attempt in others:
            try:
                return attempt(value)
            except ConversionError as error:
                failures.append(error)
        # The alternative that got furthest into the value is the one that was meant.
        deepest = max(failures, key=lambda error: len(error.path), default=None)
        if deepest is not None and (deepest.path or len(failures) == 1):
            raise deepest
        raise ConversionError(
            "; ".join(dict.fromkeys(error.message for error in failures))
            or f"expected null, not {described(value)}"
        )

    return read
