"""Servers that are reached by streamable HTTP, in both eras."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from typing import Any

from toolcrib.errors import ToolcribError, ToolFailure
from toolcrib.net.client import Client
from toolcrib.net.exchange import Limits, Request, Sending
from toolcrib.net.guard import Guard
from toolcrib.net.quick import Place
from toolcrib.net.streaming import Answer
from toolcrib.net.url import Url
from toolcrib.protocol import jsonrpc
from toolcrib.protocol.jsonrpc import Message, Notification, Response, Wrong
from toolcrib.protocol.mcp.headers import SESSION, VERSION, request_headers
from toolcrib.protocol.mcp.sse import EventParser, EventTooLarge
from toolcrib.providers.mcp.exchange import (
    IN_THREAD,
    Exchange,
    Incoming,
    Lost,
    Nonsense,
    Refused,
    encode,
    messages_of,
    result_of,
)
from toolcrib.providers.mcp.signing import Signer

_log = logging.getLogger("toolcrib")
_ACCEPT = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "Accept-Encoding": "identity",
}
_LISTEN = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}
_LIMITS = Limits(total=None)
_ERROR_BYTES = 64 * 1024
_POLITE = 5.0
"""Seconds for telling a server something that nobody waits for."""
_WAIT_FIRST, _WAIT_MOST = 1.0, 30.0
_RESUMES = 5
"""How often in a row a broken stream is taken up again without anything new on it."""


class HttpWire:
    """One endpoint. Every request is a POST of its own and has its own stream; in the handshake
    era there is one more stream for what belongs to no request."""

    shared = False

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
        self.max_message = max_message
        self._incoming: Incoming | None = None
        self._modern = False
        self._version: str | None = None
        self._session: str | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, incoming: Incoming) -> None:
        """Nothing is sent before there is something to say."""
        self._incoming = incoming

    def began(self, version: str, *, modern: bool) -> None:
        """This revision is spoken from now on."""
        self._version, self._modern = version, modern

    def listen(self) -> None:
        """Open the stream of what belongs to no request."""
        self._spawn(self._stay())

    async def ask(self, exchange: Exchange) -> dict[str, Any]:
        """The result of a request."""
        sending = Sending()
        greeting = exchange.method == "initialize"
        try:
            headers = self._headers(exchange)
            stream = await self._signed("POST", headers, exchange.frame(), sending)
            if greeting and stream.status < 300:
                self._session = stream.headers.get(SESSION)
            return await self._answer(stream, exchange, headers.get(SESSION))
        except asyncio.CancelledError:
            if sending.open and not self._modern and not greeting and not exchange.answered:
                params = {"requestId": exchange.id, "reason": "the call was cancelled"}
                self._spawn(self._quietly("notifications/cancelled", params))
            raise
        finally:
            exchange.sent = exchange.sent or sending.open

    async def tell(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        await self._post(jsonrpc.notification(method, encode(params or {})), method)

    async def reply(self, frame: bytes) -> None:
        """Send the answer to a request of the server."""
        await self._post(frame, "")

    async def aclose(self) -> None:
        """End the streams, and the session where the server keeps one."""
        self._incoming = None
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session is not None:
            try:
                async with asyncio.timeout(_POLITE):
                    (await self._signed("DELETE", self._plain(), None, Sending())).close()
            except (ToolcribError, TimeoutError) as error:
                _log.debug("provider %s: its session was not ended: %s", self._name, error)

    def place(self) -> Place | None:
        """The kept connections to a modern server to which requests can be sent as they are: who
        we are to it stands fast. Raises `Denial`."""
        if not self._modern or self._signer.fixed is None:
            return None
        return self._client.place(self._url, self._guard)

    def request(self, exchange: Exchange) -> Request:
        """A request as it is sent, but for its body."""
        headers = {**self._headers(exchange), **(self._signer.fixed or {})}
        return Request(method="POST", url=self._url, headers=headers)

    async def answer(self, stream: Answer, exchange: Exchange) -> dict[str, Any]:
        """The result that an answer holds, whose head is there."""
        return await self._answer(stream, exchange, None)

    # Requests.

    def _plain(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        if self._version is not None:
            headers[VERSION] = self._version
        if self._session is not None:
            headers[SESSION] = self._session
        return headers

    def _headers(self, exchange: Exchange) -> dict[str, str]:
        version = exchange.version
        if version is not None:
            said = request_headers(exchange.method, exchange.params, version)
            return {**_ACCEPT, **said, **exchange.headers}
        return {**_ACCEPT, **self._plain()}

    async def _signed(
        self, method: str, headers: Mapping[str, str], body: bytes | None, sending: Sending
    ) -> Answer:
        """Send with credentials; again when the server wants others and we have them."""
        for _ in range(3):
            ours = await self._signer.headers()
            request = Request(method=method, url=self._url, headers={**headers, **ours}, body=body)
            stream = await self._open(request, sending)
            if stream.status not in (401, 403):
                return stream
            if not await self._signer.challenged(stream.status, stream.headers, ours):
                return stream
            stream.close()
            sending.open = False
        return stream  # pyright: ignore[reportPossiblyUnboundVariable]

    async def _open(self, request: Request, sending: Sending) -> Answer:
        try:
            return await self._client.open(request, self._guard, _LIMITS, sending)
        except TimeoutError:
            raise Lost(f"{self._url.authority} cannot be reached in time") from None
        except ToolFailure as error:
            raise Lost(str(error)) from error

    async def _post(self, frame: bytes, method: str) -> None:
        headers = {**_ACCEPT, **self._plain()}
        async with asyncio.timeout(_POLITE):
            stream = await self._signed("POST", headers, frame, Sending())
            try:
                if stream.status >= 400:
                    raise Refused(stream.status, f"{method} was refused with {stream.status}")
                await stream.body(_ERROR_BYTES)
            finally:
                stream.close()

    async def _quietly(self, method: str, params: Mapping[str, Any]) -> None:
        try:
            await self.tell(method, params)
        except (ToolcribError, TimeoutError) as error:
            _log.debug("provider %s: %s was not told: %s", self._name, method, error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Answers.

    async def _answer(
        self, stream: Answer, exchange: Exchange, session: str | None
    ) -> dict[str, Any]:
        try:
            if stream.status >= 300:
                await self._refused(stream, exchange, session)
            if stream.content_type == "text/event-stream":
                return await self._streamed(stream, exchange)
            body = await self._body(stream)
        finally:
            stream.finish() if exchange.answered else stream.close()
        if stream.content_type != "application/json":
            text = f"the server answered {exchange.method} with {stream.content_type or 'nothing'}"
            raise Nonsense(text[:200])
        for message in await self._messages(body):
            if isinstance(message, Response) and message.id == exchange.id:
                exchange.answered = True
                return result_of(message)
            self._dispatch(message, exchange)
        raise Nonsense(f"the server's answer to {exchange.method} is for another request")

    async def _body(self, stream: Answer) -> bytes:
        try:
            return await stream.body(self.max_message)
        except ToolFailure as error:
            if error.reason == "output_too_large":
                raise
            raise Lost(str(error)) from error

    async def _messages(self, data: bytes | str) -> list[Message]:
        if len(data) > IN_THREAD:
            return await asyncio.to_thread(messages_of, data, self.max_message)
        return messages_of(data, self.max_message)

    async def _refused(self, stream: Answer, exchange: Exchange, session: str | None) -> None:
        """Say why: in the words of the protocol if the server used them."""
        try:
            body = await stream.body(_ERROR_BYTES)
        except ToolFailure:
            body = b""
        status = stream.status
        gone = session is not None and status in (400, 404, 410)
        for message in messages_of(body, _ERROR_BYTES) if body else ():
            if isinstance(message, Response) and message.error is not None:
                ours = message.id == exchange.id
                gone = gone and not (ours and status == 400)
                if not gone and (ours or message.id is None):
                    exchange.answered = True
                    result_of(message)
        words = f"{self._url.authority} answered {exchange.method} with the status {status}"
        if status in (401, 403):
            words += "; it wants credentials, or others than it was given: see headers and auth"
        elif status in (404, 405):
            words += "; check the path of url"
        if gone and self._session == session:
            self._session = None
        raise Refused(status, words, gone=gone)

    async def _streamed(self, stream: Answer, exchange: Exchange) -> dict[str, Any]:
        """Read the stream of a request until its answer, across broken connections if the server
        keeps what it sent."""
        parser = EventParser(self.max_message)
        tries = 0
        while True:
            before = parser.last_id
            why = "the server ended the stream before its answer"
            try:
                while piece := await stream.read():
                    for event in parser.feed(piece):
                        if event.type == "message":
                            found = await self._event(event.data, exchange)
                            if found is not None:
                                stream.finish()
                                return result_of(found)
            except EventTooLarge as error:
                raise ToolFailure(str(error), reason="output_too_large") from None
            except ToolFailure as error:
                why = str(error)
            finally:
                if not exchange.answered:
                    stream.close()
            tries = 1 if parser.last_id != before else tries + 1
            if self._modern or not parser.last_id or tries > _RESUMES:
                raise Lost(why)
            stream = await self._resumed(parser, tries, why)

    async def _event(self, data: str, exchange: Exchange) -> Response | None:
        for message in await self._messages(data):
            if isinstance(message, Response) and message.id == exchange.id:
                exchange.answered = True
                return message
            self._dispatch(message, exchange)
        return None

    async def _resumed(self, parser: EventParser, tries: int, why: str) -> Answer:
        pause = parser.retry if parser.retry is not None else _WAIT_FIRST
        await asyncio.sleep(min(pause * 2 ** (tries - 1), _WAIT_MOST))
        headers = {**_LISTEN, **self._plain(), "Last-Event-ID": parser.last_id}
        stream = await self._signed("GET", headers, None, Sending())
        if stream.status != 200 or stream.content_type != "text/event-stream":
            stream.close()
            raise Lost(why)
        return stream

    def _dispatch(self, message: Message, exchange: Exchange | None) -> None:
        incoming = self._incoming
        if incoming is None:
            return
        if isinstance(message, Response):
            _log.info("provider %s answered %r, which nobody asked", self._name, message.id)
        elif isinstance(message, Notification):
            incoming.notified(message.method, message.params, exchange)
        elif isinstance(message, Wrong):
            raise Nonsense(f"the server sent what is no message: {message.message}")
        else:
            incoming.requested(message, exchange)

    # The stream of what belongs to no request (handshake era).

    async def _stay(self) -> None:
        parser = EventParser(self.max_message)
        failures, open_before = 0, False
        while True:
            headers = {**_LISTEN, **self._plain()}
            if parser.last_id:
                headers["Last-Event-ID"] = parser.last_id
            try:
                stream = await self._signed("GET", headers, None, Sending())
            except ToolcribError as error:
                _log.debug("provider %s: no stream of its own: %s", self._name, error)
                failures += 1
            else:
                try:
                    if stream.status != 200 or stream.content_type != "text/event-stream":
                        if open_before and self._incoming is not None:
                            self._incoming.doubted()
                        return
                    open_before = True
                    failures = 0 if await self._follow(stream, parser) else failures + 1
                finally:
                    stream.close()
            pause = parser.retry if parser.retry is not None else _WAIT_FIRST
            await asyncio.sleep(min(pause * 2 ** min(failures, 10), _WAIT_MOST))

    async def _follow(self, stream: Answer, parser: EventParser) -> bool:
        """Whether anything came before it ended."""
        some = False
        try:
            while piece := await stream.read():
                some = True
                for event in parser.feed(piece):
                    if event.type == "message":
                        for message in await self._messages(event.data):
                            self._dispatch(message, None)
        except ToolcribError as error:
            _log.debug("provider %s: its stream broke: %s", self._name, error)
        return some
