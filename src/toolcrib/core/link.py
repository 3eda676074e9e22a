"""The line from a running call back to whoever made it, and the way on to another server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Literal, Protocol

from toolcrib.errors import ToolcribError

Era = Literal["handshake", "modern"]
"""How a side speaks MCP. handshake: it opens with `initialize`, and servers send requests ·
modern: every request stands alone, and servers answer that they need input."""


class InputRefused(ToolcribError):
    """Whoever made the call cannot be asked, or went away."""


class UpstreamError(ToolcribError):
    """What another server answered instead of a result: a JSON-RPC error, as it came."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class CallerLink(Protocol):
    """What a door can do for a call while it runs, and what its request said about the caller.

    None of it is believed: it decides nothing about who may do what.
    """

    @property
    def era(self) -> Era: ...
    @property
    def version(self) -> str:
        """The revision that the caller speaks."""
        ...

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the caller says it can do: `elicitation`, `sampling`, `roots`, `extensions`, …"""
        ...

    @property
    def client(self) -> Mapping[str, Any] | None:
        """The caller's program, by its own word."""
        ...

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's `_meta` without what belongs to one hop: protocol keys, progress token."""
        ...

    @property
    def wants_progress(self) -> bool: ...
    @property
    def log_level(self) -> str | None:
        """From which level on the caller wants to read log messages of this request."""
        ...

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Put requests (`{key: {"method": "elicitation/create", "params": {…}}}`) to the caller,
        and give its results by the same keys; a key that it left out is left out. Time spent
        waiting here is not the tool's. Raises `InputRefused`."""
        ...

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell the caller something about this call: `notifications/progress` (without a token,
        the door adds its own) or `notifications/message`. Never waits and never raises."""
        ...


LINK: ContextVar[CallerLink | None] = ContextVar("toolcrib_link", default=None)
"""The line of the call that runs in this context; None where the door has none."""

Told = Callable[[str, Mapping[str, Any]], None]
"""Called with the method and the params of a notification."""


class Relay(Protocol):
    """What a connected MCP server offers besides its tools. A provider that has one says so with
    its attribute `relay`."""

    @property
    def name(self) -> str:
        """The provider's name."""
        ...

    @property
    def prefix(self) -> str:
        """What its tools' and prompts' names begin with here; may be empty."""
        ...

    @property
    def era(self) -> Era: ...
    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The server's capabilities, as it told them."""
        ...

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request on behalf of the call or request that runs in this context, and give its
        result as it came; a server that needs input has its questions put to `LINK`. Raises
        `UpstreamError`, `InputRefused`, or `ToolFailure` when the server cannot be reached."""
        ...

    def watch(self, told: Told) -> Callable[[], None]:
        """Be told of what the server says outside of any request (`…/list_changed`,
        `notifications/resources/updated`, `notifications/message`), until what this gives is
        called."""
        ...
