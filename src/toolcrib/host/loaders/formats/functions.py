"""The functions of a Python source: of a module all public ones, of a class those that need no
instance."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

from toolcrib.catalog.decorator import define
from toolcrib.errors import SpecError
from toolcrib.host.config.node import Node, Origin, node_of
from toolcrib.host.loaders.formats.shape import Foreign, text
from toolcrib.host.modules import load_module


class Function(NamedTuple):
    """A function by its place, and what it says of itself."""

    module: str
    name: str
    description: str
    schema: Node


def functions_of(node: Node, origin: Origin) -> Iterator[Function]:
    """The functions that a python source means; imports the module."""
    owner, module = text(node.get("class"), "class", ""), text(node.get("module"), "module", "")
    if node.get("kwargs") is not None:
        cure = "Write a module with functions around the class"
        raise Foreign("an instance made with kwargs has no counterpart here", cure)
    if owner and module and "." not in owner:
        owner = f"{module}.{owner}"
    if owner:
        module, _, owner = owner.rpartition(".")
    if not module:
        raise Foreign("class or module is missing", "Name one, with its package")
    loaded = load_module(module, str(origin.base))
    found = _of_class(loaded, module, owner) if owner else _of_module(loaded)
    for name, function in found:
        definition = define(function)
        schema = node_of(definition.spec.input_schema, origin)
        yield Function(module, name, definition.spec.description, schema)


def _of_module(module: ModuleType) -> Iterator[tuple[str, Any]]:
    for name, thing in vars(module).items():
        own = inspect.isfunction(thing) and thing.__module__ == module.__name__
        if own and not name.startswith("_"):
            yield name, thing


def _of_class(module: ModuleType, path: str, name: str) -> list[tuple[str, Any]]:
    owner = getattr(module, name, None)
    if not isinstance(owner, type):
        raise SpecError(f"{path} has no class {name}")
    public = {n: thing for n, thing in vars(owner).items() if not n.startswith("_")}
    bound = [n for n, thing in public.items() if inspect.isfunction(thing)]
    if bound:
        cure = "Write a module with functions around the class"
        raise Foreign(f"these methods of {name} need an instance: {', '.join(bound)}", cure)
    free = (staticmethod, classmethod)
    return [(f"{name}.{n}", getattr(owner, n)) for n, t in public.items() if isinstance(t, free)]
