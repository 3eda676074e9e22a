"""What of a message goes on to the next neighbour."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from toolcrib.protocol.mcp.keys import OF_ONE_HOP


def passed_on(message: Mapping[str, Any]) -> dict[str, Any]:
    """The same without what its `_meta` says of this hop alone, and without a `_meta` that holds
    nothing else or is no object: strict clients would not read the message."""
    made = dict(message)
    meta: Any = made.pop("_meta", None)
    if isinstance(meta, Mapping):
        given = cast("Mapping[str, Any]", meta)
        if kept := {key: value for key, value in given.items() if key not in OF_ONE_HOP}:
            made["_meta"] = kept
    return made
