"""Running a started command to its end, or talking to it, whichever sandbox it is in."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from toolcrib.core.sandbox import Completed, SandboxLimits, Stopped
from toolcrib.sandbox.process import Process
from toolcrib.sandbox.streams import Feed, Intake

_SHELLS_ADD = 128
"""A shell says by this much more than its number that a signal ended its command."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A command as it is going to be started."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    limits: SandboxLimits
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()
    own: tuple[Path, ...] = ()
    """The host's own files, which it must not see either."""
    guarded: tuple[Path, ...] = ()
    """What it must not change, though it may be somewhere that it may write."""
    input: bool = False
    """Whether something will be written to its standard input."""


async def run(
    process: Process,
    limits: SandboxLimits,
    *,
    stdin: bytes | None,
    on_output: Callable[[bytes], None] | None,
) -> Completed:
    """Wait for a command and take in its output; whatever happens, nothing of it stays behind."""
    begun = time.monotonic()
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[Stopped] = loop.create_future()
    broken: list[Exception] = []

    def stopped_by(what: Stopped) -> None:
        if not stop.done():
            stop.set_result(what)

    def told(chunk: bytes) -> None:
        if on_output is None or broken:
            return
        try:
            on_output(chunk)
        except Exception as error:
            broken.append(error)
            stopped_by("output")

    popen = process.popen
    pipes: list[Intake | Feed] = []
    timer = None
    try:
        out = Intake(popen.stdout, limits.output, more=stopped_by, on_output=told)
        pipes.append(out)
        err = Intake(popen.stderr, limits.output, more=stopped_by)
        pipes.append(err)
        if popen.stdin is not None:
            pipes.append(Feed(popen.stdin, stdin or b""))
        if limits.time is not None:
            timer = loop.call_later(limits.time, stopped_by, "time")
        process.when_ended(lambda: stopped_by(""))
        stopped = await stop
        await process.end()
        stdout, stderr = out.finish(), err.finish()
    finally:
        if timer is not None:
            timer.cancel()
        try:
            await process.end()
        finally:
            for pipe in pipes:
                pipe.close()
    if broken:
        raise broken[0]
    if not stopped and (out.over or err.over):
        stopped = "output"
    code = cast("int", process.exit_code)
    stopped = stopped or _stopped(process, code, limits)
    if not stopped and not process.began:
        said = stderr.decode(errors="replace").strip() or f"exit code {code}"
        raise OSError(errno.ECANCELED, f"the sandbox could not start the command: {said}")
    return Completed(
        exit_code=code,
        stdout=stdout,
        stderr=stderr,
        stopped=stopped,
        seconds=time.monotonic() - begun,
    )


def _stopped(process: Process, code: int, limits: SandboxLimits) -> Stopped:
    if process.out_of_memory and code != 0:
        return "memory"
    if limits.cpu is not None:
        if code in (-signal.SIGXCPU, _SHELLS_ADD + signal.SIGXCPU):
            return "cpu"
        if code == -signal.SIGKILL and process.cpu_seconds >= limits.cpu:
            return "cpu"
    return ""


class RunningChild:
    """A command that is talked to over its streams; see `core.sandbox.Child`."""

    def __init__(
        self,
        process: Process,
        stdin: asyncio.StreamWriter,
        stdout: asyncio.StreamReader,
        stderr: asyncio.StreamReader,
        transports: tuple[asyncio.BaseTransport, ...],
    ) -> None:
        self._process = process
        self._transports = transports
        self._timer: asyncio.TimerHandle | None = None
        self._late: asyncio.Future[None] | None = None
        self.pid = process.pid
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr

    async def wait(self) -> int:
        """Its exit code, once it has ended and nothing it started is left."""
        await self._process.ended()
        await self._process.end()
        self._let_go(self.stdin.transport)
        return cast("int", self._process.exit_code)

    async def kill(self) -> None:
        """End it and everything it started; returns when all of it is gone."""
        try:
            await self._process.end()
        finally:
            self._let_go(*self._transports)

    def end_after(self, seconds: float) -> None:
        """Kill it when its time is over."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(seconds, self._time_over)

    def _time_over(self) -> None:
        self._late = asyncio.ensure_future(self._process.end())

    def _let_go(self, *transports: asyncio.BaseTransport) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for transport in transports:
            transport.close()


async def talk(process: Process, limits: SandboxLimits) -> RunningChild:
    """Open the streams of a command that was started with input."""
    popen = process.popen
    loop = asyncio.get_running_loop()
    transports: list[asyncio.BaseTransport] = []
    readers: list[asyncio.StreamReader] = []
    try:
        for pipe in (popen.stdout, popen.stderr):
            reader = asyncio.StreamReader()
            protocol = asyncio.StreamReaderProtocol(reader)
            transport, _ = await loop.connect_read_pipe(lambda p=protocol: p, pipe)
            transports.append(transport)
            readers.append(reader)
        protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
        writing, _ = await loop.connect_write_pipe(lambda: protocol, popen.stdin)
        transports.append(writing)
        writer = asyncio.StreamWriter(writing, protocol, None, loop)
    except BaseException:
        with contextlib.suppress(asyncio.CancelledError):
            await process.end()
        for transport in transports:
            transport.close()
        for pipe in (popen.stdin, popen.stdout, popen.stderr):
            if pipe is not None:
                pipe.close()
        raise
    child = RunningChild(process, writer, readers[0], readers[1], tuple(transports))
    if limits.time is not None:
        child.end_after(limits.time)
    return child
