"""The JSON form of a default."""

from __future__ import annotations

import os
from typing import Any, Final, cast

import msgspec

from toolcrib.catalog.shape import Shape

MISSING: Final[Any] = object()
"""Stands for "there is no default", since None is one."""


def json_default(shape: Shape, default: Any) -> Any:
    """The default as JSON, or `MISSING` when JSON cannot say it.

    It is shown only if reading it back gives an equal value; else the function's own default
    stays in force, unseen.
    """
    if default.__class__ in (str, bool, int) or default is None:
        value = default
    else:
        value = _to_json(default)
        if value is MISSING:
            return MISSING
    try:
        if not bool(shape.read(value) == default):
            return MISSING
    except Exception:  # a value that refuses, or that cannot be compared, is no JSON value
        return MISSING
    if shape.bounded and not _within(shape.schema, value):
        return MISSING
    return value


def _to_json(value: Any) -> Any:
    try:
        plain = msgspec.to_builtins(
            value, str_keys=True, order="deterministic", enc_hook=_encode_other
        )
        return msgspec.json.decode(msgspec.json.encode(plain))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return MISSING


def _encode_other(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(cast("os.PathLike[str]", value))
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json")
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _within(schema: dict[str, Any], value: Any) -> bool:
    import jsonschema_rs

    try:
        return jsonschema_rs.is_valid(schema, value)
    except ValueError:  # the schema leans on `$defs` that stand elsewhere
        return False
