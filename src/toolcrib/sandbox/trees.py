"""Everything a command started, found and killed without a namespace or with one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import select
import signal
from pathlib import Path
from typing import Protocol

from toolcrib.sandbox.cgroup import Group

_log = logging.getLogger("toolcrib.sandbox")
MARK = "TOOLCRIB_COMMAND"
"""The variable by which processes of a command are found again."""
_LATEST_WAIT = 10.0
_FIRST_PROCESS = re.compile(rb'"child-pid": (\d+)[^\d]').search


class MarkedTree:
    """A process group, plus what left it: found by its control group, or by a mark in the
    environment. A process that leaves the group *and* clears its environment is not found by a
    mark."""

    def __init__(self, pid: int, mark: str, group: Group | None) -> None:
        self._pid = pid
        self._mark = f"{MARK}={mark}".encode()
        self._group = group
        self.exact = group is not None

    async def kill(self, attempt: int) -> None:
        """Kill the group and whatever else is found."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)
        await self.remains()

    async def remains(self) -> bool:
        """Kill what is found; whether anything was."""
        found = self._members() if self._group is not None else self._marked()
        # The first process is waited for elsewhere; until then nobody else gets its number.
        found.discard(self._pid)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        return bool(found)

    async def close(self) -> None:
        """Nothing is held."""

    def began(self) -> bool:
        """The shell at the gate cannot tell; that the program exists was looked at before."""
        return True

    def _members(self) -> set[int]:
        return self._group.members() if self._group is not None else set()

    def _marked(self) -> set[int]:
        latest = int(Path("/proc/loadavg").read_text().split()[-1])
        wrapped = latest < self._pid
        found: set[int] = set()
        for name in os.listdir("/proc"):  # noqa: PTH208 - quicker, and this is many
            # Numbers are given in rising order, so what the command started comes after it.
            if name.isdigit() and (wrapped or int(name) > self._pid):
                with contextlib.suppress(OSError):
                    if self._mark in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                        found.add(int(name))
        return found


class Gate(Protocol):
    """Keeps a command from starting until its first process is limited."""

    def limit(self, pid: int) -> None:
        """Limit that process and let the command start."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class NamespaceTree:
    """A process namespace: when its first process is dead, the kernel has killed all others.

    `status` is a pipe on which bubblewrap tells the number of that process, and later that the
    command ended. The `gate`, if there is one, keeps the command from starting until then.
    """

    exact = True

    def __init__(self, outer: int, status: int, gate: Gate | None = None) -> None:
        self._outer = outer
        self._status = status
        self._gate = gate
        self._told = b""
        self._met = False
        self._inner: int | None = None
        os.set_blocking(status, False)
        asyncio.get_running_loop().add_reader(status, self._learn)

    async def kill(self, attempt: int) -> None:
        """Kill the first process of the namespace; the one outside ends by itself after it."""
        self._learn()
        if self._inner is not None:
            _signal(self._inner)
        elif attempt > 20:
            self._kill_outer()

    async def remains(self) -> bool:
        """Wait until the namespace is empty."""
        self._learn()
        if self._inner is not None and not _is_dead(self._inner):
            _signal(self._inner)
            await _dead(self._inner)
        return False

    async def close(self) -> None:
        """Close the descriptors."""
        self._learn()
        asyncio.get_running_loop().remove_reader(self._status)
        os.close(self._status)
        if self._gate is not None:
            self._gate.close()
        if self._inner is not None:
            os.close(self._inner)

    def began(self) -> bool:
        """Whether bubblewrap came as far as starting the command."""
        return b'"exit-code"' in self._told

    def _learn(self) -> None:
        try:
            told = os.read(self._status, 4096)
        except BlockingIOError:
            return
        if not told:
            asyncio.get_running_loop().remove_reader(self._status)
            return
        self._told += told
        if not self._met:
            found = _FIRST_PROCESS(self._told)
            if found is not None:
                self._met = True
                self._meet(int(found[1]))

    def _meet(self, pid: int) -> None:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        # Looked at after the descriptor was opened: it is this process, or one that took the
        # number of a dead one.
        if not _is_bubblewrap(pid):
            os.close(descriptor)
            return
        self._inner = descriptor
        if self._gate is not None:
            try:
                self._gate.limit(pid)
            except OSError:
                _log.exception("a command could not be limited, so it was not started")
                self._kill_outer()

    def _kill_outer(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._outer, signal.SIGKILL)


def _is_bubblewrap(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text() == "bwrap\n"
    except OSError:
        return False


def _signal(pidfd: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)


def _is_dead(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


async def _dead(pidfd: int) -> None:
    loop = asyncio.get_running_loop()
    dead: asyncio.Future[None] = loop.create_future()
    loop.add_reader(pidfd, dead.set_result, None)
    try:
        async with asyncio.timeout(_LATEST_WAIT):
            await dead
    finally:
        loop.remove_reader(pidfd)
