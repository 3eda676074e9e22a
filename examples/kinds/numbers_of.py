"""Functions for the kind `process`: plain ones, imported by the worker and never by the host."""

from __future__ import annotations

import statistics


def median(numbers: list[float]) -> float:
    """The value in the middle."""
    return statistics.median(numbers)
