"""What can be said about a function by reading its file, without running any of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from toolcrib.errors import SpecError

_DYNAMIC = frozenset({"__getattr__", "exec", "eval", "globals", "locals", "setattr", "vars"})
"""Where one of these is named, a module may have more than its text shows."""
_SHOWN = 10

Function = ast.FunctionDef | ast.AsyncFunctionDef


def check_source(file: Path, function: str, properties: Sequence[str]) -> None:
    """Raise `SpecError` when `file` is no Python, has no such function, or the function does not
    take the arguments that the schema names. What cannot be told for certain passes."""
    try:
        tree = ast.parse(file.read_bytes(), file.name)
    except SyntaxError as error:
        raise SpecError(f"{file.name}:{error.lineno or 1}: {error.msg}", key="module") from None
    except (OSError, ValueError) as error:
        raise SpecError(f"{file.name} cannot be read as Python: {error}", key="module") from None
    if _is_dynamic(tree):
        return
    names = dict(_names(tree.body))
    first, _, rest = function.partition(".")
    if first not in names:
        raise SpecError(
            f"{file.name} has no function {function!r}",
            key="function",
            cure=offer([n for n, node in names.items() if isinstance(node, Function)]),
        )
    node = names[first]
    if not rest and isinstance(node, Function) and not node.decorator_list:
        _check_arguments(node, file, properties)


def offer(functions: Sequence[str]) -> str:
    """What to say about the functions that there are."""
    public = [name for name in functions if not name.startswith("_")]
    if not public:
        return "It has none"
    more = ", …" if len(public) > _SHOWN else ""
    return f"It has: {', '.join(sorted(public)[:_SHOWN])}{more}"


def _is_dynamic(tree: ast.Module) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in _DYNAMIC:
            return True
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            return True
        if isinstance(node, Function) and node.name == "__getattr__":
            return True
    return False


def _names(body: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.AST]]:
    """What a module's top level gives a name to, under conditions too; the last one counts."""
    for node in body:
        if isinstance(node, Function | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name.partition(".")[0], node
        else:
            for inner in ast.walk(node):
                if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                    yield inner.id, node
                elif isinstance(inner, Function | ast.ClassDef):
                    yield inner.name, node
                elif isinstance(inner, ast.Import | ast.ImportFrom):
                    yield from _names([inner])


def _check_arguments(node: Function, file: Path, properties: Sequence[str]) -> None:
    taken = node.args
    if taken.kwarg is not None:
        return
    every = [*taken.posonlyargs, *taken.args, *taken.kwonlyargs]
    if len(every) == 2 and every[0].arg not in properties and _is_context(every[1]):
        return  # it takes all arguments as one
    names = {argument.arg for argument in every}
    for name in properties:
        if name not in names:
            raise SpecError(
                f"{file.name}:{node.lineno}: {takes_no(node.name, name)}", key="function"
            )


def takes_no(function: str, argument: str) -> str:
    """That a function and the schema that describes it do not agree."""
    return f"the function {function} takes no argument {argument!r}; input_schema has it"


def _is_context(argument: ast.arg) -> bool:
    if argument.arg in ("context", "ctx"):
        return True
    return argument.annotation is not None and "ToolContext" in ast.unparse(argument.annotation)
