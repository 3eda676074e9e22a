"""One connection that messages go over both ways, and what the messages look like."""

from __future__ import annotations

from typing import Protocol

import msgspec


class Pipe(Protocol):
    """One connection; made anew for each attempt."""

    async def open(self) -> None:
        """Connect. Raises `ClientError`."""
        ...

    async def send(self, frame: bytes) -> None:
        """Send one message. Raises when it may not have left whole."""
        ...

    async def receive(self) -> bytes | None:
        """The next message; None when the connection has ended."""
        ...

    async def close(self) -> None:
        """End it, and whatever it holds."""
        ...

    def ended(self) -> str:
        """Why it ended, in words."""
        ...


class Frame(msgspec.Struct):
    """Any message of the host's."""

    id: int | str | None = None
    method: str | None = None
    params: msgspec.Raw = msgspec.Raw(b"null")
    result: msgspec.Raw = msgspec.Raw(b"")
    error: RpcError | None = None


class RpcError(msgspec.Struct):
    code: int = 0
    message: str = ""
    data: msgspec.Raw = msgspec.Raw(b"null")
