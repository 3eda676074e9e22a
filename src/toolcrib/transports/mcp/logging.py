"""How weighty log messages are, as the protocol counts it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolcrib.transports.mcp.faults import invalid

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_RANK = {level: rank for rank, level in enumerate(LEVELS)}


def checked(level: Any) -> str:
    """The level that a client names. Raises `McpFault`."""
    if isinstance(level, str) and level in _RANK:
        return level
    raise invalid(f"{ascii(level)[:60]} is not a log level. Use one of: {', '.join(LEVELS)}")


def reaches(level: Any, wanted: str | None) -> bool:
    """Whether a message of this level is for somebody who wants `wanted` and above. A level that
    nobody knows counts as the highest: it is not for us to lose it."""
    if wanted is None:
        return False
    rank = _RANK.get(level, len(LEVELS)) if isinstance(level, str) else len(LEVELS)
    return rank >= _RANK.get(wanted, 0)


def lowest(levels: Iterable[str | None]) -> str | None:
    """The level that is enough for all of them; None when none is wanted."""
    wanted = [level for level in levels if level is not None]
    return min(wanted, key=lambda level: _RANK.get(level, 0)) if wanted else None
