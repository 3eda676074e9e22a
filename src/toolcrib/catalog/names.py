"""What the names in a function's quoted annotations stand for."""

from __future__ import annotations

import builtins
import typing
from types import FunctionType
from typing import Any

from toolcrib.core.context import ToolContext
from toolcrib.core.result import ToolResult
from toolcrib.errors import SpecError

# Authors import these two for type checkers only; the names still mean what they say.
_OWN: dict[str, Any] = {"ToolContext": ToolContext, "ToolResult": ToolResult}


class Names:
    """Looks names up where the function was written: closure, module, builtins."""

    __slots__ = ("_locals", "_module")

    def __init__(self, function: Any) -> None:
        self._module: dict[str, Any] = getattr(function, "__globals__", {})
        self._locals: dict[str, Any] = {}
        if isinstance(function, FunctionType) and function.__closure__:
            for name, cell in zip(function.__code__.co_freevars, function.__closure__, strict=True):
                try:
                    self._locals[name] = cell.cell_contents
                except ValueError:
                    continue  # the name is assigned later, so the annotation cannot mean it yet

    def resolve(self, text: str) -> Any:
        """The annotation that `text` spells; a `SpecError` when a name in it is unknown."""
        meaning = self._evaluate(text)
        # Quotes inside a module whose annotations are all postponed are quotes twice.
        return self.resolve(meaning) if isinstance(meaning, str) and meaning != text else meaning

    def _evaluate(self, text: str) -> Any:
        for scope in (self._locals, self._module, vars(builtins)):
            if text in scope:
                return scope[text]
        try:
            # The text is the author's own source code, as Python itself would evaluate it.
            return eval(text, self._module, {**_unbound(self._module), **self._locals})  # noqa: S307
        except NameError as error:
            raise _unknown(text, error) from None
        except Exception as error:
            raise SpecError(
                f"the annotation {text!r} cannot be evaluated: {error}",
                cure="Write a type there",
            ) from None

    def fields(self, cls: type) -> dict[str, Any]:
        """The annotated fields of a class, `Annotated` kept."""
        known = {cls.__name__: cls, **self._locals}
        try:
            return typing.get_type_hints(cls, localns=known, include_extras=True)
        except NameError as error:
            raise _unknown(f"{cls.__name__}.{_field_of(cls, error)}", error) from None
        except TypeError as error:
            raise SpecError(
                f"an annotation of {cls.__name__} cannot be evaluated: {error}",
                cure="Write types there",
            ) from None


def _unbound(module: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in _OWN.items() if name not in module}


def _field_of(cls: type, error: NameError) -> str:
    for base in cls.__mro__:
        for name, annotation in vars(base).get("__annotations__", {}).items():
            if error.name and error.name in str(annotation):
                return name
    return "?"


def _unknown(annotation: str, error: NameError) -> SpecError:
    name = error.name or str(error)
    return SpecError(
        f"the annotation {annotation!r} uses {name!r}, which is not known where it is written",
        cure=f"Define or import {name} at module level, outside of functions and TYPE_CHECKING",
    )
