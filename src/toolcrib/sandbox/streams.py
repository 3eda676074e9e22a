"""The pipes of a command: output taken in up to a limit, input fed as fast as it is read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import IO

from toolcrib.core.sandbox import Stopped

_CHUNK = 65_536


class Intake:
    """Takes in one output stream; keeps `limit` bytes at most and says when there is more."""

    def __init__(
        self,
        stream: IO[bytes] | None,
        limit: int | None,
        *,
        more: Callable[[Stopped], None],
        on_output: Callable[[bytes], None] | None = None,
    ) -> None:
        if stream is None:
            raise ValueError("the command was started without a pipe for its output")
        self._stream = stream
        self._limit = limit
        self._more = more
        self._on_output = on_output
        self._chunks: list[bytes] = []
        self._size = 0
        self.over = False
        os.set_blocking(stream.fileno(), False)
        asyncio.get_running_loop().add_reader(stream.fileno(), self._take)

    def finish(self) -> bytes:
        """Take in what is there already, close the pipe and give everything."""
        while not self._stream.closed and not self.over:
            if not self._take():
                break
        self.close()
        return b"".join(self._chunks)

    def close(self) -> None:
        """Stop taking in."""
        if not self._stream.closed:
            asyncio.get_running_loop().remove_reader(self._stream.fileno())
            self._stream.close()

    def _take(self) -> bool:
        """Take one chunk; whether there was one."""
        try:
            chunk = os.read(self._stream.fileno(), _CHUNK)
        except BlockingIOError:
            return False
        if not chunk:
            self.close()
            return False
        if self._limit is not None and self._size + len(chunk) > self._limit:
            chunk = chunk[: self._limit - self._size]
            self.over = True
            asyncio.get_running_loop().remove_reader(self._stream.fileno())
        self._size += len(chunk)
        self._chunks.append(chunk)
        if chunk and self._on_output is not None:
            self._on_output(chunk)
        if self.over:
            self._more("output")
        return True


class Feed:
    """Writes input to a command; one that does not read it all loses the rest."""

    def __init__(self, stream: IO[bytes], data: bytes) -> None:
        self._stream = stream
        self._left = memoryview(data)
        os.set_blocking(stream.fileno(), False)
        asyncio.get_running_loop().add_writer(stream.fileno(), self._give)
        self._give()

    def close(self) -> None:
        """The command sees the end of its input."""
        if not self._stream.closed:
            asyncio.get_running_loop().remove_writer(self._stream.fileno())
            self._stream.close()

    def _give(self) -> None:
        try:
            while self._left:
                self._left = self._left[os.write(self._stream.fileno(), self._left) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._left = memoryview(b"")
        self.close()
