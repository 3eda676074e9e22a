"""JSON-RPC 2.0: strict texts to messages, and messages to texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import msgspec

from toolcrib.core.jsontext import MAX_BYTES, MAX_DEPTH, parse, parse_quickly, shown
from toolcrib.errors import JsonError

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

Id = str | int | None
"""What ties an answer to its request; given back exactly as it came."""

_encode = msgspec.json.Encoder().encode


class Request(msgspec.Struct, frozen=True):
    """Somebody wants something done, and an answer."""

    id: Id
    method: str
    params: Any
    """An object, a list, or None where there are none."""


class Notification(msgspec.Struct, frozen=True):
    """Somebody tells something, or wants it done without an answer."""

    method: str
    params: Any


class Response(msgspec.Struct, frozen=True):
    """The answer to a request of ours."""

    id: Id
    result: Any
    error: dict[str, Any] | None
    """`code`, `message` and perhaps `data`; None when it went well."""


class Wrong(msgspec.Struct, frozen=True):
    """What came is none of these; this is what to answer."""

    id: Id
    code: int
    message: str


Message = Request | Notification | Response | Wrong


def read(
    text: bytes | str, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
) -> Message | list[Message]:
    """The message of a text, or the messages of a batch. Never raises."""
    try:
        value = strict(text, max_bytes=max_bytes, max_depth=max_depth)
    except JsonError as error:
        return Wrong(None, PARSE_ERROR, str(error))
    if type(value) is not list:
        return message(value)
    if not value:
        return Wrong(None, INVALID_REQUEST, "an empty batch. Send at least one message in it")
    return [message(item) for item in cast("list[Any]", value)]


def message(value: Any) -> Message:
    """The message that a JSON value is."""
    if type(value) is not dict:
        return Wrong(None, INVALID_REQUEST, f"{shown(value)} is no message. Send an object")
    members = cast("dict[str, Any]", value)
    known: Any = members.get("id")
    if not (known is None or type(known) is str or type(known) is int):
        text = f"the id is {shown(known)}. Use text or a whole number"
        return Wrong(None, INVALID_REQUEST, text)
    if members.get("jsonrpc") != "2.0":
        return Wrong(known, INVALID_REQUEST, 'no "jsonrpc": "2.0". Say so in every message')
    if "method" not in members:
        return _response(known, members)
    method = members["method"]
    if type(method) is not str:
        return Wrong(known, INVALID_REQUEST, f"the method is {shown(method)}. Use its name")
    if "result" in members or "error" in members:
        return Wrong(known, INVALID_REQUEST, "a request and an answer at once. Send one of them")
    params = members.get("params")
    if params is not None and type(params) is not dict and type(params) is not list:
        return Wrong(known, INVALID_REQUEST, f"params is {shown(params)}. Use an object")
    return Request(known, method, params) if "id" in members else Notification(method, params)


def _response(id: Id, members: dict[str, Any]) -> Message:
    error = members.get("error")
    fits = "id" in members and ("result" in members) != ("error" in members)
    if not fits or not (error is None or type(error) is dict):
        text = "neither a request (method) nor an answer (id, and result or error)"
        return Wrong(id, INVALID_REQUEST, text)
    if "error" in members and error is None:
        error = {}
    return Response(id, members.get("result"), cast("dict[str, Any] | None", error))


def strict(text: bytes | str, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> Any:
    """What `jsontext.parse` gives and refuses, quicker for most texts."""
    try:
        data = text.encode() if isinstance(text, str) else text
    except UnicodeEncodeError:  # said in words there
        return parse(text, max_bytes=max_bytes, max_depth=max_depth)
    return parse_quickly(data, max_bytes=max_bytes, max_depth=max_depth)


def result(id: Id, value: bytes) -> bytes:
    """A good answer; `value` is JSON already."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_encode(id), value)


def error(id: Id, code: int, message: str, data: bytes | None = None) -> bytes:
    """A bad answer; `data` is JSON already."""
    more = b"" if data is None else b',"data":' + data
    return b'{"jsonrpc":"2.0","id":%b,"error":{"code":%d,"message":%b%b}}' % (
        _encode(id),
        code,
        _encode(message),
        more,
    )


def request(id: Id, method: str, params: bytes) -> bytes:
    """A request; `params` is JSON already."""
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (
        _encode(id),
        _encode(method),
        params,
    )


def notification(method: str, params: bytes) -> bytes:
    """A notification; `params` is JSON already."""
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (_encode(method), params)


def batch(messages: Iterable[bytes]) -> bytes:
    """Several messages in one text."""
    return b"[%b]" % b",".join(messages)
