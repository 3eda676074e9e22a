"""Rows as JSON values, counted while they are taken in."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, cast

from toolcrib.errors import ToolFailure


def plain(value: Any) -> Any:
    """A value of a database as JSON has it: bytes in base64, decimals and times as text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(cast("bytes", value)).decode()
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value)
        return {str(key): plain(inner) for key, inner in pairs.items()}
    if hasattr(value, "items"):  # a row inside a row
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(inner) for inner in cast("Iterable[Any]", value)]
    return str(value)


class Rows:
    """Takes rows in until a limit is reached."""

    def __init__(self, max_rows: int, max_chars: int) -> None:
        self.max_rows = max_rows
        self.max_chars = max_chars
        self.rows: list[list[Any]] = []
        self.truncated = False
        self._chars = 0

    def take(self, row: Sequence[Any]) -> bool:
        """Keep a row; False when there is no room for it, and then none for any other."""
        if len(self.rows) >= self.max_rows:
            self.truncated = True
            return False
        values = [plain(value) for value in row]
        self._chars += sum(_length(value) for value in values)
        if self._chars > self.max_chars:
            if not self.rows:
                raise ToolFailure(
                    f"one row alone is over {self.max_chars} characters: select less of it",
                    reason="output_too_large",
                )
            self.truncated = True
            return False
        self.rows.append(values)
        return True

    def result(self, columns: Sequence[str], changed: int | None = None) -> dict[str, Any]:
        """What the tool answers; `changed` counts the rows of a statement that gives none back."""
        count = len(self.rows) if changed is None or self.rows else changed
        return {
            "columns": list(columns),
            "rows": self.rows,
            "row_count": count,
            "truncated": self.truncated,
        }


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(str(value))
