"""Calls that wait for their client to come back: few, not for long, each found by a ticket."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from toolcrib.core.canonical import digest
from toolcrib.core.link import InputRefused
from toolcrib.transports.mcp.asked import Asked, Endpoint
from toolcrib.transports.mcp.faults import McpFault, invalid
from toolcrib.transports.mcp.seal import Claims, Seal, Unsealed

LONGEST = 600.0
"""Seconds that a call waits for its client to come back."""
MOST = 10_000
"""Calls that wait in all."""
_ROUND = frozenset(("_meta", "inputResponses", "requestState"))
"""Params that change from round to round."""

Call = TypeVar("Call")


class _Parked(Generic[Call]):
    __slots__ = ("call", "principal", "timer")

    def __init__(self, call: Call, principal: str, timer: asyncio.TimerHandle) -> None:
        self.call = call
        self.principal = principal
        self.timer = timer


class Parking(Generic[Call]):
    """Keeps calls under tickets, which leave sealed. Belongs to one loop."""

    def __init__(self, late: Callable[[Call], None], *, seconds: float = LONGEST) -> None:
        """`late` is told of a call whose client did not come back in time."""
        self.seconds = seconds
        self._late = late
        self._seal = Seal()
        self._places: dict[str, _Parked[Call]] = {}
        self._of: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._places)

    def park(
        self,
        call: Call,
        *,
        principal: str,
        endpoint: Endpoint,
        asked: Asked,
        tool: str,
        most: int,
    ) -> str:
        """Keep a call; gives the text that its client has to bring back. Raises `InputRefused`
        when there is no room."""
        if self._of[principal] >= most or len(self._places) >= MOST:
            raise InputRefused(f"{self._of[principal]} calls of {principal} wait for input already")
        ticket = secrets.token_urlsafe(16)
        sealed = self._seal.close(
            Claims(
                principal=principal,
                profile=endpoint.profile,
                session=endpoint.session,
                method=asked.method,
                tool=tool,
                request=request_digest(asked.params),
                ticket=ticket,
                expires=time.time() + self.seconds,
            )
        )
        timer = asyncio.get_running_loop().call_later(self.seconds, self._expire, ticket)
        self._places[ticket] = _Parked(call, principal, timer)
        self._of[principal] += 1
        return sealed

    def redeem(
        self, sealed: Any, *, principal: str, endpoint: Endpoint, asked: Asked, tool: str
    ) -> Call:
        """The call that a text stands for, once. Raises `McpFault`, with the same words whatever
        is wrong."""
        try:
            claims = self._seal.open(sealed if isinstance(sealed, str) else "")
        except (Unsealed, InputRefused):
            raise _refused() from None
        fits = (
            claims.principal == principal
            and claims.profile == endpoint.profile
            and claims.session == endpoint.session
            and claims.method == asked.method
            and claims.tool == tool
            and claims.request == request_digest(asked.params)
            and time.time() < claims.expires
        )
        if not fits:
            raise _refused()
        parked = self._leave(claims.ticket)
        if parked is None:
            raise _refused()
        return parked.call

    def clear(self) -> list[Call]:
        """Let go of all of them, and say which they were."""
        return [parked.call for parked in map(self._leave, list(self._places)) if parked]

    def _leave(self, ticket: str) -> _Parked[Call] | None:
        parked = self._places.pop(ticket, None)
        if parked is None:
            return None
        parked.timer.cancel()
        self._of[parked.principal] -= 1
        if not self._of[parked.principal]:
            del self._of[parked.principal]
        return parked

    def _expire(self, ticket: str) -> None:
        parked = self._leave(ticket)
        if parked is not None:
            self._late(parked.call)


def request_digest(params: Mapping[str, Any]) -> str:
    """A hash over what a request asks, the same for the request and all its retries."""
    return digest({key: value for key, value in params.items() if key not in _ROUND})


def _refused() -> McpFault:
    return invalid("requestState is not valid for this request. Begin again without it")
