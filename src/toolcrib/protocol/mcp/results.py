"""Results of tools, from MCP and to MCP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from toolcrib.core.link import UpstreamError
from toolcrib.core.result import Failure, ReadResult, ToolResult
from toolcrib.errors import ToolFailure
from toolcrib.protocol.mcp.keys import OF_ONE_HOP, OURS

UPSTREAM = "mcp"
"""Under this key of a result's metadata stands what the protocol alone knows of it; under the same
key of a failure's details, the JSON-RPC error that it was."""
BEHIND = OURS + "behind"
"""What another Toolcrib behind this one said."""
FAILURE = OURS + "failure"
METADATA = OURS + "metadata"
TRUNCATED = OURS + "truncated"
_LONGEST_MESSAGE = 2000
_encode = msgspec.json.Encoder(decimal_format="number").encode

_INVALID = "the server's answer to tools/call is no result of a tool: "


def from_result(raw: Any, call_id: str = "") -> ReadResult:
    """What a server answered to `tools/call`, just read from its text. Nothing of it is lost:
    `to_result` gives it back. Raises `ToolFailure` for what is no result."""
    members: Any = raw  # here and below: typed by the annotation, since `cast` costs a call
    if not isinstance(raw, dict):
        raise ToolFailure(_INVALID + "it is not an object", reason="upstream_error")
    if members.get("resultType", "complete") != "complete":
        return _unfinished(members, call_id)
    content = members.get("content")
    if content is None and "structuredContent" in members:
        content = []
    blocks = _blocks(content)
    rest = members.copy()
    rest.pop("content", None)
    if "_meta" in rest:
        _without_hop(rest)
    if "structuredContent" in rest:
        output = rest.pop("structuredContent")
        rest["structured"] = True
    else:
        output = _only_text(blocks)
    failed = members.get("isError") is True
    return ReadResult(
        call_id=call_id,
        status="error" if failed else "ok",
        output=output,
        content=blocks,
        error=Failure(reason="tool_error", message=_words(blocks)) if failed else None,
        metadata={UPSTREAM: rest},
    )


def to_result(result: ToolResult, *, modern: bool) -> dict[str, Any]:
    """What is answered to `tools/call`: what a server behind us said, as it said it, or a tool's
    own ending. Use `upstream_error` first."""
    metadata = result.metadata
    relayed = isinstance(metadata.get(UPSTREAM), dict)
    made = _relayed(result, metadata[UPSTREAM], modern) if relayed else _own(result, modern)
    if result.error is not None or result.truncated is not None or len(metadata) > relayed:
        meta: dict[str, Any] = {}
        if result.error is not None and not relayed:
            meta[FAILURE] = failure(result)
        if result.truncated is not None:
            meta[TRUNCATED] = msgspec.to_builtins(result.truncated)
        if more := {k: v for k, v in metadata.items() if k != UPSTREAM}:
            meta[METADATA] = more
        if meta:
            made["_meta"] = {**made.get("_meta", {}), **meta}
    if modern:
        made.setdefault("resultType", "complete")
    elif made.get("resultType") == "complete":
        del made["resultType"]
    return made


def failure(result: ToolResult) -> dict[str, Any]:
    """Why a call did not end well, in plain values: what programs read."""
    error = result.error
    if error is None:
        return {}
    made: dict[str, Any] = {
        "status": result.status,
        "reason": error.reason,
        "message": error.message,
        "retryable": error.retryable,
    }
    details = dict(error.details)
    for name in ("gate", "rule", "source"):
        if name in details:
            made[name] = details.pop(name)
    if details:
        made["details"] = details
    if error.retry_after is not None:
        made["retry_after"] = error.retry_after
    if error.still_running:
        made["still_running"] = True
    if result.call_id:
        made["call_id"] = result.call_id
    return made


def upstream_error(result: ToolResult) -> UpstreamError | None:
    """The JSON-RPC error that a server behind us answered, when that is how the call ended."""
    told: Any = None if result.error is None else result.error.details.get(UPSTREAM)
    if not isinstance(told, dict):
        return None
    error = cast("dict[str, Any]", told)
    if type(error.get("code")) is not int:
        return None
    return UpstreamError(error["code"], str(error.get("message", "")), error.get("data"))


def upstream_failure(error: UpstreamError) -> ToolFailure:
    """A JSON-RPC error to a call, as the failure of that call; `upstream_error` finds it again."""
    told: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        told["data"] = error.data
    reason = "invalid_arguments" if error.code == -32602 else "upstream_error"
    words = error.message[:_LONGEST_MESSAGE] or f"the server answered with the error {error.code}"
    return ToolFailure(words, reason=reason, details={UPSTREAM: told})


def _blocks(content: Any) -> list[dict[str, Any]]:
    """The content of a result, if it is a list of blocks."""
    blocks: Any = content
    if isinstance(content, list):
        for block in blocks:
            if not isinstance(block, dict):
                break
        else:
            return blocks
    raise ToolFailure(_INVALID + "its content is not a list of blocks", reason="upstream_error")


def _unfinished(members: dict[str, Any], call_id: str) -> ReadResult:
    """A result of another type than a finished call's, a task for instance: kept whole."""
    rest = {"resultType": members["resultType"]}
    if "_meta" in members:
        rest["_meta"] = members["_meta"]
        _without_hop(rest)
    output = {k: v for k, v in members.items() if k not in ("_meta", "resultType")}
    return ReadResult(call_id=call_id, output=output, metadata={UPSTREAM: rest})


def _without_hop(rest: dict[str, Any]) -> None:
    """Leave out of `_meta` what a server said about itself: the next hop says who it is. What it
    says in our name stands apart: only we say what was refused here, or has to be approved."""
    given: Any = rest.get("_meta")
    if not isinstance(rest.get("_meta"), dict):
        return
    if given and OF_ONE_HOP.issuperset(given):  # as nearly every server writes it
        del rest["_meta"]
        return
    ours = {k: v for k, v in given.items() if k.startswith(OURS)}
    if not ours and OF_ONE_HOP.isdisjoint(given):
        return
    kept = {k: v for k, v in given.items() if k not in OF_ONE_HOP and k not in ours}
    if ours:
        kept[BEHIND] = ours
    del rest["_meta"]
    if kept:
        rest["_meta"] = kept


def _relayed(result: ToolResult, told: Mapping[str, Any], modern: bool) -> dict[str, Any]:
    made = dict(told)
    made.pop("structured", None)
    if made.get("resultType", "complete") != "complete":
        whole: Any = result.output
        return {**made, **cast("dict[str, Any]", whole)} if isinstance(whole, dict) else made
    made["content"] = result.content or []
    output = result.output
    if told.get("structured") and not (result.truncated is not None and isinstance(output, str)):
        _structured(made, output, modern)
    if result.status != "ok":
        made["isError"] = True
    return made


def _own(result: ToolResult, modern: bool) -> dict[str, Any]:
    error = result.error
    if error is not None:
        blocks = result.content or [_text(error.message)]
        return {"content": blocks, "structuredContent": failure(result), "isError": True}
    output = result.output
    content = result.content
    if content is None:
        content = [] if output is None else [_text(_as_text(output))]
    made: dict[str, Any] = {"content": content}
    # Cut output is the beginning of a text, and no value of the tool's schema any more.
    if output is not None and result.truncated is None:
        _structured(made, output, modern)
    return made


def _structured(made: dict[str, Any], output: Any, modern: bool) -> None:
    """Add the value, where the revision has a place for it; else its text, if nothing else says
    it."""
    if modern or isinstance(output, dict):
        made["structuredContent"] = output
    elif not made["content"]:
        made["content"] = [_text(_as_text(output))]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _as_text(output: Any) -> str:
    return output if isinstance(output, str) else _encode(output).decode()


def _only_text(blocks: list[dict[str, Any]]) -> str | None:
    if len(blocks) == 1 and blocks[0].get("type") == "text":
        text = blocks[0].get("text")
        return text if isinstance(text, str) else None
    return None


def _words(blocks: list[dict[str, Any]]) -> str:
    texts = [block.get("text") for block in blocks if block.get("type") == "text"]
    words = "\n".join(text for text in texts if isinstance(text, str)).strip()
    return words[:_LONGEST_MESSAGE] or "the tool reported a failure and said nothing about it"
