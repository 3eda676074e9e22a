"""Single keys from a terminal, lines from a pipe."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TextIO


class Stop:
    """A switch that ends a read in another thread at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._set = False
        self._closed = False
        self.fd, self._far = os.pipe()

    def __bool__(self) -> bool:
        return self._set

    def set(self) -> None:
        """End the read, now or as soon as it begins."""
        with self._lock:
            self._set = True
            if not self._closed:
                os.write(self._far, b"!")

    def within(self, seconds: float, until: float) -> bool:
        """Wait so long; true as soon as it is set, or the clock shows `until`."""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        left = max(0.0, min(seconds, until - time.monotonic()))
        return bool(poll.poll(left * 1000)) or time.monotonic() >= until

    def close(self) -> None:
        """Give the pipe back; `set` does nothing more."""
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self.fd)
                os.close(self._far)


class NoAnswer(Exception):
    """Nothing more will come: end of input, an interrupt, the stop, or the time is over."""


class Keyboard:
    """Reads from a text stream: by keys when it is a terminal, else by lines."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._buffer = b""
        """Lines of a pipe that belong to the questions to come."""
        try:
            self._fd: int | None = stream.fileno()
        except (OSError, ValueError, AttributeError):
            self._fd = None
        self._tty = self._fd is not None and os.isatty(self._fd)
        self._before: list[Any] | None = None
        """The terminal's modes as they were before it gave single keys."""

    @contextmanager
    def opened(self) -> Generator[None, None, None]:
        """The terminal gives single keys inside, and is as before afterwards, come what may."""
        if self._fd is None or not self._tty:
            yield
            return
        if _in_background(self._fd):
            raise NoAnswer  # touching the terminal would stop the whole process
        import termios
        import tty

        before = self._before = termios.tcgetattr(self._fd)
        try:
            tty.setcbreak(self._fd, termios.TCSAFLUSH)
            yield
        finally:
            self._before = None
            termios.tcsetattr(self._fd, termios.TCSAFLUSH, before)

    @property
    def is_terminal(self) -> bool:
        """Whether a person sits there."""
        return self._tty

    @contextmanager
    def lent(self) -> Generator[int, None, None]:
        """The terminal as it was before, for another program; gives its descriptor."""
        if self._fd is None or self._before is None:
            raise NoAnswer
        import termios

        keys = termios.tcgetattr(self._fd)
        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)
        try:
            yield self._fd
        finally:
            # What was typed into the other program is no answer to the question.
            termios.tcsetattr(self._fd, termios.TCSAFLUSH, keys)

    def forget(self) -> None:
        """Drop what was typed before the question could be read: it is no answer to it."""
        if self._fd is not None and self._tty:
            import termios

            termios.tcflush(self._fd, termios.TCIFLUSH)

    def key(self, stop: Stop, until: float) -> str:
        """The key pressed; empty for Enter alone; several characters when it was no single key."""
        if self._fd is None or not self._tty:
            return self._next_line(stop, until).strip()
        data = _read(self._fd, stop, until)
        if not data or data in (b"\x03", b"\x04"):
            raise NoAnswer
        # Arrow and function keys come as several bytes, and so does what is pasted.
        return data.decode(errors="replace").strip("\r\n")

    @contextmanager
    def editing(self) -> Generator[None, None, None]:
        """The terminal gives whole lines inside, with its own editing."""
        if self._fd is None or not self._tty:
            yield
            return
        import termios

        keys = termios.tcgetattr(self._fd)
        lines = termios.tcgetattr(self._fd)
        lines[3] |= termios.ICANON | termios.ECHO
        # The places of these two held the least count and the time of reads by keys.
        lines[6][termios.VEOF], lines[6][termios.VEOL] = b"\x04", b"\x00"
        termios.tcsetattr(self._fd, termios.TCSADRAIN, lines)
        try:
            yield
        finally:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, keys)

    def line(self, stop: Stop, until: float) -> str:
        """One line, without the spaces around it."""
        if self._fd is None or not self._tty:
            return self._next_line(stop, until).strip()
        return _read(self._fd, stop, until).decode(errors="replace").strip()

    def _next_line(self, stop: Stop, until: float) -> str:
        if self._fd is None:
            text = self._stream.readline()
            if not text:
                raise NoAnswer
            return text
        while b"\n" not in self._buffer:
            data = _read(self._fd, stop, until)
            if not data:
                if not self._buffer:
                    raise NoAnswer
                data = b"\n"
            self._buffer += data
        first, _, self._buffer = self._buffer.partition(b"\n")
        return first.decode(errors="replace")


def _read(fd: int, stop: Stop, until: float) -> bytes:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.register(stop.fd, select.POLLIN)
    left = max(0.0, until - time.monotonic())
    ready = dict(poll.poll(left * 1000))
    if not ready or stop.fd in ready:
        raise NoAnswer
    try:
        return os.read(fd, 4096)
    except OSError:
        return b""  # the terminal has gone away


def _in_background(fd: int) -> bool:
    try:
        return os.tcgetpgrp(fd) not in (0, os.getpgrp())
    except OSError:
        return False  # not this process's own terminal, so nothing can stop it
