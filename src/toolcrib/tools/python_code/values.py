"""What code gives back, as JSON."""

from __future__ import annotations

import json
import math
from typing import Any, cast

from toolcrib.errors import ToolFailure

_DEEPEST = 100


def as_json(value: Any, depth: int = 0) -> Any:
    """The same value in JSON's types. Raises `TypeError` for what JSON cannot carry."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TypeError(f"the number {value} is not JSON")
        return value
    if depth >= _DEEPEST:
        raise TypeError(f"it is nested more than {_DEEPEST} deep")
    if isinstance(value, list | tuple):
        return [as_json(inner, depth + 1) for inner in cast("list[Any]", value)]
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value)
        if not all(isinstance(key, str) for key in pairs):
            raise TypeError("the keys of a dict have to be text")
        return {key: as_json(inner, depth + 1) for key, inner in pairs.items()}
    raise TypeError(f"a {type(value).__name__} is not JSON")


def finished(value: Any, printed: str, most: int) -> dict[str, Any]:
    """The answer of the tool, if it is not too large."""
    try:
        result = as_json(value)
        length = len(json.dumps(result, ensure_ascii=False))
    except (TypeError, ValueError) as error:
        text = f"the last expression cannot be given back: {error}"
        raise ToolFailure(text, details={"stdout": printed[:2_000]}) from None
    if len(printed) > most or length > most:
        raise too_large(printed, most)
    return {"result": result, "stdout": printed}


def too_large(printed: str, most: int) -> ToolFailure:
    """The code printed or gave back too much."""
    text = f"the code gave more than {most} characters"
    return ToolFailure(text, reason="output_too_large", details={"stdout": printed[:2_000]})


def out_of_time(printed: str) -> ToolFailure:
    """The code ran too long."""
    text = "the code was stopped: its time was over"
    return ToolFailure(text, reason="timeout", details={"stdout": printed[:2_000]})


def out_of_memory(printed: str) -> ToolFailure:
    """The code wanted too much memory."""
    text = "the code was stopped: it used more memory than it may"
    return ToolFailure(text, reason="sandbox_violation", details={"stdout": printed[:2_000]})


def broken(traceback: str, printed: str) -> ToolFailure:
    """The code raised; whoever wrote it needs the traceback."""
    text = traceback.strip()
    return ToolFailure(f"the code failed:\n{text[-3_000:]}", details={"stdout": printed[:2_000]})
