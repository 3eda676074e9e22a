"""Arguments: checked against the schema, defaults filled in, converted to the function's types."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, cast

import msgspec

from toolcrib.core.jsontext import check_value
from toolcrib.core.result import ToolResult
from toolcrib.core.schema import Problem
from toolcrib.errors import JsonError
from toolcrib.pipeline.plan import Plan
from toolcrib.pipeline.shaping import encode

if TYPE_CHECKING:
    from toolcrib.pipeline.flight import Flight


_TOLD = 5
"""How many problems the text of a failure names; its details have them all."""
_copy: Any = getattr(dict, "copy")  # noqa: B009 - untyped on purpose: it takes what a caller gave


class Invalid(Exception):
    """The arguments do not fit; lists every problem."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems)
        self.problems = problems

    def result(self, flight: Flight) -> ToolResult:
        """The ending of a call with such arguments."""
        from toolcrib.pipeline.endings import failed

        # Models often read nothing but this text: what is missing in it costs them a call each.
        text = "; ".join(f"{p.path} {p.message}".lstrip() for p in self.problems[:_TOLD])
        if len(self.problems) > _TOLD:
            text += f" (and {len(self.problems) - _TOLD} more)"
        details = {"problems": msgspec.to_builtins(self.problems)}
        return failed(flight, "invalid_arguments", f"the arguments do not fit: {text}", details)


def prepare(plan: Plan, flight: Flight, arguments: Mapping[str, Any] | None, limit: int) -> None:
    """Check `arguments` and put their normal form on the context; raises `Invalid`."""
    args: dict[str, Any]
    args = _copy(arguments) if type(arguments) is dict else _copied(flight, arguments)
    flight.arguments = flight.typed = args
    if not plan.flat and not _FLAT.issuperset(map(type, args.values())):
        # What is inside is the caller's still, who could change it after it was approved.
        try:
            flight.arguments = flight.typed = args = apart(args)
        except RecursionError as error:
            flight.take_unchecked(args)
            raise Invalid([_unfit(args, error)]) from None
    if plan.defaults is not None:
        for name, value in plan.defaults.items():
            if name not in args:
                args[name] = value if value.__class__ in _FLAT else deepcopy(value)
    is_valid, convert = plan.is_valid, plan.convert
    try:
        fits = is_valid(args)
        flight.encoded = encoded = encode(args)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        flight.take_unchecked(args)
        raise Invalid([_unfit(args, error)]) from None
    if not fits or len(encoded) > limit or (plan.floats and encoded.find(b"null") >= 0):
        _look_closer(plan, args, flight, fits, limit)
    if convert is not None:
        try:
            flight.typed = convert(args)
        except Exception as error:  # a class of the author's may raise anything
            path = str(getattr(error, "path", ""))
            message = str(getattr(error, "message", error))
            raise Invalid([Problem(path=path, message=message, rule="type")]) from None


def _look_closer(plan: Plan, args: dict[str, Any], flight: Flight, fits: bool, limit: int) -> None:
    if not fits:
        flight.unchecked = True
        raise Invalid(list(plan.validator.problems(args)) or [_problem("does not fit the schema")])
    size = len(flight.encoded)
    if size > limit:
        flight.encoded = b""
        text = f"are too large: {size} bytes, at most {limit}"
        raise Invalid([Problem(path="", message=text, rule="size")])
    # There is a null in the text: a real one, or a NaN that the encoder wrote so.
    try:
        check_value(args)
    except JsonError as error:
        raise Invalid([Problem(path="", message=str(error), rule="json")]) from None


_FLAT = frozenset({str, int, float, bool, type(None)})


def apart(value: Any) -> Any:
    """Lists and objects of our own: who holds the caller's could change them after the check."""
    members: Any = value
    if isinstance(value, dict):
        return {k: v if v.__class__ in _FLAT else apart(v) for k, v in members.items()}
    if isinstance(value, list | tuple):
        return [v if v.__class__ in _FLAT else apart(v) for v in members]
    return value


def _problem(message: str) -> Problem:
    return Problem(path="", message=message, rule="schema")


def _copied(flight: Flight, arguments: Any) -> dict[str, Any]:
    if arguments is None:
        return {}
    flight.arguments = {}
    if isinstance(arguments, Mapping):
        try:
            return dict(cast("Mapping[str, Any]", arguments))
        except Exception as error:
            raise Invalid([_problem(f"cannot be read: {type(error).__name__}")]) from None
    raise Invalid([_problem(f"must be an object, not {type(arguments).__name__}")])


def _unfit(args: dict[str, Any], error: BaseException) -> Problem:
    try:
        check_value(args)
    except JsonError as problem:
        return Problem(path="", message=str(problem), rule="json")
    return Problem(path="", message=f"are not JSON values: {error}", rule="json")
