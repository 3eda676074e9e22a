"""Load for the network doors: so many connections, each with one request in flight."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


class Load(NamedTuple):
    """What one stretch of load showed."""

    rate: float
    """Answers a second."""
    cpu: float
    """CPU microseconds of the server for one."""
    p99: float
    """Milliseconds that all but one in a hundred took at most."""
    answers: int


class _Line(asyncio.Protocol):
    """One connection: sends again as soon as the whole answer is there."""

    def __init__(self, message: bytes, whole: Callable[[bytes], int]) -> None:
        self.message = message
        self.whole = whole
        self.times: list[float] = []
        self.running = False
        self.done = asyncio.get_running_loop().create_future()
        self._buffer = b""
        self._sent = 0.0
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self.transport = transport  # type: ignore[assignment]

    def go(self) -> None:
        self.running = True
        self.done = asyncio.get_running_loop().create_future()
        self._send()

    def _send(self) -> None:
        self._sent = time.perf_counter()
        self.transport.write(self.message)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        used = self.whole(buffer)
        if not used:
            self._buffer = buffer
            return
        self._buffer = buffer[used:]
        self.times.append(time.perf_counter() - self._sent)
        if self.running:
            self._send()
        elif not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(ConnectionError("the server closed a connection"))


def whole_http(buffer: bytes) -> int:
    """How many bytes the first answer has; 0 while it is not all there."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return 0
    if not buffer.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"the server said {buffer[:300]!r}")
    found = _LENGTH.search(buffer, 0, end)
    size = end + 4 + (int(found[1]) if found else 0)
    return size if len(buffer) >= size else 0


def whole_frame(buffer: bytes) -> int:
    """The same for a WebSocket frame from a server."""
    if len(buffer) < 4:
        return 0
    short = buffer[1] & 127
    if short == 127:
        raise SystemExit("a frame is longer than expected")
    head, size = (4, int.from_bytes(buffer[2:4])) if short == 126 else (2, short)
    return head + size if len(buffer) >= head + size else 0


def post(url: str, path: str, body: bytes, **headers: str) -> bytes:
    """A request as it goes over the wire."""
    place = urlsplit(url).netloc
    lines = [f"POST {path} HTTP/1.1", f"Host: {place}", "Content-Type: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def frame(text: bytes) -> bytes:
    """A text frame from a client, masked with nothing."""
    size = len(text)
    head = bytes([0x81, 0x80 | size]) if size < 126 else b"\x81\xfe" + size.to_bytes(2)
    return head + b"\0\0\0\0" + text


def _greeted(buffer: bytes) -> int:
    end = buffer.find(b"\r\n\r\n")
    return 0 if end < 0 else end + 4


class Lines:
    """Connections that are kept from round to round."""

    def __init__(self, url: str, message: bytes, whole: Callable[[bytes], int], pid: int) -> None:
        self._place = urlsplit(url)
        self._message = message
        self._whole = whole
        self._pid = pid
        self._lines: list[_Line] = []

    async def open(self, count: int, greeting: bytes = b"") -> None:
        """Connect; a `greeting` is sent first, and its answer waited for."""
        loop = asyncio.get_running_loop()
        for _ in range(count):
            _, line = await loop.create_connection(
                lambda: _Line(self._message, self._whole), self._place.hostname, self._place.port
            )
            if greeting:
                line.whole = lambda buffer: (
                    buffer.find(b"\r\n\r\n") + 4 if b"\r\n\r\n" in buffer else 0
                )
                line.transport.write(greeting)
                await line.done
                line.whole = self._whole
            self._lines.append(line)

    async def run(self, seconds: float) -> Load:
        """Load for so long."""
        before, began = cpu_of(self._pid), time.perf_counter()
        for line in self._lines:
            line.times.clear()
            line.go()
        await asyncio.sleep(seconds)
        for line in self._lines:
            line.running = False
        await asyncio.gather(*(line.done for line in self._lines))
        took, used = time.perf_counter() - began, cpu_of(self._pid) - before
        times = sorted(t for line in self._lines for t in line.times)
        p99 = times[int(len(times) * 0.99)] * 1000
        return Load(len(times) / took, used / len(times) * 1e6, p99, len(times))

    def close(self) -> None:
        for line in self._lines:
            if not line.done.done():
                line.done.set_result(None)
            line.transport.close()


def cpu_of(pid: int) -> float:
    """CPU seconds that a process has used, of all its threads. Counted in nanoseconds: the usual
    count of ticks misses a process that runs in short bursts."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_bytes().split()[0]) for thread in threads) / 1e9


def memory_of(pid: int) -> float:
    """Resident megabytes of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_bytes().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
