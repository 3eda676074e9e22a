"""What the pipeline needs from the rest of the host; joined in `host.parts`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from toolcrib.core.approval import ApprovalRequest, Grant
from toolcrib.core.events import Record
from toolcrib.core.ledger import LedgerStep
from toolcrib.errors import StoreError
from toolcrib.reasons import Status


class Listeners(Protocol):
    """Who is told of events as they happen."""

    active: bool
    """Whether somebody listens, so that events have to be made."""


class TrailWriter(Protocol):
    """Where records go."""

    run: str
    """The name of this writer's run."""
    broken: StoreError | None

    @property
    def bus(self) -> Listeners: ...
    def append(self, record: Record) -> int: ...
    def append_and_wait(
        self, record: Record, step: LedgerStep | None = None
    ) -> asyncio.Future[None] | None: ...
    def fact(self, type: str, call_id: str | None, data: dict[str, Any]) -> None: ...
    def retry(self) -> None: ...


class Hider(Protocol):
    """Hides secrets."""

    has_secrets: bool
    """Whether there is something to look for in texts."""
    has_numbers: bool
    """Whether a whole number could be a secret; no other number can."""

    def value(self, obj: Any, *, clear: bytes | None = None) -> Any: ...
    def clear(self, data: bytes) -> bool: ...
    def secrets_in(self, obj: Any) -> Any: ...
    def text(self, text: str) -> str: ...
    def clean_keys(self, names: Any) -> bool: ...


class Counter(Protocol):
    """Counts the endings of one tool's calls."""

    ok: int
    seconds: float
    buckets: list[int]
    """How many calls took how long; the first is for up to half a millisecond."""

    def ended(self, status: Status, reason: str | None, seconds: float) -> None: ...


class Asker(Protocol):
    """Where people are asked."""

    async def ask(
        self,
        request: ApprovalRequest,
        *,
        max_pending: int = 20,
        noticed: Callable[[ApprovalRequest], None] | None = None,
    ) -> ApprovalRequest: ...
    async def redeem(self, request: ApprovalRequest, call_id: str) -> bool: ...
    async def find_grant(
        self,
        *,
        tool: str,
        digest: str,
        principal: str,
        session: str | None,
        revision: str,
        call_id: str | None = None,
    ) -> Grant | None: ...
