"""`@tool`: marks a function as a tool and leaves it the function it was."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import CodeType
from typing import Any, TypeVar, cast, overload

import msgspec

from toolcrib.catalog.callables import innermost
from toolcrib.catalog.signature import Signature, describe
from toolcrib.core.policy import NoPolicy, ToolPolicy
from toolcrib.core.spec import Effect, RetryPolicy, ToolScope, ToolSpec
from toolcrib.errors import SpecError

F = TypeVar("F", bound=Callable[..., Any])
MARK = "__toolcrib__"


class Marked(msgspec.Struct, frozen=True, kw_only=True):
    """What `@tool(…)` was told."""

    fields: Mapping[str, Any]
    policy: ToolPolicy | None
    inline: bool


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """A function read as a tool."""

    spec: ToolSpec
    function: Callable[..., Any]
    signature: Signature
    inline: bool = False
    policy: ToolPolicy | None = None
    owner: str = ""


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    title: str | None = None,
    policy: type[ToolPolicy] | ToolPolicy | None = None,
    effects: Iterable[Effect] | None = None,
    idempotent: bool = False,
    timeout: float | None = None,
    retry: RetryPolicy | Mapping[str, Any] | None = None,
    scope: ToolScope | str = ToolScope.GLOBAL,
    version: str = "0",
    tags: Iterable[str] = (),
    category: str | None = None,
    permissions: Iterable[str] = (),
    requires_approval: bool = False,
    requires_secrets: Iterable[str] = (),
    requires_tools: Iterable[str] = (),
    conflicts_with: Iterable[str] = (),
    annotations: Mapping[str, Any] | None = None,
    input_schema: Mapping[str, Any] | None = None,
    output_schema: Mapping[str, Any] | None = None,
    inline: bool = False,
) -> Callable[[F], F]: ...
def tool(
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    title: str | None = None,
    policy: type[ToolPolicy] | ToolPolicy | None = None,
    effects: Iterable[Effect] | None = None,
    idempotent: bool = False,
    timeout: float | None = None,
    retry: RetryPolicy | Mapping[str, Any] | None = None,
    scope: ToolScope | str = ToolScope.GLOBAL,
    version: str = "0",
    tags: Iterable[str] = (),
    category: str | None = None,
    permissions: Iterable[str] = (),
    requires_approval: bool = False,
    requires_secrets: Iterable[str] = (),
    requires_tools: Iterable[str] = (),
    conflicts_with: Iterable[str] = (),
    annotations: Mapping[str, Any] | None = None,
    input_schema: Mapping[str, Any] | None = None,
    output_schema: Mapping[str, Any] | None = None,
    inline: bool = False,
) -> F | Callable[[F], F]:
    """Mark a function, or a class for a tool per session, as a tool.

    The function stays what it was, so it can be called, typed and tested as before. Its schema
    comes from its signature when it is registered. A synchronous function runs in a thread unless
    `inline=True` says that it is quick.
    """
    given: dict[str, Any] = {
        "name": name,
        "description": description,
        "title": title,
        "effects": None if effects is None else frozenset(_several("effects", effects)),
        "idempotent": idempotent,
        "timeout": timeout,
        "retry": _retry(retry),
        "scope": scope,
        "version": version,
        "tags": frozenset(_several("tags", tags)),
        "category": category,
        "permissions": frozenset(_several("permissions", permissions)),
        "requires_approval": requires_approval,
        "requires_secrets": frozenset(_several("requires_secrets", requires_secrets)),
        "requires_tools": frozenset(_several("requires_tools", requires_tools)),
        "conflicts_with": frozenset(_several("conflicts_with", conflicts_with)),
        "annotations": dict(annotations or {}),
        "input_schema": input_schema,
        "output_schema": output_schema,
        "policy": type(policy) if isinstance(policy, ToolPolicy) else (policy or NoPolicy),
    }
    built = policy if isinstance(policy, ToolPolicy) else None
    mark = Marked(fields=given, policy=built, inline=inline)

    def put(target: F) -> F:
        if not callable(target):
            raise SpecError(f"@tool is for functions and classes, not {type(target).__name__}")
        try:
            setattr(target, MARK, mark)
        except AttributeError:
            raise SpecError(
                f"@tool cannot mark {target!r}", cure="Wrap it in a function of your own"
            ) from None
        return target

    return put if function is None else put(function)


def _several(name: str, values: Iterable[str]) -> Iterable[str]:
    if isinstance(values, str):
        raise SpecError(f"@tool: {name} is a list, not one string", cure=f'Write ["{values}"]')
    return values


def _retry(value: RetryPolicy | Mapping[str, Any] | None) -> RetryPolicy | None:
    if value is None or isinstance(value, RetryPolicy):
        return value
    return RetryPolicy(**value)


def is_marked(thing: object) -> bool:
    """Whether `thing` was marked with `@tool`; a mark inherited by a subclass does not count."""
    if isinstance(thing, type):
        return MARK in vars(thing)
    return isinstance(getattr(thing, MARK, None), Marked)


def define(function: Callable[..., Any], **overrides: Any) -> Definition:
    """Read a function, marked or plain, as a tool. `overrides` replace fields of the spec."""
    mark = cast("Marked | None", getattr(function, MARK, None))
    fields: dict[str, Any] = dict(mark.fields) if mark is not None else {}
    fields.update(overrides)
    target = function
    if isinstance(function, type):
        target = cast("Callable[..., Any]", function.__call__)  # pyright: ignore[reportFunctionMemberAccess]
        fields.setdefault("name", None)
        fields["name"] = fields["name"] or function.__name__
        fields["factory"] = function
        signature = _instance_signature(function, fields)
    else:
        signature = describe(target, name=fields.get("name"), description=fields.get("description"))
    owner = owner_of(function)
    fields["name"] = fields.get("name") or signature.name
    if fields.get("description") is None:
        fields["description"] = signature.description
    if fields.get("input_schema") is None:
        fields["input_schema"] = signature.input_schema
    if fields.get("output_schema") is None:
        fields["output_schema"] = signature.output_schema
    fields.setdefault("source", owner)
    return Definition(
        spec=ToolSpec(**fields),
        function=function,
        signature=signature,
        inline=mark.inline if mark is not None else False,
        policy=mark.policy if mark is not None else None,
        owner=owner,
    )


def _instance_signature(cls: type, fields: Mapping[str, Any]) -> Signature:
    """The signature of a class's `__call__`, read without an instance."""
    bare = functools.partial(cls.__call__, None)  # pyright: ignore[reportFunctionMemberAccess, reportUnknownMemberType]
    return describe(
        bare, name=fields.get("name"), description=fields.get("description") or cls.__doc__ or ""
    )


def owner_of(function: Callable[..., Any]) -> str:
    """Where a function stands: `file:line`, the file as short as it can be shown."""
    inner = innermost(function)
    code: CodeType | None = getattr(inner, "__code__", None)
    if code is None:
        return f"{getattr(inner, '__module__', '')}.{getattr(inner, '__qualname__', inner)}"
    path = Path(code.co_filename)
    try:
        shown = path.relative_to(Path.cwd())
    except (ValueError, OSError):
        shown = path
    return f"{shown}:{code.co_firstlineno}"
