"""What comes back is made fit to leave: plain JSON values, within limits, secrets hidden."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from toolcrib.core.jsontext import MAX_DEPTH, check_value, is_shallow
from toolcrib.core.result import Failure, ToolResult, Truncated
from toolcrib.errors import JsonError
from toolcrib.pipeline.parts import Hider
from toolcrib.reasons import REASONS, is_reason

MARK = "… [cut: {kept} of {original} characters]"
MARGIN = 100
"""Characters that a mark may have."""
PLAIN = frozenset({str, int, float, bool, type(None)})
encode = msgspec.json.Encoder(decimal_format="number").encode
_decode = msgspec.json.Decoder().decode
_encode_any = msgspec.json.Encoder(
    decimal_format="number", enc_hook=lambda value: _foreign(value)
).encode


class NotJson(TypeError):
    """The tool returned something that has no JSON form."""


def plain(value: Any, *, read: bool = False) -> tuple[Any, bytes]:
    """`value` as JSON values and as JSON text, whatever it was: models, enums, dates, sets. With
    `read`, it was read from JSON and is nobody else's, so it stays what it is."""
    try:
        encoded = _encode_any(value)
        if read:
            return value, encoded
        if type(value) in PLAIN:
            if type(value) is float and value - value != 0.0:
                raise NotJson(f"the output has no JSON form: {value} is not a number")
            return value, encoded
        if encoded.find(b"null") >= 0:
            # A real null, or a NaN that the encoder wrote so.
            known = _reread(value, encoded)
            if known is not None:
                return known, encoded
            check_value(msgspec.to_builtins(value, enc_hook=_foreign, str_keys=True),
                        max_nodes=10_000_000, max_bytes=1 << 40)  # fmt: skip
        return _decode(encoded), encoded
    except (TypeError, ValueError, OverflowError, RecursionError, JsonError) as error:
        raise NotJson(f"the output has no JSON form: {error}") from None


def _reread(value: Any, encoded: bytes) -> Any:
    """What the text says, if that equals the value it was made from: then no part of it was
    a NaN. None where that has to be looked into."""
    if not is_shallow(encoded, MAX_DEPTH):
        return None
    try:
        known = _decode(encoded)
        return known if known == value else None
    except Exception:  # a tool's own types may compare as they like
        return None


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


def cut_blocks(
    blocks: list[dict[str, Any]], limit: int
) -> tuple[list[dict[str, Any]], Truncated] | None:
    """Content over the limit: the text that still fits, cut visibly, and in the place of each other
    block that does not fit, how large it was. None when all of it fits."""
    sizes = [len(encode(block)) for block in blocks]
    total = sum(sizes)
    if total <= limit:
        return None
    kept: list[dict[str, Any]] = []
    left = limit
    for block, size in zip(blocks, sizes, strict=True):
        text: Any = block.get("text")
        if size <= left:
            kept.append(block)
            left -= size
        elif isinstance(text, str):
            some = text[:left]
            mark = MARK.format(kept=len(some), original=len(text))
            kept.append({**block, "text": some + mark})
            left = 0
        else:
            kind = str(block.get("type", "block"))[:40]
            kept.append({"type": "text", "text": f"[cut: {kind} of {size} characters]"})
    return kept, Truncated(total, limit)


def comes_later(metadata: dict[str, Any]) -> bool:
    """Whether the output is not there yet: an MCP server may answer with a task to ask about."""
    said: Any = metadata.get("mcp")
    return isinstance(said, dict) and cast("Any", said).get("resultType", "complete") != "complete"


def hide(result: ToolResult, hider: Hider) -> ToolResult:
    """The result without the values that were marked as secret."""
    changes: dict[str, Any] = {
        name: hider.secrets_in(getattr(result, name)) for name in ("output", "content", "metadata")
    }
    if result.error is not None:
        changes["error"] = said(result.error, hider)
    return msgspec.structs.replace(result, **changes)


def said(error: Failure, hider: Hider) -> Failure:
    """A failure without the values that were marked as secret."""
    message, details = hider.text(error.message), hider.secrets_in(error.details)
    return msgspec.structs.replace(error, message=message, details=details)


def captured(encoded: bytes, limit: int) -> msgspec.Raw:
    """What the trail keeps of an encoded value: all of it, or a cut text."""
    if len(encoded) <= limit:
        return msgspec.Raw(encoded)
    text = encoded[:limit].decode(errors="ignore")
    return msgspec.Raw(encode(text + MARK.format(kept=len(text), original=len(encoded))))


def sound(result: ToolResult) -> str | None:
    """What is wrong with a result that a tool made itself; None when nothing is."""
    error: Any = result.error
    if result.status not in ("ok", "error", "denied"):
        return f"its status is {result.status!r}"
    if error is not None and not isinstance(error, Failure):
        return f"its error is a {type(error).__name__}"
    if (result.status == "ok") is not (error is None):
        return (
            f"its status is {result.status} and its error is {'none' if error is None else 'set'}"
        )
    if error is not None and not is_reason(error.reason):
        return f"its reason is {error.reason!r}"
    content: Any = result.content
    if content is not None:
        blocks: Any = content
        if not isinstance(content, list):
            return "its content is not a list of blocks"
        for block in blocks:
            if not isinstance(block, dict):
                return "its content is not a list of blocks"
    metadata: Any = result.metadata
    if not isinstance(metadata, dict):
        return f"its metadata is a {type(metadata).__name__}"
    return None


def spoken(error: Failure, status: str) -> Failure:
    """A tool's failure in a form that can leave. What it failed with must not hide that it did,
    and a reason that is the host's to give, under another status, is not the tool's."""
    details: dict[str, Any] = {}
    for name, value in error.details.items():
        try:
            details[str(name)] = plain(value)[0]
        except NotJson:
            details[str(name)] = ascii(value)[:200]
    message = str(error.message).encode("utf-8", "backslashreplace").decode()
    row = REASONS.get(error.reason)
    reason = error.reason
    if row is not None and row.status != status:
        reason = "action_not_allowed" if status == "denied" else "tool_error"
    return msgspec.structs.replace(error, reason=reason, message=message, details=details)
