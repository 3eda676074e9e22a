"""One worker process, seen from the host."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from toolcrib.core.context import ToolContext
from toolcrib.executors import frames
from toolcrib.executors.frames import FrameReader, FrameTooLarge, Said, frame
from toolcrib.executors.killing import kill_tree
from toolcrib.executors.streams import shortened

_TAIL = 4000
_MOST_LINES = 1000
_SOME = 1 << 16
_FEW = 1 << 12  # it is tried after each call, and mostly there is nothing
_ANSWERS = frozenset({frames.OUTPUT, frames.RESULT, frames.FAILED})
_SAID = {
    "call.progress": (100_000, 10_000_000),
    "tool.log": (_MOST_LINES, 1_000_000),
    "tool.emitted": (1_000, 1_000_000),
}
"""How often a call may say it, and how many bytes in all."""
_SPARE = 1 << 16
"""Bytes that a frame may have beyond the output: what a failure says."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What makes workers alike: tools with equal settings share them."""

    command: tuple[str, ...]
    folder: str
    path: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    memory: int | None
    workers: int


class WorkerEnded(Exception):
    """The process ended in the middle of a call."""


class NoAnswer(Exception):
    """It sent what no worker sends: a frame of no kind, of another call, or not asked for."""


class OutputTooLarge(Exception):
    """More was printed or returned than the call may give."""


class Worker:
    """A process that runs one call at a time. `changed(worker)` is told when it is ready, and
    again when it has ended while nobody called."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: WorkerSettings,
        changed: Callable[[Worker], None],
    ) -> None:
        self.loop = loop
        self.ready = False
        self.ended = False
        self.last_words = b""
        self._changed = changed
        self._reader = FrameReader(_SPARE)
        self._room = bytearray(_SOME)
        self._unsent = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._ctx: ToolContext | None = None
        self._number = self._printed = self._lines = self._most = 0
        self._said: dict[str, tuple[int, int]] = {}
        """How much the call has said, by type: how often, and bytes."""
        self._line = b""
        self._socket, theirs = socket.socketpair()
        self._pipe, their_pipe = os.pipe()
        try:
            self.process = subprocess.Popen(
                settings.command,
                stdin=theirs.fileno(),
                stdout=their_pipe,
                stderr=their_pipe,
                cwd=settings.folder,
                env=dict(settings.environment),
                start_new_session=True,
            )
        except OSError:
            self._socket.close()
            os.close(self._pipe)
            raise
        finally:
            theirs.close()
            os.close(their_pipe)
        self._socket.setblocking(False)
        os.set_blocking(self._pipe, False)
        loop.add_reader(self._socket, self._readable)
        loop.add_reader(self._pipe, self._read_printed)
        setup = frames.Setup(os.getpid(), settings.folder, list(settings.path), settings.memory)
        self._send(frame(frames.SETUP, frames.encode(setup)))

    async def call(self, ctx: ToolContext, call: frames.Call) -> tuple[int, bytes]:
        """The frame that answers a call. After any exception the worker has to be ended."""
        # Nobody who ran here before knows it.
        number = self._number = int.from_bytes(os.urandom(8))
        self._ctx = ctx
        self._said.clear()
        self._printed = self._lines = 0
        self._most, self._reader.most = call.output, call.output + _SPARE
        self._answer = self.loop.create_future()
        try:
            self._send(frame(frames.CALL, frames.encode(call), number))
            answer = await self._answer
            self._read_printed()
            if self._printed > self._most:
                raise OutputTooLarge
            if self._line:
                self._log(self._line)
            return answer
        finally:
            self._ctx = self._answer = None
            self._number = 0
            self._line = b""

    def _send(self, data: bytes) -> None:
        if self._unsent:
            self._unsent += data
            return
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.loop.call_soon(self._over)  # later: whoever sends does not expect it to be over
            return
        if sent < len(data):
            self._unsent = data[sent:]
            self.loop.add_writer(self._socket, self._writable)

    def _writable(self) -> None:
        data, self._unsent = self._unsent, b""
        self.loop.remove_writer(self._socket)
        self._send(data)

    def _readable(self) -> None:
        try:
            count = self._socket.recv_into(self._room)
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if not count:
            self._over()
            return
        try:
            for kind, number, body in self._reader.feed(self._room[:count]):
                self._take(kind, number, body)
        except FrameTooLarge:
            self._break(OutputTooLarge())
        except (NoAnswer, msgspec.MsgspecError) as error:
            self._break(error)

    def _take(self, kind: int, number: int, body: bytes) -> None:
        if kind == frames.READY and not self.ready:
            self.ready = True
            self._changed(self)
            return
        answer = self._answer
        if number != self._number or answer is None or answer.done():
            raise NoAnswer(f"a frame of kind {kind}, which belongs to no call")
        if kind in _ANSWERS:
            answer.set_result((kind, body))
        elif kind == frames.SAID:
            self._hear(msgspec.json.decode(body, type=Said), len(body))
        else:
            raise NoAnswer(f"a frame of kind {kind}")

    def _hear(self, said: Said, size: int) -> None:
        """Pass on what the function says, up to a limit: the trail keeps its facts."""
        if said.type not in frames.SAYABLE:
            raise NoAnswer(
                f"the event {shortened(ascii(said.type))}, which is not a tool's to tell"
            )
        ctx = self._ctx
        if ctx is None or ctx.runtime is None:
            return
        count, total = self._said.get(said.type, (0, 0))
        if count < 0:
            return
        often, most = _SAID[said.type]
        if count >= often or total + size > most:
            self._said[said.type] = (-1, 0)
            ctx.log(f"it says too much: no more {said.type} of this call is kept")
            return
        self._said[said.type] = (count + 1, total + size)
        ctx.runtime.announce(ctx, said.type, said.data)

    def _break(self, error: Exception) -> None:
        """End a worker that does not keep to the rules; a call that runs there hears of it."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        elif not self.ended:
            self.let_go()
            self._changed(self)

    def _read_printed(self) -> None:
        """Take what the function printed. It is never confused with frames: it has a pipe of
        its own."""
        while not self.ended:
            try:
                data = os.read(self._pipe, _FEW)
            except BlockingIOError:
                return
            if not data:
                self.loop.remove_reader(self._pipe)
                return
            self.last_words = (self.last_words + data)[-_TAIL:]
            if self._ctx is None:
                continue
            self._printed += len(data)
            if self._printed > self._most:
                self._fail(OutputTooLarge())
                return
            *lines, self._line = (self._line + data).split(b"\n")
            for line in lines:
                self._log(line)

    def _log(self, line: bytes) -> None:
        self._lines += 1
        if self._ctx is not None and self._lines <= _MOST_LINES:
            self._ctx.log(shortened(line.decode("utf-8", "replace")), stream="printed")

    def _fail(self, error: Exception) -> None:
        if self._answer is None:
            self._over()
        elif not self._answer.done():
            self._answer.set_exception(error)

    def _over(self) -> None:
        """The process closed its end: it is gone, or will be."""
        if self.ended:
            return
        self.loop.remove_reader(self._socket)
        self._read_printed()
        if self._answer is None:
            self.let_go()
            self._changed(self)
        else:
            self._fail(WorkerEnded())

    def let_go(self) -> None:
        """Kill it and close what leads to it; `end` also waits until it is gone."""
        if self.ended:
            return
        self.ended = True
        kill_tree(self.process.pid)
        if not self.loop.is_closed():
            self.loop.remove_reader(self._socket)
            self.loop.remove_writer(self._socket)
            self.loop.remove_reader(self._pipe)
        self._socket.close()
        os.close(self._pipe)
        self._fail(WorkerEnded())

    async def end(self) -> int:
        """Kill it and everything it started; its exit code, once it is gone. Cancelling this
        does not stop it: a cancelled call must not leave work behind."""
        self.let_go()
        gone = asyncio.ensure_future(self._gone())
        cancelled: asyncio.CancelledError | None = None
        while not gone.done():
            try:
                await asyncio.shield(gone)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled
        return gone.result()

    async def _gone(self) -> int:
        pause = 0.0002
        while self.process.poll() is None:
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.02)
        return self.process.returncode

    def wait(self) -> None:
        """Wait for a killed process outside of any loop."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
