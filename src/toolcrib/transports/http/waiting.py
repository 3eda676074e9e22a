"""How long a request for a call is held, and what happens to the call when its client leaves."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.core.serving import HttpSettings
from toolcrib.transports.faults import Fault

if TYPE_CHECKING:
    from toolcrib.core.result import ToolResult
    from toolcrib.transports.calls import Calls
    from toolcrib.transports.models import CallState

_AGAIN = 0.05
"""Seconds after which a call that has not quite begun, or not quite ended, is looked at again."""


class Turn:
    """One call that a request waits for. Who answers the request first, its result or the clock,
    sets `answered`; the call goes on in the request's own task either way."""

    __slots__ = ("_calls", "answered", "call_id", "due", "kept")

    call_id: str
    answered: bool
    due: float
    kept: asyncio.Future[ToolResult] | None
    """There once the request was answered without the result; done when that is kept."""
    _calls: Calls

    async def tell(self, state: CallState) -> None:
        """Answer the request with the state of the call."""
        raise NotImplementedError

    def left(self) -> None:
        """The client went away before its answer: its call is stopped."""
        if not self.answered and not self._calls.cancel(self.call_id):
            asyncio.get_running_loop().call_later(_AGAIN, self.left)

    async def defer(self) -> None:
        """Answer with the state of the call: its result takes too long."""
        state = None
        while state is None:
            if self.answered:
                return
            state = await self._calls.state(self.call_id)
            if state is None:
                await asyncio.sleep(_AGAIN)
        if self.answered:
            return
        self.answered = True
        self.kept = asyncio.get_running_loop().create_future()
        self._calls.goes_on(self.call_id, self.kept)
        await self.tell(state)

    def end(self, principal: str, result: ToolResult) -> bool:
        """Whether the request still waits for the result; otherwise that is kept."""
        if self.kept is None:
            self.answered = True
            return True
        self._calls.keep(self.call_id, principal, result)
        if not self.kept.done():
            self.kept.set_result(result)
        return False


class Clock:
    """Defers turns whose time is up. Most wait equally long, so they are due in the order in which
    they came, and one timer is enough for all of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._turns: dict[Turn, None] = {}
        self._armed = False
        self._deferring: set[asyncio.Future[None]] = set()

    def add(self, turn: Turn, wait: float) -> None:
        """Defer the turn after the usual time, unless it is taken away before."""
        turn.due = self._loop.time() + wait
        self._turns[turn] = None
        if not self._armed:
            self._armed = True
            self._loop.call_later(wait, self._sweep)

    def add_own(self, turn: Turn, wait: float) -> asyncio.TimerHandle:
        """Defer the turn after a time of its own."""
        return self._loop.call_later(wait, self._defer, turn)

    def remove(self, turn: Turn) -> None:
        """It has been answered."""
        self._turns.pop(turn, None)

    def _sweep(self) -> None:
        now = self._loop.time()
        while self._turns:
            turn = next(iter(self._turns))
            if turn.due > now:
                self._loop.call_later(turn.due - now, self._sweep)
                return
            del self._turns[turn]
            self._defer(turn)
        self._armed = False

    def _defer(self, turn: Turn) -> None:
        task = asyncio.ensure_future(turn.defer())
        self._deferring.add(task)
        task.add_done_callback(self._deferring.discard)


def wanted_wait(
    query: Mapping[str, str], head: Mapping[bytes, bytes], settings: HttpSettings
) -> tuple[float, bool] | None:
    """How long the client wants to wait, and whether that is a wish from its `Prefer` header;
    None when it says nothing. Raises `Fault`."""
    given = query.get("wait")
    if given is not None:
        return checked_wait(_number(given), settings), False
    for wish in head.get(b"prefer", b"").split(b","):
        name, _, value = wish.partition(b";")[0].partition(b"=")
        if name.strip().lower() == b"wait":
            seconds = _number(value.strip().strip(b'"').decode("latin-1"))
            if seconds is not None and seconds >= 0:
                return min(seconds, settings.max_wait), True
    return None


def checked_wait(seconds: Any, settings: HttpSettings) -> float:
    """A `wait` within its limits. Raises `Fault`."""
    if seconds is None or not 0 <= seconds <= settings.max_wait:
        raise Fault("invalid_request", f"wait is a number of seconds, 0 to {settings.max_wait:g}")
    return seconds


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
