"""Arguments as they arrive in JSON to arguments as the function wants them, compiled once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolcrib.catalog.scalars import read_float, read_int
from toolcrib.catalog.shape import ConversionError, Read, Shape

Convert = Callable[[dict[str, Any]], dict[str, Any]]
"""Leaves the given arguments as they are; raises `ConversionError`."""


def compile_convert(
    reads: Sequence[tuple[str, Read]],
    fill: Mapping[str, Any],
    known: frozenset[str],
    extra: Shape | None,
) -> Convert | None:
    """The conversion of a function's arguments; None when there is nothing to convert.

    It counts on arguments that fit the schema: what the schema rules out is not looked for again.
    `fill` has Python values for parameters whose default JSON cannot say; `extra` is the shape
    of arguments beyond the `known` ones.
    """
    if extra is not None and extra.plain:
        extra = None
    if not reads and not fill and extra is None:
        return None

    def convert(arguments: dict[str, Any]) -> dict[str, Any]:
        result = {**fill, **arguments}
        failures: list[ConversionError] = []
        for name, read in reads:
            if name in arguments:
                try:
                    result[name] = read(arguments[name])
                except ConversionError as error:
                    failures.append(error.under(name))
                except RecursionError:
                    failures.append(ConversionError("is nested too deep", name))
        if extra is not None:
            for name in arguments.keys() - known:
                try:
                    result[name] = extra.read(arguments[name])
                except ConversionError as error:
                    failures.append(error.under(name))
        if failures:
            first, *others = failures
            raise ConversionError(first.message, first.path, tuple(others))
        return result

    if fill or extra is not None:
        return convert
    # Most functions take only numbers, text and booleans, and most numbers arrive in the class
    # that is wanted. One look at the classes then saves the copy.
    wanted = {read for _, read in reads}
    if wanted == {read_int}:
        return _unless(convert, float)
    if wanted == {read_float}:
        return _unless(convert, int)
    if wanted == {read_int, read_float}:
        return _unless_other(convert, [(n, int if r is read_int else float) for n, r in reads])
    return convert


def _unless(convert: Convert, odd: type) -> Convert:
    def convert_numbers(arguments: dict[str, Any]) -> dict[str, Any]:
        for value in arguments.values():
            if value.__class__ is odd:
                return convert(arguments)
        return arguments

    return convert_numbers


def _unless_other(convert: Convert, kinds: Sequence[tuple[str, type]]) -> Convert:
    def convert_numbers(arguments: dict[str, Any]) -> dict[str, Any]:
        for name, kind in kinds:
            if name in arguments and arguments[name].__class__ is not kind:
                return convert(arguments)
        return arguments

    return convert_numbers
