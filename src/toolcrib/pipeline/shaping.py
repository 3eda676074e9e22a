"""What comes back is made fit to leave: plain JSON values, within limits, secrets hidden."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from toolcrib.core.result import ToolResult, Truncated
from toolcrib.pipeline.parts import Hider

MARK = "… [cut: {kept} of {original} characters]"
PLAIN = frozenset({str, int, float, bool, type(None)})
NUMBERS = frozenset({int, float, bool, type(None)})
"""Values that can hold nothing to hide and nothing to cut."""
encode = msgspec.json.Encoder(decimal_format="number").encode


class NotJson(TypeError):
    """The tool returned something that has no JSON form."""


def plain(value: Any) -> Any:
    """`value` as JSON values: dataclasses, Structs, enums, dates, sets, models and the like."""
    if type(value) in PLAIN:
        return value
    try:
        return msgspec.to_builtins(value, enc_hook=_foreign, str_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(f"the output has no JSON form: {error}") from None


def _foreign(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, range | map | filter | zip):
        return list(cast("range", value))
    path = getattr(value, "__fspath__", None)
    if callable(path):
        return path()
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def cut(output: Any, encoded: bytes, limit: int) -> tuple[Any, Truncated] | None:
    """Output over the limit, cut visibly; None when it fits."""
    if len(encoded) <= limit:
        return None
    text = output if isinstance(output, str) else encoded.decode()
    if len(text) <= limit:
        return None
    mark = MARK.format(kept=limit, original=len(text))
    return text[:limit] + mark, Truncated(len(text), limit)


def hide(result: ToolResult, hider: Hider) -> ToolResult:
    """The result without the values that were marked as secret."""
    output = hider.secrets_in(result.output)
    content = hider.secrets_in(result.content)
    error = result.error
    if error is not None:
        error = msgspec.structs.replace(
            error, message=hider.text(error.message), details=hider.secrets_in(error.details)
        )
    return msgspec.structs.replace(result, output=output, content=content, error=error)


def captured(encoded: bytes, limit: int) -> msgspec.Raw:
    """What the trail keeps of an encoded value: all of it, or a cut text."""
    if len(encoded) <= limit:
        return msgspec.Raw(encoded)
    text = encoded[:limit].decode(errors="ignore")
    return msgspec.Raw(encode(text + MARK.format(kept=len(text), original=len(encoded))))
