"""The function of a tool that stands in a file of its own."""

from __future__ import annotations


def to_inches(millimetres: float) -> float:
    """Turn millimetres into inches."""
    return round(millimetres / 25.4, 3)
