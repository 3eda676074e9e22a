"""What a modern request says in its HTTP headers as well, so that proxies need not read the body.

`Mcp-Method` and `Mcp-Name` repeat the method and what it is about; `Mcp-Param-…` repeats arguments
that a tool's schema marks with `x-mcp-header`. Who reads the body has to compare them.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, cast

VERSION = "mcp-protocol-version"
METHOD = "mcp-method"
NAME = "mcp-name"
SESSION = "mcp-session-id"
"""Of the handshake era."""
PARAM = "mcp-param-"
MARK = "x-mcp-header"
NAMED: Mapping[str, str] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""The member of params that `Mcp-Name` repeats, by method."""
SAFE = 2**53 - 1
"""The largest whole number that every client can count to."""

MOST_MARKS = 64
"""Arguments of one tool that headers repeat; few servers take more headers than that."""

_BEGIN, _END = "=?base64?", "?="
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?").fullmatch
_NUMBER = re.compile(r"-?[0-9]{1,16}(?:\.0{1,16})?").fullmatch
_DEPTH = 32

Primitive = Literal["string", "integer", "boolean"]


class Mirror(NamedTuple):
    """An argument that a header repeats."""

    header: str
    """The whole name of the header, in lower case."""
    path: tuple[str, ...]
    """Where the argument stands, from the arguments on."""
    kind: Primitive


def encode_value(value: str | int | bool) -> str:
    """A value as a header has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if _PLAIN(text) and not (text.startswith(_BEGIN) and text.endswith(_END)):
        return text
    return f"{_BEGIN}{b64encode(text.encode()).decode('ascii')}{_END}"


def decode_value(text: str) -> str:
    """What a header's value stands for. Raises `ValueError`."""
    if not (text.startswith(_BEGIN) and text.endswith(_END)):
        if text and not _PLAIN(text):
            raise ValueError("it has characters that a header cannot have")
        return text
    try:
        return b64decode(text[len(_BEGIN) : -len(_END)], validate=True).decode()
    except (binascii.Error, ValueError):
        raise ValueError("it is no Base64 of UTF-8 text") from None


def mirrors(schema: Mapping[str, Any]) -> tuple[Mirror, ...]:
    """The arguments that headers repeat, by a tool's input schema. Raises `ValueError` where a mark
    stands that may not stand there: then the whole tool cannot be offered over HTTP."""
    found: list[Mirror] = []
    _reachable(schema, (), found)
    if _marks(schema, 0) != len(found):
        raise ValueError(f"{MARK} may only stand at properties of properties, from the top")
    names: set[str] = set()
    for each in found:
        if each.header in names:
            raise ValueError(f"two arguments have the {MARK} {each.header[len(PARAM) :]!r}")
        names.add(each.header)
    return tuple(found)


def _reachable(schema: Mapping[str, Any], path: tuple[str, ...], found: list[Mirror]) -> None:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or len(path) > _DEPTH:
        return
    for name, each in cast("Mapping[str, Any]", properties).items():
        if not isinstance(each, Mapping):
            continue
        member = cast("Mapping[str, Any]", each)
        here = (*path, name)
        if MARK in member:
            found.append(_mirror(member, here))
            if len(found) > MOST_MARKS:
                raise ValueError(f"more than {MOST_MARKS} arguments have an {MARK}")
        _reachable(member, here, found)


def _mirror(schema: Mapping[str, Any], path: tuple[str, ...]) -> Mirror:
    where, name, kind = ".".join(path), schema[MARK], schema.get("type")
    if not isinstance(name, str) or not _TOKEN(name):
        raise ValueError(f"the {MARK} of {where} cannot be the name of a header")
    if kind not in ("string", "integer", "boolean"):
        text = f"the {MARK} of {where} stands at a {kind!r}: only string, integer and boolean can"
        raise ValueError(text + " be repeated in a header")
    return Mirror(PARAM + name.lower(), path, kind)


def _marks(value: Any, depth: int, *, names: bool = False) -> int:
    """How often the mark stands anywhere. Below `properties`, names are the user's own."""
    if depth > 2 * _DEPTH:
        return 0
    if isinstance(value, list | tuple):
        return sum(_marks(each, depth + 1) for each in cast("list[Any]", value))
    if not isinstance(value, Mapping):
        return 0
    members = cast("Mapping[str, Any]", value)
    count = 0 if names else int(MARK in members)
    for key, each in members.items():
        if names or key not in ("const", "default", "enum", "examples"):
            count += _marks(each, depth + 1, names=not names and key in _OF_NAMES)
    return count


_OF_NAMES = frozenset(("properties", "patternProperties", "$defs", "definitions"))


def param_headers(marked: tuple[Mirror, ...], arguments: Mapping[str, Any]) -> dict[str, str]:
    """The headers that a client sends with a call. Raises `ValueError` for a number that not every
    server can count to."""
    found: dict[str, str] = {}
    for each in marked:
        value = _at(arguments, each.path)
        if value is None or not isinstance(value, str | int):
            continue  # what does not fit the schema is the server's to refuse
        if not isinstance(value, str) and not -SAFE <= value <= SAFE:
            raise ValueError(f"{'.'.join(each.path)} is too large for its header")
        found[each.header] = encode_value(value)
    return found


def request_headers(method: str, params: Mapping[str, Any], version: str) -> dict[str, str]:
    """The headers that every modern request has."""
    found = {VERSION: version, METHOD: method}
    name = params.get(NAMED.get(method, ""))
    if isinstance(name, str):
        found[NAME] = encode_value(name)
    return found


def wrong_request(
    head: Mapping[bytes, bytes], method: str, params: Mapping[str, Any]
) -> str | None:
    """What in the headers of a request does not fit its body; None when all does."""
    given = head.get(b"mcp-method")
    if given is None:
        return f"the header Mcp-Method is missing. Send Mcp-Method: {method}"
    if given.decode("latin-1").strip() != method:
        return "the header Mcp-Method does not name the method of the body"
    member = NAMED.get(method)
    if member is None:
        return None
    name = params.get(member)
    if not isinstance(name, str):
        return None  # that is wrong with the params, not with the headers
    said = head.get(b"mcp-name")
    if said is None:
        return f"the header Mcp-Name is missing. It repeats params.{member}"
    text = _text(said)
    if text == name and text.isascii() and not text.startswith(_BEGIN):
        return None  # most of them, without a closer look
    try:
        if decode_value(text) == name:
            return None
    except ValueError as error:
        return f"the header Mcp-Name cannot be read: {error}"
    return f"the header Mcp-Name does not repeat params.{member}"


def wrong_params(
    head: Mapping[bytes, bytes], marked: tuple[Mirror, ...], arguments: Mapping[str, Any]
) -> str | None:
    """What in the `Mcp-Param-…` headers does not fit the arguments; None when all does."""
    for each in marked:
        said = head.get(each.header.encode())
        value = _at(arguments, each.path)
        where = ".".join(each.path)
        if value is None:
            if said is not None:
                return f"the header {each.header} repeats {where}, which is not in the body"
            continue
        if said is None:
            if not isinstance(value, str | int | float):
                continue  # which no header can repeat, and the tool's schema refuses
            return f"the header {each.header} is missing. It repeats {where}"
        try:
            text = decode_value(_text(said))
        except ValueError as error:
            return f"the header {each.header} cannot be read: {error}"
        if not _same(text, value):
            return f"the header {each.header} does not repeat {where}"
    return None


def _text(value: bytes) -> str:
    return value.strip(b" \t").decode("latin-1")


def _same(text: str, value: Any) -> bool:
    if isinstance(value, str | bool):
        return text == (value if isinstance(value, str) else encode_value(value))
    if isinstance(value, int | float):
        return bool(_NUMBER(text)) and float(text) == value and int(text.partition(".")[0]) == value
    return False


def _at(arguments: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = arguments
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = cast("Mapping[str, Any]", value).get(name)
    return value
