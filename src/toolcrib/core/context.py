"""Everything known about one call in flight."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import msgspec

from toolcrib.core.principal import Principal
from toolcrib.core.result import Failure, ToolResult
from toolcrib.errors import Denial, ToolcribError

if TYPE_CHECKING:
    from toolcrib.core.policy import ToolPolicy
    from toolcrib.core.profile import Profile
    from toolcrib.core.spec import ToolSpec

_EMPTY: Mapping[str, Any] = MappingProxyType({})
LOCAL = Principal("local")
"""Who calls when nobody is named: the person or program that owns the process."""


class SessionInfo(Protocol):
    """What a context reads from its session."""

    @property
    def id(self) -> str: ...
    @property
    def cwd(self) -> str: ...
    @property
    def environment(self) -> Mapping[str, str]: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...


class _Stay(msgspec.Struct, frozen=True):
    """The session of a context that was built by hand."""

    id: str
    cwd: str
    environment: Mapping[str, str]
    metadata: Mapping[str, Any]


class CallRuntime(Protocol):
    """What a running call can reach in its host."""

    def announce(self, ctx: ToolContext, type: str, data: dict[str, Any]) -> None: ...
    async def nested(
        self,
        ctx: ToolContext,
        name: str,
        arguments: Mapping[str, Any] | None,
        timeout: float | None,
    ) -> ToolResult: ...


class ToolContext:
    """One call in flight. Gates, policies, extensions and functions receive the same object.

    A function gets it by annotating a parameter with `ToolContext`; the parameter does not
    appear in the schema. Built by hand, `ToolContext(session_id="s1")` is enough for tests.
    """

    call_id: str
    tool: str
    arguments: dict[str, Any]
    """The validated arguments with defaults filled in. A gate must not change them."""
    encoded: bytes = b""
    """The arguments as JSON; empty in a context that was built by hand."""
    spec: ToolSpec | None
    principal: Principal
    session: SessionInfo | None
    profile: Profile | None
    policy: ToolPolicy | None
    deadline: float | None = None
    """When the call must be over, on the `time.monotonic()` clock."""
    attempt: int = 0
    """Which attempt this is, from 1; 0 while the call has not begun to run."""
    depth: int = 0
    """0 for a call from outside, 1 for a call made by a tool, and so on."""
    parent_id: str | None = None
    parent: ToolContext | None = None
    """The call that made this one."""
    door: str = "python"
    """Through which transport the call came; `python` for calls in process."""
    trace: str | None = None
    cancelled: bool = False
    """True once the call was cancelled or timed out; long work in threads should look."""
    still_running: bool = False
    """Set by an executor whose work goes on after a timeout or cancel."""
    typed: dict[str, Any]
    """The arguments as the types that the function is annotated with."""
    scratch: dict[str, Any] | None = None
    """A place for extensions to keep what belongs to this call; None until one needs it."""
    runtime: CallRuntime | None = None
    """What the call can reach in its host; None for a context that stands alone."""

    def __init__(
        self,
        session_id: str | None = None,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        tool: str = "",
        arguments: Mapping[str, Any] | None = None,
        principal: Principal | str | None = None,
        call_id: str = "",
        spec: ToolSpec | None = None,
        policy: ToolPolicy | None = None,
        profile: Profile | None = None,
    ) -> None:
        self.call_id = call_id
        self.tool = tool
        self.arguments = self.typed = dict(arguments or {})
        self.spec = spec
        if isinstance(principal, str):
            principal = Principal(principal)
        self.principal = principal or LOCAL
        self.session = _Stay(session_id or "", cwd or "", environment or {}, metadata or {})
        self.profile = profile
        self.policy = policy

    def __repr__(self) -> str:
        who = self.principal.name
        return f"ToolContext({self.tool!r}, call_id={self.call_id!r}, principal={who!r})"

    @property
    def session_id(self) -> str:
        """The session's id; empty when the call stands alone."""
        return "" if self.session is None else self.session.id

    @property
    def cwd(self) -> str:
        """The folder the session works in; without a session, the host's."""
        if self.session is not None:
            return self.session.cwd
        return getattr(self.runtime, "folder", None) or os.getcwd()  # noqa: PTH109

    @property
    def environment(self) -> Mapping[str, str]:
        """The session's variables; never the host process's own environment."""
        return _EMPTY if self.session is None else self.session.environment

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the session's opener wanted tools to know."""
        return _EMPTY if self.session is None else self.session.metadata

    @property
    def remaining(self) -> float | None:
        """Seconds until the deadline; None when there is none."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def ok(self, output: Any = None, **metadata: Any) -> ToolResult:
        """A good ending: `return ctx.ok(output)`."""
        return ToolResult(call_id=self.call_id, output=output, metadata=metadata)

    def error(
        self,
        message: str,
        reason: str = "tool_error",
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        **details: Any,
    ) -> ToolResult:
        """A bad ending in words the model may read: `return ctx.error("no such row")`."""
        return ToolResult(
            call_id=self.call_id,
            status="error",
            error=Failure(
                reason=reason,
                message=message,
                details=details,
                retryable=retryable,
                retry_after=retry_after,
            ),
        )

    def deny(self, reason: str, message: str | None = None, **details: Any) -> NoReturn:
        """Refuse the call with a stable reason. Raises; nothing after it runs."""
        raise Denial(reason, message, **details)

    def progress(self, fraction: float | None = None, message: str | None = None) -> None:
        """Tell whoever follows the call how far it is: `ctx.progress(0.4, "half way")`."""
        self._announce("call.progress", {"fraction": fraction, "message": message})

    def log(self, message: str, **fields: Any) -> None:
        """Write a line to the host's log, under this call's id."""
        self._announce("tool.log", {"message": message, **fields})

    def emit(self, event: str, /, **data: Any) -> None:
        """Put a fact of the tool's own on the trail, as `tool.emitted`."""
        self._announce("tool.emitted", {"name": event, "data": data})

    def _announce(self, type: str, data: dict[str, Any]) -> None:
        if self.runtime is not None:
            self.runtime.announce(self, type, data)

    def waiting(self) -> AbstractContextManager[None]:
        """While in it, the time is a person's and not the tool's: no clock of the call runs."""
        return nullcontext()

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Put requests of the protocol, by keys of your choice, to the program that made the call,
        and give its results by the same keys: `{"k": {"method": "elicitation/create", "params":
        {"message": "Which branch?", "requestedSchema": {…}}}}`. Raises `InputRefused` where it
        cannot be asked."""
        from toolcrib.core.link import LINK, InputRefused

        link = LINK.get()
        if link is None:
            raise InputRefused("whoever made this call cannot be asked")
        with self.waiting():
            return await link.ask(requests)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
    ) -> ToolResult:
        """Call another tool with the same authority, never more, through the whole pipeline."""
        if self.runtime is None:
            raise ToolcribError("this context stands alone: it has no host to call tools with")
        return await self.runtime.nested(self, name, arguments, timeout)
