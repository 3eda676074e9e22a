"""One stay at a provider, from entering to leaving."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from toolcrib.core.protocols import Provider

_log = logging.getLogger("toolcrib")
_abandoned: set[asyncio.Task[None]] = set()

_Work = Callable[[], Awaitable[Any]]


class Life:
    """Enters, asks and leaves a provider in one task, because some can be left only by the task
    that entered them. Whoever waits for it waits for a limited time, whatever the provider does."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        """What runs calls; entering may give another object than was made."""
        loop = asyncio.get_running_loop()
        self._wishes: asyncio.Queue[tuple[_Work, asyncio.Future[Any]] | None] = asyncio.Queue()
        self._busy = True
        """Whether the provider is at work now: entering, or at a wish."""
        self._entered: asyncio.Future[Any] = loop.create_future()
        self.task = loop.create_task(self._run(), name=f"provider {provider.name}")

    async def _run(self) -> None:
        async with self.provider as entered:
            self.provider = entered
            _settle(self._entered, None)
            while (wish := await self._next()) is not None:
                work, answer = wish
                try:
                    _settle(answer, await work())
                except Exception as error:
                    if not answer.done():
                        answer.set_exception(error)

    async def _next(self) -> tuple[_Work, asyncio.Future[Any]] | None:
        self._busy = False
        wish = await self._wishes.get()
        self._busy = wish is not None
        return wish

    async def enter(self, timeout: float) -> None:
        """Have it entered. Raises what entering raised, or TimeoutError."""
        await self._arrival(self._entered, timeout)

    async def ask(self, work: _Work, timeout: float) -> Any:
        """What `work` gives when it is run in the provider's task."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._wishes.put_nowait((work, answer))
        return await self._arrival(answer, timeout)

    async def _arrival(self, answer: asyncio.Future[Any], timeout: float) -> Any:
        try:
            await asyncio.wait({answer, self.task}, timeout=timeout, return_when="FIRST_COMPLETED")
            if answer.done():
                return answer.result()
            if self.task.done():
                raise self.error()
            raise TimeoutError
        finally:
            answer.cancel()

    def error(self) -> Exception:
        """Why its task ended by itself."""
        error = None if self.task.cancelled() else self.task.exception()
        if isinstance(error, Exception):
            return error
        return RuntimeError("the provider ended by itself")

    async def leave(self, timeout: float) -> None:
        """Leave it: in its own way, then by cancelling, then without its consent. One that hangs
        already is cancelled at once. Each step takes `timeout` seconds at most."""
        if self.task.done():
            self.error()  # looked at, so that the loop does not complain that nobody did
            return
        try:
            if not self._busy:
                self._wishes.put_nowait(None)
                await asyncio.wait({self.task}, timeout=timeout)
        finally:
            await self._end(timeout)

    async def _end(self, timeout: float) -> None:
        name = self.provider.name
        if not self.task.done():
            self.task.cancel()
            await asyncio.wait({self.task}, timeout=timeout)
        if not self.task.done():
            _log.warning("provider %s does not let go and was abandoned", name)
            self._wishes.put_nowait(None)  # should it ever come round, it leaves
            _abandoned.add(self.task)  # a task that nobody holds may vanish while it runs
            self.task.add_done_callback(_forget)
        elif not self.task.cancelled() and (error := self.task.exception()) is not None:
            # Only its type: the words of strangers may hold secrets.
            _log.warning("leaving provider %s failed: %s", name, type(error).__name__)


def _settle(answer: asyncio.Future[Any], value: Any) -> None:
    if not answer.done():
        answer.set_result(value)


def _forget(task: asyncio.Task[None]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()
