"""Something found out once for the whole process, however many ask at the same moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_shared: dict[object, Once[Any]] = {}
_RETRY_AFTER = 30.0
"""Seconds for which a bad answer is kept; a good one is kept for good."""


class Once(Generic[T]):
    """Asks the first time and remembers. A bad answer is asked for again after a while."""

    def __init__(self, ask: Callable[[], Awaitable[T]], good: Callable[[T], bool]) -> None:
        self._ask = ask
        self._good = good
        self._asking: asyncio.Future[None] | None = None
        self._answer: tuple[T, float] | None = None

    async def get(self) -> T:
        """The answer."""
        while True:
            if self._answer is not None:
                answer, until = self._answer
                if time.monotonic() < until:
                    return answer
            loop = asyncio.get_running_loop()
            if self._asking is None or self._asking.get_loop() is not loop:
                return await self._find(loop)
            await asyncio.shield(self._asking)

    async def _find(self, loop: asyncio.AbstractEventLoop) -> T:
        asking = self._asking = loop.create_future()
        try:
            answer = await self._ask()
        finally:
            self._asking = None
            asking.set_result(None)
        kept = float("inf") if self._good(answer) else time.monotonic() + _RETRY_AFTER
        self._answer = (answer, kept)
        return answer


def shared(key: object, ask: Callable[[], Awaitable[T]], good: Callable[[T], bool]) -> Once[T]:
    """The one for this key, in this process."""
    return _shared.setdefault(key, Once(ask, good))


def forget() -> None:
    """Forget every shared answer."""
    _shared.clear()
