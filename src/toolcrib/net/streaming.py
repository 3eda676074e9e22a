"""Answers that are read while they come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from toolcrib.errors import ToolcribError, ToolFailure
from toolcrib.net.exchange import Request
from toolcrib.net.inflate import Inflater

if TYPE_CHECKING:
    import aiohttp

_LINGER = 1.0
"""Seconds for an answer to end by itself, so that its connection can be kept."""


class Answer(Protocol):
    """One answer whose body is still to be read. Whoever has one calls `close` or `finish`."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]:
        """Names in lower case."""
        ...

    @property
    def content_type(self) -> str:
        """The media type alone, in lower case; empty when the server said none."""
        ...

    async def read(self) -> bytes:
        """The next piece; empty at the end. Raises `ToolFailure` when the connection breaks."""
        ...

    async def body(self, limit: int) -> bytes:
        """All of it. Raises `ToolFailure` with the reason `output_too_large` while it comes."""
        ...

    def close(self) -> None:
        """Stop reading, and drop the connection unless the answer was read to its end."""
        ...

    def finish(self) -> None:
        """What matters was read: keep the connection if the answer ends in a moment."""
        ...


class Stream:
    """An `Answer` in the hands of the HTTP library."""

    __slots__ = ("_failure", "_reply", "headers", "request", "status")

    def __init__(
        self,
        request: Request,
        reply: aiohttp.ClientResponse,
        headers: Mapping[str, str],
        failure: Callable[[Request, Exception], ToolFailure],
    ) -> None:
        self.request = request
        self.status = reply.status
        self.headers = headers
        """Names in lower case."""
        self._reply = reply
        self._failure = failure

    @property
    def content_type(self) -> str:
        """The media type alone, in lower case; empty when the server said none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def read(self) -> bytes:
        """The next piece; empty at the end. Raises `ToolFailure` when the connection breaks."""
        try:
            return await self._reply.content.readany()
        except (ToolcribError, TimeoutError):
            raise
        except Exception as error:
            raise self._failure(self.request, error) from error

    async def body(self, limit: int) -> bytes:
        """All of it. Raises `ToolFailure` with the reason `output_too_large` while it comes."""
        inflater = Inflater(self.headers.get("content-encoding", ""), limit)
        while piece := await self.read():
            if not inflater.feed(piece):
                self.close()
                text = f"{self.request.words} answered with more than {limit} bytes"
                raise ToolFailure(text, reason="output_too_large")
        return inflater.body()

    def close(self) -> None:
        """Stop reading, and drop the connection unless the answer was read to its end."""
        if self._reply.content.is_eof():
            self._reply.release()
        else:
            self._reply.close()

    def finish(self) -> None:
        """What matters was read: keep the connection if the answer ends in a moment."""
        if self._reply.content.is_eof():
            self._reply.release()
        else:
            asyncio.get_running_loop().call_later(_LINGER, self.close)
