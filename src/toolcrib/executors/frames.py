"""What a host and its workers say to each other: frames of a length, a kind, a number
and JSON. The number is the call's: what answers another call answers none.

Nothing that comes from a worker is executed or unpickled; it is data of known shapes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

SETUP: Final = 1
CALL: Final = 2
READY: Final = 3
OUTPUT: Final = 4
"""The function's value, as JSON."""
RESULT: Final = 5
"""A `ToolResult` that the function made itself."""
FAILED: Final = 6
SAID: Final = 7
"""Progress, a log line or a fact, on the way."""

_HEADER = struct.Struct("<IBQ")
encode = msgspec.json.Encoder(enc_hook=str).encode


class Setup(msgspec.Struct, array_like=True):
    """What a worker is told once."""

    parent: int
    """The host's process: a worker that has another one by now must not stay."""
    folder: str
    path: list[str]
    memory: int | None


class Call(msgspec.Struct, array_like=True):
    """One call."""

    module: str
    function: str
    properties: list[str]
    """The arguments that the schema names."""
    arguments: dict[str, Any]
    output: int
    """Bytes that the result may have."""
    cpu: float | None
    tool: str
    call_id: str
    session_id: str
    cwd: str
    principal: str
    environment: dict[str, str]
    metadata: dict[str, Any]


class Failed(msgspec.Struct, array_like=True):
    """Why there is no output."""

    how: Literal["failure", "denial", "raised", "memory"]
    """The tool's own words · a refusal · an exception, for the log · out of memory, so that the
    worker has to be replaced."""
    message: str
    reason: str = ""
    retryable: bool = False
    retry_after: float | None = None
    details: dict[str, Any] = {}


class Said(msgspec.Struct, array_like=True):
    """Something a running function says."""

    type: str
    data: dict[str, Any]


SAYABLE: Final = frozenset({"call.progress", "tool.log", "tool.emitted"})
"""What a function may say; every other event is the host's own."""


class FrameTooLarge(Exception):
    """A frame is longer than whoever reads it allows."""


def frame(kind: int, body: bytes, number: int = 0) -> bytes:
    """A frame, ready to be sent; `number` is that of the call it belongs to."""
    return _HEADER.pack(len(body), kind, number) + body


class FrameReader:
    """Puts frames together from what arrives."""

    def __init__(self, most: int) -> None:
        self.most = most
        """Bytes that a frame may have."""
        self._buffer = bytearray()

    def feed(self, data: bytes | bytearray) -> Iterator[tuple[int, int, bytes]]:
        """The frames that are complete with `data`: kind, number, body."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _HEADER.size:
            length, kind, number = _HEADER.unpack_from(buffer)
            if length > self.most:
                raise FrameTooLarge(f"{length} bytes, at most {self.most}")
            end = _HEADER.size + length
            if len(buffer) < end:
                return
            body = bytes(buffer[_HEADER.size : end])
            del buffer[:end]
            yield kind, number, body
