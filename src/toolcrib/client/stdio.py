"""A host as a child process: one message a line on its standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence

from toolcrib.client.errors import CannotConnect, ClientError

LONGEST = 256 * 1024 * 1024
"""Bytes of one line; more is no message."""
GRACE = 5.0
"""Seconds for the host to end calls and go, once its input has ended."""
LAST = 2.0
"""Seconds for it to go once it was told to."""
_KEPT = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
"""What the child has of this process's environment; everything else has to be given to it."""


class StdioPipe:
    """Starts the program, and ends it with everything that it started. Its standard error is this
    process's own: it is the host's log."""

    def __init__(
        self,
        command: list[str],
        *,
        environment: Mapping[str, str] | None,
        cwd: str | None,
        where: str,
    ) -> None:
        self._command = command
        self._environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        self._environment.update(environment or {})
        self._cwd = cwd
        self._where = where
        self._process: asyncio.subprocess.Process | None = None
        self._waiting = bytearray()
        self._closing: asyncio.Future[None] | None = None
        self._seen = 0
        """How many of the waiting bytes are known to hold no line end."""

    async def open(self) -> None:
        """Start the program, in a process group of its own."""
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=self._environment,
                cwd=self._cwd,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise CannotConnect(
                f"{self._command[0]} cannot be started: {why}",
                where=self._where,
                cure="Check command= and cwd=",
            ) from None

    async def send(self, frame: bytes) -> None:
        """Send one line."""
        process = self._process
        if process is None or process.stdin is None or process.stdin.is_closing():
            raise CannotConnect(self.ended(), where=self._where)
        process.stdin.write(frame + b"\n")
        await process.stdin.drain()

    async def receive(self) -> bytes | None:
        """The next line; None when the program has closed its output."""
        process = self._process
        if process is None or process.stdout is None:
            return None
        while (end := self._waiting.find(b"\n", self._seen)) < 0:
            self._seen = len(self._waiting)
            chunk = await process.stdout.read(262_144)
            if not chunk:
                await _gone(process, 1.0)  # so that it can be said how it ended
                return None
            self._waiting += chunk
            if len(self._waiting) > LONGEST:
                raise ClientError("a line of its output has no end", where=self._where)
        line = bytes(self._waiting[:end])
        del self._waiting[: end + 1]
        self._seen = 0
        return line

    async def close(self) -> None:
        """Let it end by itself, then by force; nothing that it started is left."""
        if self._process is not None:
            if self._closing is None:
                self._closing = asyncio.ensure_future(self._end(self._process))
            await asyncio.shield(self._closing)  # whoever is cancelled here leaves nothing behind

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        if process.stdin is not None:
            process.stdin.close()
        try:
            if not await _gone(process, GRACE):
                _signal(process.pid, signal.SIGTERM)
                await _gone(process, LAST)
        finally:
            _signal(process.pid, signal.SIGKILL)
            await process.wait()

    def ended(self) -> str:
        """Why it ended."""
        code = None if self._process is None else self._process.returncode
        name = self._command[0]
        if code is None:
            return f"{name} closed its output"
        return f"{name} ended by signal {-code}" if code < 0 else f"{name} ended with code {code}"


async def _gone(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Whether it ends within so many seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await process.wait()
            return True
    return False


def _signal(group: int, kind: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, kind)


def check_command(command: Sequence[str] | None, where: str) -> list[str]:
    """The program and its arguments. Raises `ClientError`."""
    if isinstance(command, str) or not command:
        raise ClientError(
            "the program to start has to be given as a list",
            where=where,
            cure="Write command=['toolcrib', 'serve', '--stdio']",
        )
    return [os.fspath(part) for part in command]
