"""Arguments as parts of a request: whatever they contain, they stay the part they are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, cast
from urllib.parse import quote

import msgspec

from toolcrib.core.jsontext import shown
from toolcrib.errors import Denial

Pairs = list[tuple[str, str]]
_NOT_IN_SEGMENT = re.compile(r"[/\\\x00-\x1f\x7f]").search
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*").fullmatch
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}").fullmatch
MANAGED = frozenset(
    [
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ]
)
"""Headers that belong to the client: another value would change how messages are cut apart, or
which host is meant."""


def scalar(value: Any) -> str:
    """A value as text: booleans as in JSON, objects and lists as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return msgspec.json.encode(value).decode()


def segment(name: str, value: Any) -> str:
    """One segment of a path, encoded. What could lead to another path is refused."""
    text = scalar(value)
    if text in ("", ".", "..") or _NOT_IN_SEGMENT(text):
        raise Denial(
            "url_not_allowed",
            f"the argument {name} is a part of a path: {shown(text)} is not allowed there",
        )
    return _quoted(name, text)


def segments(name: str, value: Any) -> str:
    """Several segments, parted by slashes, none of them empty, `.` or `..`."""
    return "/".join(segment(name, part) for part in scalar(value).split("/"))


def query_pairs(name: str, value: Any) -> Pairs:
    """A query parameter; a list is repeated, and nothing is left out."""
    if value is None:
        return []
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        return [(name, scalar(item)) for item in items if item is not None]
    return [(name, scalar(value))]


def query_text(pairs: Iterable[tuple[str, str]]) -> str:
    """A query or form, encoded."""
    return "&".join(f"{_quoted(name, name)}={_quoted(name, value)}" for name, value in pairs)


def header_value(name: str, value: Any) -> str:
    """The value of a header; what could begin another header is refused."""
    text = scalar(value).strip(" ")
    if not _HEADER_VALUE(text):
        raise Denial(
            "argument_not_allowed",
            f"the header {name} takes printable ASCII only, not {shown(text)}",
        )
    return text


def _quoted(name: str, text: str) -> str:
    if text.isalnum() and text.isascii():
        return text
    try:
        return quote(text, safe="-._~")
    except UnicodeEncodeError:
        raise Denial("argument_not_allowed", f"the argument {name} is not valid text") from None
