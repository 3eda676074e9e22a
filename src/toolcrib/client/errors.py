"""What can go wrong between a client and its host.

ClientError
├── CannotConnect      nobody answers there; nothing was sent
├── ConnectionLost     the connection broke; what was sent may have been done
├── NotToolcrib        what answers there is no host that this client understands
└── Refused            the host said no to a request; carries its reason
    ├── NothingFound   … there is nothing of that id (a `NotFound` too)
    ├── NotTaken       … it does not fit, or came too late (a `ValueError` too)
    └── Misconfigured  … the host's configuration is wrong (a `ConfigError` too)

What is about a call is no exception: it is in the call's `ToolResult`.
"""

from __future__ import annotations

from typing import Any

from toolcrib.core.result import Failure, ToolResult
from toolcrib.errors import ConfigError, NotFound, ToolcribError
from toolcrib.reasons import reason as reason_row


class ClientError(ToolcribError):
    """Something between this client and the host is wrong. Says what, where, and what to do."""

    def __init__(self, message: str, *, where: str, cure: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.url = where
        """The address of the host, without secrets."""
        self.cure = cure
        self.reason: str | None = None
        """The stable code of what the host refused; None when it said nothing."""
        self.details: dict[str, Any] = {}
        """More facts that the host gave."""

    @property
    def http(self) -> int | None:
        """The HTTP status that belongs to the reason."""
        return None if self.reason is None else reason_row(self.reason).http

    def __str__(self) -> str:
        text = f"{self.url}: {self.message}"
        text += f" ({self.reason})" if self.reason else ""
        return f"{text}. {self.cure}" if self.cure else text


class CannotConnect(ClientError):
    """Nobody answers there. Nothing was sent."""


class ConnectionLost(ClientError):
    """The connection broke before the answer. What was asked for may have been done."""


class NotToolcrib(ClientError):
    """What answers there is no Toolcrib host, or one of another version."""


class Refused(ClientError):
    """The host refused a request, or could not do what it asks for."""

    def __init__(self, result: ToolResult, *, where: str, cure: str | None = None) -> None:
        failure = result.error or Failure(reason="unexpected_failure", message="no words")
        super().__init__(failure.message, where=where, cure=cure)
        self.result = result
        """What the host answered, in the shape of every bad ending."""
        self.reason = failure.reason
        self.details = failure.details


class NothingFound(Refused, NotFound):
    """There is nothing of that id for this caller."""


class NotTaken(Refused, ValueError):
    """What was sent does not fit, or came too late."""


class Misconfigured(Refused, ConfigError):
    """The host read its configuration again and found it wrong; the old one stays in force."""

    def __init__(self, result: ToolResult, *, where: str, cure: str | None = None) -> None:
        Refused.__init__(self, result, where=where, cure=cure)
        self.file = self.line = self.column = self.key = None
        self.others = ()


_KINDS: dict[str, type[Refused]] = {
    "unknown_tool": NothingFound,
    "not_found": NothingFound,
    "invalid_request": NotTaken,
    "answer_refused": NotTaken,
    "config_rejected": Misconfigured,
}
_CURES = {
    "unauthenticated": "Give a valid token: Client(url, token=…), or set TOOLCRIB_TOKEN",
    "host_refused": "Use a name that the host serves, or add this one to serve.http.hosts",
    "not_permitted": "Ask the operator of the host for the permission",
}


def refused(result: ToolResult, where: str) -> Refused:
    """The exception for a request that the host refused."""
    reason = result.reason or ""
    return _KINDS.get(reason, Refused)(result, where=where, cure=_CURES.get(reason))


def unknown_outcome(message: str, call_id: str = "") -> ToolResult:
    """The result of a call that went out and of which nothing is known."""
    failure = Failure(reason="outcome_unknown", message=message)
    return ToolResult(call_id=call_id, status="error", error=failure)
