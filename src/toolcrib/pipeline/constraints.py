"""What a profile can hold an argument to. The kinds are closed, so profiles can be verified."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from toolcrib.core.context import ToolContext
from toolcrib.core.profile import CONSTRAINT_REASONS, Constraint
from toolcrib.pipeline.patterns import glob, regex

Holds = Callable[[Any, ToolContext], bool]
_MISSING = object()


def reason_of(constraint: Constraint) -> str:
    """The reason given when the constraint fails and the rule names none."""
    return CONSTRAINT_REASONS.get(constraint.kind, "argument_not_allowed")


def describe(constraint: Constraint) -> str:
    """The constraint in words."""
    words = {
        "in": "one of",
        "not_in": "none of",
        "prefix": "beginning with",
        "glob": "like",
        "regex": "matching",
        "min": "at least",
        "max": "at most",
        "max_length": "no longer than",
        "max_items": "no more items than",
        "path_under": "a path below",
        "host_in": "a host of",
    }
    value = constraint.value
    if isinstance(value, list | tuple):
        value = ", ".join(str(v) for v in cast("list[Any]", value))
    return f"{constraint.argument} must be {words[constraint.kind]} {value}"


def compile_constraint(constraint: Constraint, *, every: bool) -> Callable[[ToolContext], bool]:
    """A test of a call. In a list, `every` item has to hold (for allow), or one (for deny)."""
    path = constraint.argument.split(".")
    holds = _TESTS[constraint.kind](constraint.value)
    whole = constraint.kind in ("max_items", "max_length")
    quantify = all if every else any

    def test(ctx: ToolContext) -> bool:
        value = _reach(ctx.arguments, path)
        if value is _MISSING:
            return False
        if isinstance(value, list) and not whole:
            items = cast("list[Any]", value)
            return bool(items) and quantify(holds(item, ctx) for item in items)
        return holds(value, ctx)

    return test


def _reach(arguments: dict[str, Any], path: list[str]) -> Any:
    value: Any = arguments
    for part in path:
        if not isinstance(value, Mapping) or part not in value:
            return _MISSING
        value = cast("Mapping[str, Any]", value)[part]
    return value


def _same(value: Any, other: Any) -> bool:
    """Equal as JSON values: true is not 1."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _in(choices: Any) -> Holds:
    return lambda value, _: any(_same(value, choice) for choice in choices)


def _not_in(choices: Any) -> Holds:
    return lambda value, _: not any(_same(value, choice) for choice in choices)


def _prefix(start: Any) -> Holds:
    starts: tuple[str, ...] = (start,) if isinstance(start, str) else tuple(start)
    return lambda value, _: isinstance(value, str) and value.startswith(starts)


def _text(compiler: Callable[[str], Callable[[str], bool]]) -> Callable[[Any], Holds]:
    def build(patterns: Any) -> Holds:
        tests = [compiler(p) for p in ([patterns] if isinstance(patterns, str) else patterns)]
        return lambda value, _: isinstance(value, str) and any(test(value) for test in tests)

    return build


def _min(least: Any) -> Holds:
    return lambda value, _: _number(value) and value >= least


def _max(most: Any) -> Holds:
    return lambda value, _: _number(value) and value <= most


def _length(most: Any) -> Holds:
    return lambda value, _: isinstance(value, str | list | dict) and len(cast("str", value)) <= most


def _items(most: Any) -> Holds:
    return lambda value, _: isinstance(value, list | dict) and len(cast("str", value)) <= most


def _path_under(folders: Any) -> Holds:
    roots: list[str] = [folders] if isinstance(folders, str) else list(folders)

    def holds(value: Any, ctx: ToolContext) -> bool:
        if not isinstance(value, str) or not value or "\0" in value:
            return False
        base = ctx.cwd or "/"
        path = posixpath.normpath(posixpath.join(base, value))
        for root in roots:
            top = posixpath.normpath(posixpath.join(base, root))
            if path == top or path.startswith(top.rstrip("/") + "/"):
                return True
        return False

    return holds


def _host_in(hosts: Any) -> Holds:
    allowed = [hosts.lower()] if isinstance(hosts, str) else [str(h).lower() for h in hosts]
    exact = {h for h in allowed if not h.startswith("*.")}
    endings = tuple(h[1:] for h in allowed if h.startswith("*."))

    def holds(value: Any, ctx: ToolContext) -> bool:
        host = _host(value)
        return host is not None and (host in exact or (bool(endings) and host.endswith(endings)))

    return holds


def _host(value: Any) -> str | None:
    """The host of a URL, or of a bare `host` or `host:port`; None when in doubt."""
    if not isinstance(value, str) or any(c in value for c in "\\\0\t\r\n ") or not value:
        return None
    try:
        parts = urlsplit(value if "://" in value else f"//{value}")
        if parts.username is not None or parts.password is not None:
            return None
        return parts.hostname.rstrip(".").lower() if parts.hostname else None
    except ValueError:
        return None


_TESTS: dict[str, Callable[[Any], Holds]] = {
    "in": _in,
    "not_in": _not_in,
    "prefix": _prefix,
    "glob": _text(glob),
    "regex": _text(regex),
    "min": _min,
    "max": _max,
    "max_length": _length,
    "max_items": _items,
    "path_under": _path_under,
    "host_in": _host_in,
}
