"""What a spec from elsewhere may say: only what is listed here, because it may ask for no more
than a request to a public server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from toolcrib.core.units import duration, size
from toolcrib.executors.http import MAX_BYTES, TIMEOUT
from toolcrib.net.exchange import effects_of

_KEYS = frozenset(
    {
        "name", "kind", "title", "description", "input_schema", "output_schema", "config",
        "effects", "idempotent", "timeout", "retry", "version", "category", "tags", "permissions",
        "requires_approval", "requires_tools", "conflicts_with", "annotations", "enabled",
    }
)  # fmt: skip
_CONFIG = frozenset(
    {
        "method", "url", "query", "headers", "body", "response", "pagination", "max_bytes",
        "timeout",
    }
)  # fmt: skip
"""Not `private` and `hosts`, which lift rules, and not `auth`, which is the configuration's."""
_UNITS = {size: "bytes", duration: "seconds"}


def refused(entry: Mapping[str, Any]) -> tuple[str, str] | None:
    """The key at fault, and why; None for an entry in our spelling that may come from elsewhere."""
    if (key := _other(entry, _KEYS)) is not None:
        return key, _may_not(key)
    kind = entry.get("kind", "python")
    if kind != "http":
        return "kind", f"remote specs may not carry tools of kind {kind}, only of kind http"
    given = entry.get("config")
    config: Mapping[str, Any] = (
        cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {}
    )
    if (key := _other(config, _CONFIG)) is not None:
        return f"config.{key}", _may_not(f"config.{key}")
    for key, value in entry.items():
        if _has_variable(value):
            return key, _may_not("${…}: the environment is this machine's")
    for key, given, most, measure in (
        ("config.max_bytes", config.get("max_bytes"), MAX_BYTES, size),
        ("config.timeout", config.get("timeout"), TIMEOUT, duration),
        ("timeout", entry.get("timeout"), TIMEOUT, duration),
    ):
        if given is not None and _above(given, most, measure):
            return key, _may_not(f"{key} above {most:,.0f} {_UNITS[measure]}")
    method = config.get("method", "GET")
    if not isinstance(method, str):
        return "config.method", _may_not("a config.method that is not text")
    needed = effects_of(method.upper())
    if _takes_arguments(entry.get("input_schema")):
        # Whatever the method, the arguments go to a server that a stranger named.
        needed |= {"egress"}
    told = entry.get("effects")
    if isinstance(told, list) and not needed <= set(cast("list[Any]", told)):
        lacking = ", ".join(sorted(needed - set(cast("list[Any]", told))))
        return "effects", f"a remote spec says less than a {method} can do: {lacking} is missing"
    return None


def _above(given: Any, most: float, measure: Callable[[Any], float]) -> bool:
    try:
        return measure(given) > most
    except ValueError:
        return False  # whoever reads it says what is wrong with it


def _takes_arguments(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return False
    given = cast("Mapping[str, Any]", schema)
    return any(given.get(key) for key in ("properties", "patternProperties")) or (
        given.get("additionalProperties", False) is not False
    )


def _may_not(what: str) -> str:
    return f"remote specs may not carry {what}"


def _other(given: Iterable[str], allowed: frozenset[str]) -> str | None:
    return next((key for key in given if key not in allowed), None)


def _has_variable(value: Any) -> bool:
    if isinstance(value, str):
        return "${" in value
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value)
        return any("${" in key or _has_variable(inner) for key, inner in pairs.items())
    if isinstance(value, list | tuple):
        return any(_has_variable(inner) for inner in cast("list[Any]", value))
    return False
