"""Counting what a server sends before it is taken in."""

from __future__ import annotations

import asyncio
from typing import Any


class Metered(asyncio.Protocol):
    """Stands before a connection's protocol and hangs up when too much comes.

    A database may answer with a single value of a gigabyte; its client library would hold all of
    it before anybody could look.
    """

    def __init__(self, inner: Any, transport: Any, most: int) -> None:
        self.inner = inner
        self.transport = transport
        self.left = most
        self.over = False
        transport.set_protocol(self)

    def data_received(self, data: bytes) -> None:
        self.left -= len(data)
        if self.left < 0:
            self.over = True
            self.transport.abort()
        else:
            self.inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self.inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()
