"""Query parameters."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import parse_qsl

from toolcrib.core.units import did_you_mean
from toolcrib.transports.faults import Fault

MOST = 50


def read_query(query: bytes, known: Collection[str]) -> dict[str, str]:
    """Parameters by name. Raises `Fault` for an unknown or a repeated one."""
    if not query:
        return {}
    try:
        pairs = parse_qsl(
            query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST
        )
    except ValueError:
        raise Fault("invalid_request", "the query cannot be read") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        if name not in known:
            near = did_you_mean(name, known)
            hint = f". Did you mean {near}?" if near else ""
            raise Fault("invalid_request", f"there is no parameter {name[:64]!r} here{hint}")
        if name in found:
            raise Fault("invalid_request", f"the parameter {name!r} stands twice")
        found[name] = value
    return found
