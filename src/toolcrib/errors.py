"""The exceptions of Toolcrib.

ToolcribError
├── ConfigError        a file, setting or name is wrong; carries file, line and cure
│   ├── SpecError      a tool's description cannot be used
│   │   └── SchemaError   its JSON Schema is broken or over the budget
│   └── NameTaken      the name, or one that looks like it, is in use
├── CallError          what `ToolResult.unwrap()` raises
│   └── CallDenied     … when the call was refused
├── Denial             raised inside a tool or policy to refuse the call
├── ToolFailure        raised inside a tool to report a failure in words for the model
├── JsonError          text that is not acceptable JSON
├── StoreError         the store cannot be read or written
├── HostStopped        the host was stopped and starts nothing any more
└── NotFound           an approval, grant, call or session id that does not exist
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.core.result import ToolResult


class ToolcribError(Exception):
    """The base of all exceptions raised by Toolcrib."""


class ConfigError(ToolcribError):
    """A file, setting or name is wrong. Says what, where, and what to do."""

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
        key: str | None = None,
        cure: str | None = None,
        others: Sequence[ConfigError] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.line = line
        self.column = column
        self.key = key
        """The dotted path of the setting, such as `profiles.reviewer.limits.calls`."""
        self.cure = cure
        self.others = tuple(others)
        """Further mistakes found in the same pass."""

    @property
    def where(self) -> str:
        """`file:line:column`, as far as known; editors turn it into a link."""
        return ":".join(str(p) for p in (self.file, self.line, self.column) if p is not None)

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}. {self.cure}" if self.cure else text

    def all(self) -> tuple[ConfigError, ...]:
        """This mistake and the others found with it, in file order."""
        return (self, *self.others)


class SpecError(ConfigError):
    """A tool's description cannot be used."""


class SchemaError(SpecError):
    """A JSON Schema is broken, or larger or deeper than the budget admits."""


class NameTaken(ConfigError):
    """The name, or one that looks like it, is in use; the message names both owners."""


class CallError(ToolcribError):
    """A call did not end well; raised by `ToolResult.unwrap()` only."""

    def __init__(self, result: ToolResult) -> None:
        failure = result.error
        super().__init__(f"{result.reason}: {failure.message}" if failure else str(result.reason))
        self.result = result

    @property
    def reason(self) -> str | None:
        """The stable code of the ending."""
        return self.result.reason


class CallDenied(CallError):
    """The call was refused before or instead of running."""


class Denial(ToolcribError):
    """Raise inside a tool or a policy to refuse the call; `ctx.deny(…)` does it for you."""

    def __init__(self, reason: str, message: str | None = None, **details: Any) -> None:
        super().__init__(message or reason)
        self.reason = reason
        self.message = message
        self.details = details


class ToolFailure(ToolcribError):
    """Raise inside a tool to report a failure whose words the model may read."""

    def __init__(
        self,
        message: str,
        *,
        reason: str = "tool_error",
        retryable: bool = False,
        retry_after: float | None = None,
        details: dict[str, Any] | None = None,
        still_running: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.still_running = still_running
        """Whether what was begun may still have an effect; it is not tried again then."""
        self.retryable = retryable
        self.retry_after = retry_after
        self.details = details or {}


class JsonError(ToolcribError):
    """Text that is not acceptable JSON: malformed, duplicate keys, NaN, too deep or too large."""


class StoreError(ToolcribError):
    """The store cannot be opened, read or written."""


class HostStopped(ToolcribError):
    """The host was stopped. Make a new one."""


class NotFound(ToolcribError):
    """An approval, grant, call or session that does not exist."""
