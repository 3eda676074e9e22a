"""One started command: waiting for its end, reaping it, and ending all that it started."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from toolcrib.sandbox.cgroup import Group

_log = logging.getLogger("toolcrib.sandbox")
_PATIENCE = 10.0
"""Seconds a killed process gets: only one that hangs in the kernel needs more."""


class Tree(Protocol):
    """Everything one command started, as far as its backend can reach it."""

    exact: bool
    """Whether one look finds all that is left; what goes by marks has to look twice."""

    async def kill(self, attempt: int) -> None:
        """Kill all of it; called again, with the next number, until the first process ended."""
        ...

    async def remains(self) -> bool:
        """After the first process ended: kill what is left; whether anything was."""
        ...

    async def close(self) -> None:
        """Let go of what was held for it."""
        ...

    def began(self) -> bool:
        """After its end: whether the command itself was started."""
        ...


class Process:
    """A started command with its pipes. Whoever has one calls `end` in the end, always."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        tree: Tree,
        group: Group | None = None,
        *,
        signal_of: Callable[[int], int] = lambda code: code,
    ) -> None:
        self._popen = popen
        self._tree = tree
        self._group = group
        self._signal_of = signal_of
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pidfd = os.pidfd_open(popen.pid)
        asyncio.get_running_loop().add_reader(self._pidfd, self._on_end)
        self._ending: asyncio.Future[None] | None = None
        self.exit_code: int | None = None
        self.cpu_seconds = 0.0
        self.out_of_memory = False

    @property
    def pid(self) -> int:
        """The first process, as the host numbers it."""
        return self._popen.pid

    @property
    def popen(self) -> subprocess.Popen[bytes]:
        """The process and its pipes."""
        return self._popen

    @property
    def began(self) -> bool:
        """After its end: whether the command itself was started."""
        return self._tree.began()

    def when_ended(self, tell: Callable[[], None]) -> None:
        """Have `tell` called when the first process has ended."""
        self._ended.add_done_callback(lambda _: tell())

    async def ended(self) -> None:
        """Wait until the first process has ended; it is not reaped yet."""
        await asyncio.shield(self._ended)

    async def end(self) -> None:
        """Kill whatever still runs, reap it and clean up. Cancelling does not cut it short."""
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())
        await to_the_end(self._ending)

    def _on_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        if not self._ended.done():
            self._ended.set_result(None)

    async def _end(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PATIENCE
        attempt = 0
        try:
            while not self._ended.done() and loop.time() < deadline:
                await self._tree.kill(attempt)
                attempt += 1
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(0.01 * attempt, 0.1)):
                        await self.ended()
            await self._sweep(deadline, looks=2 if attempt or not self._tree.exact else 1)
            if loop.time() >= deadline:
                _log.error("processes of a command survive being killed; first: %s", self.pid)
        finally:
            self._reap(loop)
            await self._tree.close()
            if self._group is not None:
                self.out_of_memory = self._group.out_of_memory()
                await self._group.close()

    async def _sweep(self, deadline: float, looks: int) -> None:
        """Until nothing was found so often in a row: a process that becomes another program just
        now has no environment for a moment, and so no mark."""
        loop = asyncio.get_running_loop()
        clean = 0
        while clean < looks and loop.time() < deadline:
            clean = 0 if await self._tree.remains() else clean + 1
            if clean < looks:
                await asyncio.sleep(0.005 if clean else 0.002)

    def _reap(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        try:
            pid, status, usage = os.wait4(self._popen.pid, os.WNOHANG)
        except ChildProcessError:
            # Somebody else in this program waited for it, and knows how it ended.
            pid, status, usage = self._popen.pid, 255 << 8, None
        code = os.waitstatus_to_exitcode(status) if pid else -signal.SIGKILL
        self._popen.returncode = code
        self.exit_code = self._signal_of(code)
        if usage is not None:
            self.cpu_seconds = usage.ru_utime + usage.ru_stime


def start(
    argv: Sequence[str],
    *,
    cwd: str | None,
    env: Mapping[str, str],
    stdin: int,
    descriptors: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own. Python does not fork for it: that would be slow
    in a large program, and unsafe beside threads."""
    return subprocess.Popen(
        argv,
        cwd=cwd,
        env=env,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=descriptors,
        start_new_session=True,
        bufsize=0,
    )


def abandon(popen: subprocess.Popen[bytes]) -> None:
    """End a process that has not passed its gate."""
    with contextlib.suppress(ProcessLookupError):
        popen.kill()
    popen.communicate()


async def to_the_end(work: asyncio.Future[None]) -> None:
    """Wait for work that must not be left half done; being cancelled is passed on after it."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError as error:
            cancelled = error
    work.result()
    if cancelled is not None:
        raise cancelled
