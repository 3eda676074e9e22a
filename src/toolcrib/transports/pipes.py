"""Standard input and output as a protocol's own: moved away, read and written without blocking."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import stat
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol, cast

from toolcrib.transports.outgoing import MUCH, TOO_MUCH

_CHUNK = 65_536


_claimed: tuple[int, int] | None = None


def claim() -> tuple[int, int]:
    """Private copies of descriptors 0 and 1, which themselves lead to nothing and to standard
    error from now on. No child process inherits the copies. Calling it again gives the same."""
    global _claimed
    if _claimed is not None:
        return _claimed
    reading = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    writing = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.dup2(nothing, 0)
        try:
            os.dup2(2, 1)
        except OSError:  # there is no standard error
            os.dup2(nothing, 1)
    finally:
        os.close(nothing)
    # What was printed before and is not written yet belongs into the log as well.
    out: Any = sys.stdout
    if hasattr(out, "reconfigure"):
        out.reconfigure(line_buffering=True)
        out.flush()
    _claimed = reading, writing
    return _claimed


class Reader(Protocol):
    """Where lines come from."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def close(self) -> None: ...


async def open_reader(
    fd: int, feed: Callable[[bytes], None], *, ended: Callable[[], None]
) -> Reader:
    """Read from a descriptor: `feed` is called with what comes, `ended` at its end."""
    if not _is_pipe(fd):
        return _ThreadReader(fd, feed, ended)
    made = _PipeReader(feed, ended)
    file = os.fdopen(fd, "rb", 0)
    await asyncio.get_running_loop().connect_read_pipe(lambda: made, file)
    return made


async def open_writer(fd: int, *, lost: Callable[[], None]) -> Writer:
    """Write to a descriptor; `lost` is called when nobody reads there any more."""
    made = Writer(lost)
    if _is_pipe(fd):
        file = os.fdopen(fd, "wb", 0)
        made.use_pipe(fd)
        await asyncio.get_running_loop().connect_write_pipe(lambda: made, file)
    else:
        made.use_file(fd)
    return made


def _is_pipe(fd: int) -> bool:
    """Whether the loop can wait for it. Files cannot be waited for; a terminal could, but making
    it non-blocking would change it for everybody who uses it."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


class _PipeReader(asyncio.Protocol):
    def __init__(self, feed: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        self._ended = ended
        self.data_received = feed  # pyright: ignore[reportAttributeAccessIssue]
        self._transport: asyncio.ReadTransport | None = None
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.ReadTransport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended()

    def pause(self) -> None:
        if self._transport is not None and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and self._paused and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class _ThreadReader:
    """Reads a file or a terminal in a thread; it may block there for as long as it likes."""

    def __init__(self, fd: int, feed: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._feed = feed
        self._ended = ended
        self._closed = self._paused = False
        self._may_read = threading.Event()
        self._may_read.set()
        threading.Thread(target=self._run, args=(fd,), daemon=True).start()

    def _run(self, fd: int) -> None:
        # The loop may be gone when a terminal finally gives a line; then there is nothing to do.
        with contextlib.suppress(RuntimeError):
            try:
                while not self._closed:
                    data = os.read(fd, _CHUNK)
                    if not data:
                        break
                    self._may_read.clear()
                    self._loop.call_soon_threadsafe(self._take, data)
                    self._may_read.wait()
            finally:
                os.close(fd)
                self._loop.call_soon_threadsafe(self._ended)

    def _take(self, data: bytes) -> None:
        if not self._closed:
            self._feed(data)
        if not self._paused:
            self._may_read.set()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._may_read.set()

    def close(self) -> None:
        self._closed = True
        self._may_read.set()


class Writer(asyncio.BaseProtocol):
    """An outlet for lines. Lines that are ready at the same time are written together."""

    def __init__(self, lost: Callable[[], None]) -> None:
        self.closed = False
        self.why: str | None = None
        """Why it was closed, when that was not the client's wish."""
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._lines: list[bytes] = []
        self._size = 0
        self._transport: asyncio.WriteTransport | None = None
        self._fd: int | None = None
        self._pipe = -1
        """The same for a pipe, which the loop writes to."""
        self._roomless: list[asyncio.Future[None]] = []
        self._gone: asyncio.Future[None] = self._loop.create_future()
        """Done when the transport is closed, and everything was written before."""

    def use_file(self, fd: int) -> None:
        """Write to something that never makes anybody wait for long."""
        self._fd = fd

    def use_pipe(self, fd: int) -> None:
        """Write to this when there is room, beside the loop."""
        self._pipe = fd

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)
        self._transport.set_write_buffer_limits(high=MUCH, low=MUCH // 2)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._make_room()
        if not self._gone.done():
            self._gone.set_result(None)
        self._lost()

    def resume_writing(self) -> None:
        self._make_room()

    @property
    def waiting(self) -> int:
        """Bytes that the client has not taken yet."""
        transport = self._transport
        return self._size + (0 if transport is None else transport.get_write_buffer_size())

    def give(self, frame: bytes, more: bool) -> bool:
        """Write a line: at once, or with those that are ready before the loop turns."""
        transport = self._transport
        if more or self._lines or transport is None or self.waiting or self.closed:
            self.push(frame, at_once=not more)
        elif not transport.is_closing():
            self._write_now(transport, frame + b"\n")
        return False

    def _write_now(self, transport: asyncio.WriteTransport, data: bytes) -> None:
        """Write without the loop, which would do so one turn later; it gets what is left over."""
        with contextlib.suppress(OSError):  # full, or nobody reads: the loop finds out which
            data = data[os.write(self._pipe, data) :]
        if data:
            transport.write(data)

    def push(self, frame: bytes, at_once: bool = False) -> None:
        """Write a line with those that are ready before the loop turns."""
        if self.closed:
            return
        if self.waiting > TOO_MUCH:
            self.why = "slow_reader"
            self._abort()
            return
        if not self._lines and not at_once:
            self._loop.call_soon(self._write)
        self._lines += (frame, b"\n")
        self._size += len(frame) + 1
        if at_once:
            self._write()

    def _write(self) -> None:
        lines, self._lines, self._size = self._lines, [], 0
        if self.closed or not lines:
            return
        data = b"".join(lines)
        if self._transport is not None:
            self._transport.write(data)
            return
        try:
            while data:
                data = data[os.write(cast("int", self._fd), data) :]
        except OSError:
            self._abort()

    def _abort(self) -> None:
        self.closed = True
        self._make_room()
        if self._transport is not None and not self._gone.done():
            self._transport.abort()
        self._lost()

    async def flush(self) -> None:
        """Lines are written when the loop turns."""

    async def room(self) -> None:
        """Wait until not much waits."""
        while self.waiting >= MUCH and not self.closed:
            future: asyncio.Future[None] = self._loop.create_future()
            self._roomless.append(future)
            await future

    def _make_room(self) -> None:
        roomless, self._roomless = self._roomless, []
        for future in roomless:
            if not future.done():
                future.set_result(None)

    async def finish(self, seconds: float) -> None:
        """Write what is left and the end of it, for so many seconds; nothing can follow."""
        self._write()
        if self._transport is not None and not self.closed:
            self.closed = True
            self._transport.close()
            await asyncio.wait({self._gone}, timeout=seconds)

    def close(self) -> None:
        """Write nothing more; whoever reads sees the end."""
        self.closed = True
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        if self._transport is not None and not self._gone.done():
            self._transport.abort()
