"""Servers of the first revision that are reached by HTTP: one event stream, and POSTs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from toolcrib.errors import Denial, ToolcribError, ToolFailure
from toolcrib.net.client import Client
from toolcrib.net.exchange import Limits, Request
from toolcrib.net.guard import Guard
from toolcrib.net.streaming import Answer
from toolcrib.net.url import Url, join_url
from toolcrib.protocol.jsonrpc import Wrong
from toolcrib.protocol.mcp.sse import Event, EventParser
from toolcrib.providers.mcp.exchange import IN_THREAD, Lost, Refused, messages_of
from toolcrib.providers.mcp.shared import Received
from toolcrib.providers.mcp.signing import Signer

_LIMITS = Limits(total=None)
_ERROR_BYTES = 64 * 1024
_LISTEN = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}
_SEND = {"Content-Type": "application/json", "Accept-Encoding": "identity"}


class SsePipe:
    """The stream names the address for messages; their answers come on the stream."""

    def __init__(
        self,
        name: str,
        url: Url,
        *,
        client: Client,
        guard: Guard,
        signer: Signer,
        max_message: int,
    ) -> None:
        self._name = name
        self._url = url
        self._client = client
        self._guard = guard
        self._signer = signer
        self._limit = max_message
        self._endpoint: asyncio.Future[Url] | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self, received: Received, ended: Callable[[str], None]) -> None:
        """Open the stream, and wait until it says where messages go."""
        stream = await self._signed("GET", self._url, _LISTEN, None)
        if stream.status != 200 or stream.content_type != "text/event-stream":
            stream.close()
            words = f"{self._url.authority} offers no event stream ({stream.status})"
            raise Refused(stream.status, words)
        self._endpoint = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(
            self._read(stream, received, ended), name=f"{self._name} events"
        )
        await asyncio.shield(self._endpoint)

    async def send(self, frame: bytes) -> None:
        """POST one message."""
        if self._endpoint is None:
            raise Lost("it is not connected")
        stream = await self._signed("POST", self._endpoint.result(), _SEND, frame)
        try:
            await stream.body(_ERROR_BYTES)
        finally:
            stream.close()
        if stream.status >= 300:
            words = f"{self._url.authority} refused a message with the status {stream.status}"
            raise Refused(stream.status, words)

    async def aclose(self) -> None:
        """End the stream."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if self._endpoint is not None and self._endpoint.done():
            self._endpoint.exception()

    async def _signed(
        self, method: str, url: Url, headers: dict[str, str], body: bytes | None
    ) -> Answer:
        stream: Answer | None = None
        for _ in range(3):
            ours = await self._signer.headers()
            request = Request(method=method, url=url, headers={**headers, **ours}, body=body)
            try:
                stream = await self._client.open(request, self._guard, _LIMITS)
            except TimeoutError:
                raise Lost(f"{url.authority} cannot be reached in time") from None
            except ToolFailure as error:
                raise Lost(str(error)) from error
            refused = stream.status in (401, 403)
            if not refused or not await self._signer.challenged(
                stream.status, stream.headers, ours
            ):
                return stream
            stream.close()
        raise Refused(401, f"{url.authority} takes none of our credentials")

    async def _read(self, stream: Answer, received: Received, ended: Callable[[str], None]) -> None:
        parser = EventParser(self._limit)
        why = "the server ended its event stream"
        try:
            while piece := await stream.read():
                for event in parser.feed(piece):
                    await self._event(event, received)
        except ToolcribError as error:
            why = str(error)
        finally:
            stream.close()
            if self._endpoint is not None and not self._endpoint.done():
                self._endpoint.set_exception(Lost(why))
            ended(why)

    async def _event(self, event: Event, received: Received) -> None:
        endpoint = self._endpoint
        if event.type == "endpoint" and endpoint is not None and not endpoint.done():
            try:
                url = join_url(self._url, event.data)
            except Denial as error:
                raise Lost(str(error)) from error
            if url.origin != self._url.origin:
                raise Lost(f"the server sends its messages elsewhere, to {url.authority}")
            endpoint.set_result(url)
        elif event.type == "message":
            if len(event.data) > IN_THREAD:
                messages = await asyncio.to_thread(messages_of, event.data, self._limit)
            else:
                messages = messages_of(event.data, self._limit)
            for message in messages:
                if isinstance(message, Wrong):
                    raise Lost(f"the server sent what is no message: {message.message}")
                received(message)
