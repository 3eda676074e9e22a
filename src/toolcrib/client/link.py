"""What a client needs of a door, whichever it is."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from toolcrib.client.watching import Watch
from toolcrib.core.events import Event
from toolcrib.core.principal import Principal
from toolcrib.core.result import ToolResult
from toolcrib.errors import JsonError
from toolcrib.transports.caller import Caller
from toolcrib.transports.calls import keyed_id
from toolcrib.transports.wire import METHODS

READING = frozenset(
    name for name, row in METHODS.items() if row.http is not None and row.http[0] == "GET"
) | {"explain"}
"""What may be asked again when the answer was lost: nothing changes by it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """One call, as the caller wants it made."""

    name: str
    arguments: Mapping[str, Any] | None = None
    session: str | None = None
    profile: str | None = None
    timeout: float | None = None
    patience: float | None = None
    """Seconds until the caller gives up, a person's time included; None waits."""
    watch: Watch | None = None
    """Who is told what happens meanwhile."""

    def params(self) -> dict[str, Any]:
        """What is sent: the members that say something. Raises `JsonError`."""
        given: Any = self.arguments
        if given is not None and not isinstance(given, Mapping):
            raise JsonError(f"must be an object, not {type(given).__name__}")
        members: dict[str, Any] = {
            "name": self.name,
            "arguments": None if self.arguments is None else dict(self.arguments),
            "session": self.session,
            "profile": self.profile,
            "timeout": self.timeout,
        }
        return {key: value for key, value in members.items() if value is not None}


class Link(Protocol):
    """A way to a host. Everything may raise `ClientError`."""

    where: str
    """The address, as messages name it."""
    principal: str | None
    """Who the caller is to the host, once that is known."""
    durable: bool
    """Whether the host remembers over a restart which calls it ran."""

    async def open(self) -> None:
        """Connect, once; one attempt."""
        ...

    async def close(self) -> None:
        """Let go of everything. Calls that go on are cancelled."""
        ...

    async def ask(self, method: str, params: Mapping[str, Any]) -> bytes | msgspec.Raw:
        """The answer to a method, as JSON text. Raises `Refused` for a fault."""
        ...

    async def place(self, call: Placed) -> ToolResult:
        """Make a call and wait for its ending."""
        ...

    def follow(self, types: Sequence[str] | None, after: str | None) -> AsyncIterator[Event]:
        """Events as they happen, also over broken connections."""
        ...

    async def offer(self, thing: Any, *, replace: bool, session: str | None) -> None:
        """Offer a tool that runs here, to the calls of this connection or of a session."""
        ...

    async def withdraw(self, name: str, *, session: str | None) -> bool:
        """Offer it no longer."""
        ...

    def session_ended(self, session: str) -> None:
        """A session has ended, and what was offered in it is not any more."""
        ...


def pauses(first: float = 0.1, most: float = 5.0) -> Iterator[float]:
    """Seconds to wait before each next attempt: growing, and never the same for two clients."""
    pause = first
    while True:
        yield pause * random.uniform(0.5, 1.0)  # noqa: S311 - spreads clients, guards nothing
        pause = min(pause * 2, most)


def call_id_of(principal: str, key: str) -> str:
    """The id that the host gives the one call of a principal under a key."""
    return keyed_id(Caller(Principal(principal), door=""), key)
