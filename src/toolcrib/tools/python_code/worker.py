"""One interpreter process of Monty, from its start to its certain end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

import pydantic_monty as monty

from toolcrib.core.units import duration, size
from toolcrib.tools.python_code.policy import PythonCodePolicy

T = TypeVar("T")

_GRACE = 0.5
_DEEPEST = 500


class Worker:
    """Enter it for a session. When it has been left, its process is gone: the library's pool ends
    processes too, but in the background."""

    def __init__(self, policy: PythonCodePolicy) -> None:
        seconds = duration(policy.timeout)
        self._pool = monty.AsyncMonty(
            min_processes=0,  # else a process that ends is replaced, also while the pool closes
            max_processes=1,
            request_timeout=seconds + 2 * _GRACE,
            feed_duration_limit_grace=_GRACE,
        )
        self._limits = monty.ResourceLimits(
            max_feed_duration_secs=seconds,
            max_memory=size(policy.memory),
            max_recursion_depth=_DEEPEST,
            max_suspensions=10 * policy.max_calls + 1_000,
        )
        self._stack = contextlib.AsyncExitStack()
        self._process: int | None = None

    async def __aenter__(self) -> monty.AsyncMontySession:
        try:
            # A process that is just being started cannot be named yet: its start is not cut short.
            return await _whole(self._start())
        except asyncio.CancelledError:
            await self.__aexit__()
            raise

    async def _start(self) -> monty.AsyncMontySession:
        try:
            await self._stack.enter_async_context(self._pool)
            # Sleeping would be a way to hold a process without using any of its time.
            session = await self._stack.enter_async_context(
                self._pool.checkout(limits=self._limits, os_policy={"sleep": "zero"})
            )
        except BaseException:
            await self._stack.aclose()
            raise
        if session.worker_pid is not None:
            self._process = os.pidfd_open(session.worker_pid)
        return session

    async def __aexit__(self, *exc: object) -> None:
        await _whole(self._end())

    async def _end(self) -> None:
        await self._stack.aclose()
        process, self._process = self._process, None
        if process is None:
            return
        try:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, signal.SIGKILL)
            for _ in range(2_000):
                if _ended(process):
                    return
                await asyncio.sleep(0.001)
        finally:
            os.close(process)


async def _whole(work: Coroutine[Any, Any, T]) -> T:
    """Wait for all of `work`, also when cancelled meanwhile; that is told at its end."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    value = task.result()
    if cancelled:
        raise asyncio.CancelledError
    return value


def _ended(process: int) -> bool:
    """Whether it has ended and the pool has taken note of that."""
    options: Any = os.WEXITED | os.WNOHANG | os.WNOWAIT
    try:
        os.waitid(os.P_PIDFD, process, options)
    except ChildProcessError:
        return True
    return False
