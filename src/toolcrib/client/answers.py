"""What comes over the wire, as the types that an embedded host gives."""

from __future__ import annotations

from typing import Any

import msgspec

from toolcrib.client.errors import NotToolcrib, Refused, refused
from toolcrib.core.jsontext import check_value
from toolcrib.core.result import Failure, ToolResult
from toolcrib.errors import JsonError
from toolcrib.transports.models import VERSION, CallState, Info
from toolcrib.transports.wire import METHODS

_encode = msgspec.json.Encoder(decimal_format="number").encode
_decoders: dict[str, msgspec.json.Decoder[Any]] = {}
_result = msgspec.json.Decoder(ToolResult)
_state = msgspec.json.Decoder(CallState)


class _Peek(msgspec.Struct):
    """Enough of an answer about a call to see whether the call has ended."""

    state: str | None = None
    status: str | None = None


class _Greeting(msgspec.Struct):
    """Enough of `host.info` to see whether the rest can be understood."""

    name: str = ""
    wire: str = ""
    version: str = "?"


_peek = msgspec.json.Decoder(_Peek)


def decode(method: str, raw: bytes | msgspec.Raw, where: str) -> Any:
    """The typed answer to a method that is not a call."""
    decoder = _decoders.get(method)
    if decoder is None:
        decoder = _decoders[method] = msgspec.json.Decoder(METHODS[method].answer)
    try:
        return decoder.decode(raw)
    except msgspec.DecodeError:
        raise strange(where, f"the answer to {method} cannot be read") from None


def ending(raw: bytes | msgspec.Raw, where: str) -> ToolResult | CallState:
    """How a call ended, or that it has not."""
    try:
        peek = _peek.decode(raw)
        if peek.status is not None:
            return _result.decode(raw)
        return _state.decode(raw)
    except msgspec.DecodeError:
        raise strange(where, "the answer is not about a call") from None


def ended(raw: bytes) -> bool:
    """Whether an answer tells how a call ended, and not what is wrong with a request."""
    try:
        return bool(_result.decode(raw).call_id)
    except msgspec.DecodeError:
        return False


def fault(raw: bytes | msgspec.Raw, where: str) -> Refused:
    """The exception for an answer that is a refusal."""
    try:
        return refused(_result.decode(raw), where)
    except msgspec.DecodeError:
        raise strange(where, "the refusal cannot be read") from None


def told(problem: Refused) -> ToolResult:
    """What a call came to whose request was refused. Who the caller is, is not about the call."""
    if problem.reason == "unauthenticated":
        raise problem
    return problem.result


def greeting(raw: bytes | msgspec.Raw, where: str) -> Info:
    """Who answers; raises `NotToolcrib` for a host of another version."""
    try:
        seen = msgspec.json.decode(raw, type=_Greeting)
    except msgspec.DecodeError:
        seen = _Greeting()
    if seen.name != "toolcrib":
        raise strange(where, "what answers there is no Toolcrib host")
    if seen.wire != VERSION:
        raise NotToolcrib(
            f"the host speaks version {seen.wire or '?'} of the methods, this client {VERSION}",
            where=where,
            cure=f"Install the toolcrib that the host runs: {seen.version}",
        )
    return decode("host.info", raw, where)


def strange(where: str, message: str) -> NotToolcrib:
    """The exception for an answer that no Toolcrib host gives."""
    return NotToolcrib(message, where=where, cure="Check the address: does `toolcrib serve` run?")


def encoded(value: Any) -> bytes:
    """JSON text; raises `JsonError` for what has none."""
    try:
        text = _encode(value)
        if b"null" in text:  # a real one, or a NaN that the encoder wrote so
            check_value(value, max_nodes=10_000_000, max_bytes=1 << 40)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise JsonError(f"are not JSON values: {error}") from None
    return text


def unfit(error: JsonError) -> ToolResult:
    """The ending of a call whose arguments cannot be sent."""
    problem = {"path": "", "message": str(error), "rule": "json"}
    failure = Failure(
        reason="invalid_arguments",
        message=f"the arguments do not fit: {error}",
        details={"problems": [problem]},
    )
    return ToolResult(status="error", error=failure)
