"""The calls of one provider: kept away while it is down, counted, and never left hanging."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from asyncio import current_task, get_running_loop
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from toolcrib.core.context import ToolContext
from toolcrib.core.protocols import Provider
from toolcrib.core.result import ToolResult
from toolcrib.errors import Denial, ToolFailure
from toolcrib.host.breaker import Breaker

_log = logging.getLogger("toolcrib")
FAILURES = frozenset({"upstream_error", "timeout", "outcome_unknown"})
"""The endings that speak against the provider; any other one shows that it answers."""


class _Running:
    """One call that runs at the provider."""

    __slots__ = ("cut", "task")

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task = task
        self.cut = False
        """Whether the provider was left under it."""


class Calls:
    """Runs calls where the provider lives. Entries hold `execute`, which outlives restarts."""

    def __init__(self, name: str, breaker: Breaker, doubt: Callable[[], None]) -> None:
        self._name = name
        self._breaker = breaker
        self._doubt = doubt
        """Told when a call speaks against the provider."""
        self.provider: Provider | None = None
        """Where calls go; None while they are kept away."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = f"the provider {name} is not started"
        self._running: dict[_Running, None] = {}
        self._idle = asyncio.Event()
        self._drains = False
        """Whether somebody may wait for the last of them to end."""

    @property
    def running(self) -> int:
        """How many calls run now."""
        return len(self._running)

    def open(self, provider: Provider) -> None:
        """Let calls through to this provider, in the loop that runs now."""
        self._loop = asyncio.get_running_loop()
        self.provider = provider
        self._breaker.reset()

    def close(self, message: str) -> None:
        """Keep calls away; they are told the message."""
        self.provider, self._closed = None, message

    async def drain(self, timeout: float) -> None:
        """Wait until the running calls have ended, for so long."""
        if self._running:
            self._drains = True
            self._idle.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._idle.wait()

    def cut(self) -> None:
        """End what still runs at a provider that was left."""
        seen: set[asyncio.Task[Any]] = set()
        for call in reversed(list(self._running)):
            if call.task not in seen:  # a call that calls another: the inner one is told
                seen.add(call.task)
                call.cut = True
                call.task.cancel()

    def execute(self, ctx: ToolContext) -> Coroutine[Any, Any, Any]:
        """Run a call at the provider, from whatever loop it comes."""
        home = self._loop
        if home is None or home is get_running_loop():
            return self._execute(ctx)
        return self._elsewhere(home, ctx)

    async def _execute(self, ctx: ToolContext) -> Any:
        provider = self.provider
        if provider is None:
            raise _unavailable(self._closed)
        breaker = self._breaker
        if breaker.open and (wait := breaker.wait()) > 0:
            text = f"the provider {self._name} failed several times in a row and is given a pause"
            raise _unavailable(text, wait)
        task: asyncio.Task[Any] | None = getattr(ctx, "task", None) or current_task()
        if task is None:
            raise RuntimeError("a call runs in a task")
        call = _Running(task)
        self._running[call] = None
        ticket = breaker.begin()
        failed: bool | None = None
        try:
            value = await provider.execute(ctx)
            failed = (
                isinstance(value, ToolResult)
                and value.error is not None
                and value.error.reason in FAILURES
            )
            return value
        except ToolFailure as error:
            failed = error.reason in FAILURES
            raise
        except Denial:
            failed = False
            raise
        except asyncio.CancelledError:
            if call.cut and task.uncancel() == 0:
                raise self._gone() from None
            if not task.cancelling():  # nobody cancelled the call: the provider let go of it
                failed = True
                raise self._gone() from None
            failed = True if ctx.remaining == 0.0 else None
            raise
        except (ConnectionError, TimeoutError, EOFError) as error:
            failed = True
            kind = type(error).__name__
            _log.warning("%s (call %s) at provider %s: %s", ctx.tool, ctx.call_id, self._name, kind)
            text = f"the connection to the provider {self._name} failed"
            raise ToolFailure(text, reason="upstream_error") from error
        except Exception:
            if provider is not self.provider:
                raise self._gone() from None
            raise
        finally:
            del self._running[call]
            if not self._running and self._drains:
                self._idle.set()
            breaker.end(ticket, failed=failed)
            if failed:
                self._doubt()

    def _gone(self) -> ToolFailure:
        text = f"the provider {self._name} went away while the call ran; it may have had an effect"
        return ToolFailure(text, reason="upstream_error")

    async def _elsewhere(self, home: asyncio.AbstractEventLoop, ctx: ToolContext) -> Any:
        """Run the call in the provider's loop, on behalf of a task of another one."""
        ending: Future[Any] = Future()
        tasks: list[asyncio.Task[Any]] = []

        def begin() -> None:
            task = home.create_task(self._execute(ctx))
            tasks.append(task)
            task.add_done_callback(lambda _: _carry(task, ending))

        def stop() -> None:
            for task in tasks:
                task.cancel()

        try:
            home.call_soon_threadsafe(begin)
        except RuntimeError:  # that loop is closed, and the provider gone with it
            raise _unavailable(f"the provider {self._name} has stopped") from None
        outcome = asyncio.wrap_future(ending)
        try:
            return await asyncio.shield(outcome)
        except asyncio.CancelledError:
            if outcome.cancelled():
                raise self._gone() from None
            home.call_soon_threadsafe(stop)
            await asyncio.wait({outcome})  # the work has stopped when the call ends
            if not outcome.cancelled():
                outcome.exception()
            raise


def _carry(task: asyncio.Task[Any], ending: Future[Any]) -> None:
    if task.cancelled():
        ending.cancel()
    elif (error := task.exception()) is not None:
        ending.set_exception(error)
    else:
        ending.set_result(task.result())


def _unavailable(message: str, retry_after: float | None = None) -> ToolFailure:
    return ToolFailure(message, reason="tool_unavailable", retryable=True, retry_after=retry_after)
