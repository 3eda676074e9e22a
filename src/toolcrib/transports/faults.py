"""What is wrong with a request itself, in the shape that refused and failed calls have."""

from __future__ import annotations

from typing import Any

from toolcrib.core.result import Failure, ToolResult
from toolcrib.errors import ToolcribError
from toolcrib.reasons import Reason
from toolcrib.reasons import reason as reason_row

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

_JSONRPC = {
    "not_json": PARSE_ERROR,
    "not_a_request": INVALID_REQUEST,
    "unknown_method": METHOD_NOT_FOUND,
    "invalid_request": INVALID_PARAMS,
    "unexpected_failure": INTERNAL_ERROR,
}


class Fault(ToolcribError):
    """A request that cannot be answered. Calls end with a `ToolResult` instead."""

    def __init__(self, reason: str, message: str | None = None, **details: Any) -> None:
        self.row: Reason = reason_row(reason)
        self.reason = reason
        self.message = message or self.row.meaning
        self.details = details
        super().__init__(self.message)

    @property
    def http(self) -> int:
        """The HTTP status."""
        return self.row.http

    @property
    def code(self) -> int:
        """The JSON-RPC error code: the standard's own where it has one, else the HTTP status,
        which lies outside the reserved range."""
        return _JSONRPC.get(self.reason, self.row.http)

    def result(self) -> ToolResult:
        """The one shape in which anything that went wrong leaves."""
        return ToolResult(
            status=self.row.status,
            error=Failure(
                reason=self.reason,
                message=self.message,
                details=self.details,
                retryable=self.row.retry == "yes",
            ),
        )
