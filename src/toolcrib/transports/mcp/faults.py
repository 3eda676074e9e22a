"""What is wrong with an MCP request: the JSON-RPC error that answers it."""

from __future__ import annotations

from typing import Any

from toolcrib.core.link import UpstreamError
from toolcrib.errors import ToolcribError
from toolcrib.protocol.mcp import codes
from toolcrib.transports.faults import Fault

_HTTP = {
    codes.METHOD_NOT_FOUND: 404,
    codes.INVALID_REQUEST: 400,
    codes.INVALID_PARAMS: 400,
    codes.MISSING_CAPABILITY: 400,
}
"""The statuses of errors that another server answered; others are an answer like any."""


class McpFault(ToolcribError):
    """A request that is answered with an error. `http` is the status of the modern HTTP door."""

    def __init__(self, code: int, message: str, data: Any = None, *, http: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.http = http

    @classmethod
    def of(cls, fault: Fault) -> McpFault:
        """What another door would say, with its reason."""
        data: dict[str, Any] = {"reason": fault.reason}
        if fault.details:
            data["details"] = fault.details
        return cls(fault.code, fault.message, data, http=fault.http)

    @classmethod
    def of_upstream(cls, error: UpstreamError) -> McpFault:
        """What another server answered, untouched."""
        return cls(error.code, error.message, error.data, http=_HTTP.get(error.code, 200))

    def error(self) -> dict[str, Any]:
        """The `error` member of the response."""
        found: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            found["data"] = self.data
        return found


def invalid(message: str, **data: Any) -> McpFault:
    """Params that do not fit the method."""
    return McpFault(codes.INVALID_PARAMS, message, data or None)


def unknown_method(method: str) -> McpFault:
    """A method that is not answered here."""
    return McpFault(codes.METHOD_NOT_FOUND, f"there is no method {method!r} here", http=404)
