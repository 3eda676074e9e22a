"""What kind of callable a tool's function is: plain, method, partial, decorated, an object."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, cast

from toolcrib.errors import SpecError


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature, without the parameters that are bound already."""
    if isinstance(function, type):
        _refuse(f"{function.__name__} is a class", "Give a function, or an object with __call__")
    try:
        return inspect.signature(function)
    except NameError as error:
        _refuse(f"an annotation uses {error.name!r}, which is not defined", "Define or import it")
    except (TypeError, ValueError) as error:
        _refuse(f"it has no signature ({error})", "Wrap it in a function with annotations")


def _refuse(message: str, cure: str) -> NoReturn:
    raise SpecError(message, cure=cure)


def innermost(function: Any) -> Any:
    """The function whose annotations are read: under partials, methods and decorators."""
    if type(function) is types.FunctionType and not function.__dict__:
        return function
    seen: set[int] = set()
    while id(function) not in seen:
        seen.add(id(function))
        if isinstance(function, functools.partial):
            function = cast("functools.partial[Any]", function).func
        elif isinstance(function, types.MethodType):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = cast("Any", function).__wrapped__
        elif isinstance(function, types.FunctionType | types.BuiltinFunctionType | type):
            return function
        else:
            function = type(function).__call__
    return function


def name_of(function: Any) -> str:
    """The name the function was given; an object has the name of its class."""
    function = _under_partials(function)
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        name = type(function).__name__
    return "lambda" if name == "<lambda>" else name


def docstring_of(function: Any, inner: Any) -> str | None:
    """The docstring of the function, or of the class when an object is called."""
    if isinstance(function, functools.partial):
        return inner.__doc__
    if isinstance(function, types.FunctionType | types.MethodType):
        return function.__doc__ or inner.__doc__
    return getattr(inner, "__doc__", None) or type(function).__doc__


def flavour_of(function: Any) -> tuple[bool, bool]:
    """Whether a call gives an awaitable, and whether it gives a generator."""
    function = _under_partials(function)
    if type(function) is types.FunctionType and not function.__dict__:
        flags = function.__code__.co_flags
        is_generator = flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR)
        is_async = flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR)
        return bool(is_async), bool(is_generator)
    if not isinstance(function, types.FunctionType | types.MethodType):
        function = type(function).__call__
    if inspect.isasyncgenfunction(function):
        return True, True
    return inspect.iscoroutinefunction(function), inspect.isgeneratorfunction(function)


def bound_names(function: Any) -> Mapping[str, Any]:
    """The arguments a partial brings by name. They may be secrets: they are not shown."""
    return function.keywords if isinstance(function, functools.partial) else {}


def _under_partials(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = cast("functools.partial[Any]", function).func
    return function
