"""Where commands find what they show and do what they are told: the project here, or a host that
runs somewhere. Everything a command prints comes through this, so both look the same."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TextIO, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

    from toolcrib.approvals.rendering import PastCall
    from toolcrib.core.approval import ApprovalDecision, ApprovalRequest, Grant
    from toolcrib.core.decision import Explanation
    from toolcrib.core.events import Event
    from toolcrib.core.result import ToolResult
    from toolcrib.core.spec import ToolSpec
    from toolcrib.host.history import CallSummary, Wanted
    from toolcrib.host.reports.audit import Verified
    from toolcrib.host.reports.describing import Listed
    from toolcrib.host.reports.fates import Fate
    from toolcrib.host.reports.findings import Finding
    from toolcrib.host.reports.overview import Overview
    from toolcrib.host.reports.settings import Checked
    from toolcrib.host.verify import Report

Read: TypeAlias = "Callable[[ToolSpec | None], dict[str, Any]]"
"""Reads the arguments of a tool that is known, or known to be unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One call as the command line was asked for it."""

    tool: str
    read: Read
    principal: str | None
    profile: str | None
    timeout: float | None
    wait: float | None
    """The longest to wait for a person."""


class Placed(NamedTuple):
    """A call that has ended."""

    result: ToolResult
    spec: ToolSpec | None
    remarks: Sequence[str] = ()
    """What the person should know besides."""


class Tools(NamedTuple):
    """The tools somebody may call, and what cannot be listed."""

    found: list[Listed]
    missing: list[str]
    """Of each provider whose tools nobody knows, why."""


class Explained(NamedTuple):
    """What would happen to a call."""

    said: Explanation
    grant: Grant | None
    """What lets it pass without a question."""


class Answered(NamedTuple):
    """What became of an answer to one request."""

    id: str
    error: str | None
    request: ApprovalRequest | None
    known: bool = True
    """Whether there is such a request."""


class Proved(NamedTuple):
    """What verification found in the rules."""

    report: Report
    invariants: str | None
    """The file with the invariants; None where there is none."""


class Requests(Protocol):
    """What waits for people, while one looks on."""

    async def pending(self) -> Sequence[ApprovalRequest]: ...
    async def get(self, id: str) -> ApprovalRequest: ...
    async def decide(self, id: str, decision: ApprovalDecision) -> ApprovalRequest:
        """Raises ValueError for an answer that does not count."""
        ...

    def problems(self, request: ApprovalRequest, arguments: dict[str, Any]) -> Sequence[str]: ...
    async def past(self, request: ApprovalRequest) -> Sequence[PastCall]: ...
    async def changed(self) -> None:
        """Ends when something may be different, or after a moment."""
        ...


class Source(Protocol):
    """Raises `Mistake` for what the user gave, `ToolcribError` for what went wrong."""

    # Tools and calls.

    def tools(self, *, profile: str | None, who: str | None) -> Tools: ...
    def describe(self, name: str) -> dict[str, Any]: ...
    def check(self) -> Sequence[Fate]: ...
    def call(self, asked: Asked) -> Placed: ...
    def explain(
        self, name: str, read: Read, *, profile: str | None, who: str | None
    ) -> Explained: ...
    def overview(self, *, profile: str | None, who: str | None) -> Overview: ...

    # People.

    def requests(self, *, every: bool) -> list[ApprovalRequest]: ...
    def request(self, id: str) -> ApprovalRequest: ...
    def covering(self, request: ApprovalRequest) -> Grant | None: ...
    def answer(self, ids: Sequence[str], answer: ApprovalDecision) -> list[Answered]: ...
    def watch(self) -> AbstractAsyncContextManager[Requests]: ...
    def grants(self, *, live: bool) -> list[Grant]: ...
    def revoke(self, ids: Sequence[str]) -> list[tuple[str, bool]]: ...

    # The trail; None where there is none yet, and `nothing_kept` says why.

    def nothing_kept(self) -> str: ...
    def calls(self, wanted: Wanted, limit: int) -> list[CallSummary] | None: ...
    def trail(self, id: str) -> list[Event]: ...
    def cancel(self, ids: Sequence[str]) -> list[tuple[str, bool]]:
        """Each whole id, and whether that call was going on and is stopped now."""
        ...

    def endings(self) -> AbstractAsyncContextManager[AsyncGenerator[Event]]:
        """Events of calls as they happen."""
        ...

    def events(self, wanted: Wanted, limit: int) -> list[Event] | None: ...
    def export(self, wanted: Wanted, stream: TextIO) -> int | None: ...
    def verified(self) -> Verified | None: ...

    # The host.

    def settings(self) -> str: ...
    def check_settings(self) -> Checked: ...
    def prove(self, file: Path | None) -> Proved: ...
    def findings(self) -> Sequence[Finding]: ...
    def providers(self) -> list[dict[str, Any]]: ...
    def review(self, provider: str) -> dict[str, Any]: ...
    def decide(
        self, provider: str, shown: Mapping[str, str | None], *, accept: bool
    ) -> dict[str, Any]:
        """Accept or reject tools as they were shown: by name, with their digests."""
        ...

    def plugins(self) -> list[dict[str, Any]]: ...
    def version(self) -> str: ...
