"""Pages of a merged list. The cursor is the last key of the page before, so that entries which come
or go meanwhile neither repeat nor hide others."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import msgspec

from toolcrib.transports.mcp.catalogue import Item, View
from toolcrib.transports.mcp.definitions import Kind
from toolcrib.transports.mcp.faults import invalid

_decode = msgspec.json.Decoder(tuple[str, str]).decode
_LONGEST = 32_768


def page(
    kind: Kind, view: View, cursor: Any, size: int, may: Callable[[Item], bool]
) -> dict[str, Any]:
    """The entries after the cursor that may be shown, and the next cursor. Raises `McpFault`."""
    keys = view.keys
    place = 0 if cursor is None else bisect_right(keys, _after(kind, cursor))
    shown: list[Any] = []
    last = ""
    for key in keys[place:]:
        item = view.items[key]
        if not may(item):
            continue
        if len(shown) == size:
            # Only now: behind the last page there may be what the caller is not to know of.
            return {kind.member: shown, "nextCursor": _cursor(kind, last)}
        shown.append(item.shown)
        last = key
    return {kind.member: shown}


def _cursor(kind: Kind, key: str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode((kind.method, key))).decode()


def _after(kind: Kind, cursor: Any) -> str:
    if isinstance(cursor, str) and len(cursor) <= _LONGEST:
        try:
            method, key = _decode(base64.b64decode(cursor, altchars=b"-_", validate=True))
        except (binascii.Error, ValueError, msgspec.MsgspecError):
            method = key = ""
        if method == kind.method:
            return key
    raise invalid(f"{kind.method}: the cursor is not one of ours. Ask without a cursor")
