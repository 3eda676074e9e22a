"""What a profile can hold an argument to. The kinds are closed, so profiles can be verified."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from toolcrib.core.context import ToolContext
from toolcrib.core.profile import CONSTRAINT_REASONS, Constraint
from toolcrib.pipeline.patterns import glob, regex

Holds = Callable[[Any, ToolContext], bool | None]
"""None: it cannot be told. An allow rule then does not hold; a deny or ask rule does."""


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

    def test(ctx: ToolContext) -> bool:
        found, complete = _reach(ctx.arguments, path)
        values = found if whole else [item for value in found for item in _spread(value)]
        if every:
            return complete and bool(values) and all(holds(v, ctx) is True for v in values)
        return any(holds(v, ctx) is not False for v in values)

    return test


def _spread(value: Any) -> list[Any]:
    if not isinstance(value, list):
        return [value]
    return [part for item in cast("list[Any]", value) for part in _spread(item)]


def _reach(arguments: dict[str, Any], path: list[str]) -> tuple[list[Any], bool]:
    """The values at a path, through every item of lists on the way; whether all had it."""
    values: list[Any] = [arguments]
    complete = True
    for part in path:
        following: list[Any] = []
        for value in (item for holder in values for item in _spread(holder)):
            if isinstance(value, Mapping) and part in value:
                following.append(cast("Mapping[str, Any]", value)[part])
            else:
                complete = False
        values = following
    return values, complete


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

    def holds(value: Any, ctx: ToolContext) -> bool | None:
        if not isinstance(value, str) or not value or "\0" in value:
            return None
        path = _normal(ctx.cwd, value)
        for root in roots:
            top = _normal(ctx.cwd, root)
            if path.startswith("/") is not top.startswith("/") or path.startswith(".."):
                return None  # without a folder to work in, nobody knows where it leads
            if top == ".":
                return True
            if path == top or path.startswith(top.rstrip("/") + "/"):
                return True
        return False

    return holds


def _normal(cwd: str, path: str) -> str:
    normal = posixpath.normpath(posixpath.join(cwd, path))
    return normal[1:] if normal.startswith("//") else normal  # POSIX keeps two slashes apart


def _host_in(hosts: Any) -> Holds:
    allowed = [hosts.lower()] if isinstance(hosts, str) else [str(h).lower() for h in hosts]
    exact = {h for h in allowed if not h.startswith("*.")}
    endings = tuple(h[1:] for h in allowed if h.startswith("*."))

    def holds(value: Any, ctx: ToolContext) -> bool | None:
        host = _host(value)
        if host is None:
            return None
        return host in exact or (bool(endings) and host.endswith(endings))

    return holds


_BARE = r"[A-Za-z0-9.-]+(:[0-9]+)?([/?#].*)?|\[[0-9A-Fa-f:.]+\](:[0-9]+)?([/?#].*)?"
_HOST = r"[a-z0-9._-]+|[0-9a-f:.]+"


def _host(value: Any) -> str | None:
    """The host of a URL, or of a bare `host` or `host:port`; None when in doubt."""
    if not isinstance(value, str) or any(c in value for c in "\\\0\t\r\n ") or not value:
        return None
    try:
        if "://" not in value and not re.fullmatch(_BARE, value):
            return None
        parts = urlsplit(value if "://" in value else f"//{value}")
        if parts.username is not None or parts.password is not None:
            return None
        _ = parts.port  # raises when it is none
        host = parts.hostname.rstrip(".").lower() if parts.hostname else ""
        return host if re.fullmatch(_HOST, host) else None
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
