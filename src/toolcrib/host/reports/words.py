"""Words that reports and commands share."""

from __future__ import annotations


def many(count: int, word: str) -> str:
    """`1 tool`, `2 tools`."""
    return f"{count} {word}{'' if count == 1 else 's'}"
