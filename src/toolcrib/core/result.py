"""How a call ended."""

from __future__ import annotations

from typing import Any

import msgspec

from toolcrib.errors import CallDenied, CallError
from toolcrib.reasons import Status


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a call did not end with `ok`."""

    reason: str
    """The stable code of the ending; `reasons.py` has the table."""
    message: str
    """One sentence that a model or a person may read."""
    details: dict[str, Any] = {}
    """More facts: the rule and its line, each bad argument, an approver's note."""
    retryable: bool = False
    retry_after: float | None = None
    """Seconds to wait before trying again, when known."""
    still_running: bool = False
    """True when the work could not be stopped and may still have an effect."""


class Truncated(msgspec.Struct, frozen=True, rename={"original": "from", "kept": "to"}):
    """The output was cut: how many characters there were, and how many are left."""

    original: int
    kept: int


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """How one call ended. The same JSON leaves through every door."""

    call_id: str = ""
    status: Status = "ok"
    output: Any = None
    """What the tool returned, as plain JSON values."""
    content: list[dict[str, Any]] | None = None
    """Blocks for a model (text, image, resource) when the tool gave them itself."""
    error: Failure | None = None
    truncated: Truncated | None = None
    metadata: dict[str, Any] = {}

    @property
    def success(self) -> bool:
        """True when the tool ran and ended well."""
        return self.status == "ok"

    @property
    def reason(self) -> str | None:
        """The stable code of the ending; None when it ended well."""
        return self.error.reason if self.error is not None else None

    def unwrap(self) -> Any:
        """The output; raises `CallError`, or `CallDenied`, when there is none."""
        if self.status == "ok":
            return self.output
        raise (CallDenied if self.status == "denied" else CallError)(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, the shape documented for every door."""
        return msgspec.to_builtins(self)

    def _repr_html_(self) -> str:
        import html

        rows = {"status": self.status, "reason": self.reason, "output": self.output}
        if self.error is not None:
            rows["message"] = self.error.message
        cells = "".join(
            f"<tr><th>{key}</th><td>{html.escape(str(value))}</td></tr>"
            for key, value in rows.items()
            if value is not None
        )
        return f"<table>{cells}</table>"


class ReadResult(ToolResult, frozen=True, kw_only=True):
    """A result as it was read from JSON text, for this call alone: nobody else holds a part of it,
    and every part is a plain JSON value."""
