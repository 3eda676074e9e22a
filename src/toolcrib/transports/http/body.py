"""A request's body: of the right type, within its limits, in time, and strict JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from toolcrib.core.jsontext import is_plain, is_whole, parse
from toolcrib.core.serving import HttpSettings
from toolcrib.errors import JsonError
from toolcrib.transports.faults import Fault
from toolcrib.transports.http.answers import Receive

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.encode


class Gone(Exception):
    """The client went away before its request had arrived."""


async def read_body(receive: Receive, head: Mapping[bytes, bytes], settings: HttpSettings) -> bytes:
    """The whole body. Raises `Fault`, or `Gone`."""
    length = head.get(b"content-length")
    if length is not None and length.isdigit() and int(length[:20]) > settings.max_body:
        raise _too_large(settings)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(settings.request_timeout):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Gone
                part: bytes = message.get("body", b"")
                size += len(part)
                if size > settings.max_body:
                    raise _too_large(settings)
                parts.append(part)
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        seconds = f"{settings.request_timeout:g} s"
        raise Fault("request_timeout", f"the body did not arrive within {seconds}") from None


def check_type(head: Mapping[bytes, bytes]) -> None:
    """Refuse a body that is not said to be JSON: a web form cannot say so."""
    given = head.get(b"content-type")
    if given == b"application/json" and b"content-encoding" not in head:
        return
    if given is None or given.partition(b";")[0].strip().lower() != b"application/json":
        raise Fault("unsupported_media", "send `Content-Type: application/json`")
    if head.get(b"content-encoding", b"identity").lower() != b"identity":
        raise Fault("unsupported_media", "send the body without Content-Encoding")


def parse_body(body: bytes, settings: HttpSettings) -> dict[str, Any]:
    """The object in a body. Raises `Fault`."""
    value = strict(body, settings.max_body)
    if type(value) is not dict:
        raise Fault("invalid_request", "the body is no JSON object")
    return value  # pyright: ignore[reportUnknownVariableType]


def strict(text: bytes, max_bytes: int) -> Any:
    """What `core.jsontext.parse` makes of a text, cheaper where that can be proved. Raises
    `Fault`.

    """
    value = quickly(text)
    if value is not None:
        return value
    try:
        return parse(text, max_bytes=max_bytes)
    except JsonError as error:
        raise Fault("not_json", str(error)) from None


def quickly(text: bytes) -> Any:
    """The value of a text, where that is cheap; None where `parse` has to look. Why the text is
    then strict JSON, `core.jsontext.parse_quickly` says."""
    if is_plain(text):
        try:
            value = _decode(text)
            if is_whole(text, _encode(value)):
                return value
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
            pass  # `parse` says what is wrong
    return None


def _too_large(settings: HttpSettings) -> Fault:
    return Fault("request_too_large", f"the body is over the limit of {settings.max_body} bytes")
