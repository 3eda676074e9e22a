"""The MCP door over HTTP: both eras at one address."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar, cast

from toolcrib.core.settings import HostConfig
from toolcrib.protocol import jsonrpc
from toolcrib.protocol.jsonrpc import Message, Notification, Request, Response, Wrong
from toolcrib.protocol.mcp.keys import LISTEN
from toolcrib.protocol.mcp.versions import BATCHES, LATEST_HANDSHAKE
from toolcrib.transports.caller import Caller
from toolcrib.transports.eager import going_on
from toolcrib.transports.faults import Fault
from toolcrib.transports.http.answers import Headers, encode, extra, reply
from toolcrib.transports.http.body import check_type, read_body, strict
from toolcrib.transports.mcp.asked import Asked, Channel, Endpoint, asked_handshake
from toolcrib.transports.mcp.dispatcher import Dispatcher
from toolcrib.transports.mcp.envelope import (
    Params,
    check_accept,
    check_version,
    is_modern,
    read_modern,
)
from toolcrib.transports.mcp.faults import McpFault
from toolcrib.transports.mcp.held import Held
from toolcrib.transports.mcp.line import Line, error_frame
from toolcrib.transports.mcp.posts import Post, Web, answer
from toolcrib.transports.mcp.quick import QuickCalls
from toolcrib.transports.mcp.run import Run
from toolcrib.transports.mcp.sessions import MOST_IN_BATCH, Connection, Connections
from toolcrib.transports.mcp.streams import Heart, Patience

if TYPE_CHECKING:
    from toolcrib.transports.service import Service

T = TypeVar("T")
_log = logging.getLogger("toolcrib")
_MOST_SEATS = 4096
_LOOK = 0.02
"""Seconds between two looks at whether everybody is answered, when the host stops."""
_JSON, _EVENTS = b"application/json", b"text/event-stream"


class McpDoor:
    """Answers what comes to `/mcp`. Host, origin and credentials were checked before."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.dispatcher = Dispatcher(service)
        self.dispatcher.load()
        self.connections = Connections(service, self.dispatcher)
        self.heart = Heart(lambda: service.settings.http.heartbeat)
        self.patience = Patience()
        self.held = Held(service, self.heart)
        self._params = Params(service)
        self.calls = QuickCalls(self, service, self._params)
        self._seats: dict[tuple[Caller, Endpoint], Caller] = {}
        self._config: HostConfig = service.host.config

    # Who, and where.

    def seat(self, caller: Caller, endpoint: Endpoint) -> Caller:
        """The caller at this address. Raises `Fault` where it may not be."""
        if self._service.host.config is not self._config:
            self._config = self._service.host.config
            self._seats.clear()
        found = self._seats.get((caller, endpoint))
        if found is None:
            found = self._sit(caller, endpoint)
            if len(self._seats) >= _MOST_SEATS:
                self._seats.clear()
            self._seats[caller, endpoint] = found
        if endpoint.session is not None:
            self._service.sessions.find(caller, endpoint.session)
        return found

    def _sit(self, caller: Caller, endpoint: Endpoint) -> Caller:
        made = caller.at(None, "mcp")
        profile = endpoint.profile
        if profile is None:
            return made
        if not caller.may_use(profile):
            text = f"{caller.principal.name} may not use the profile {profile}"
            raise Fault("not_permitted", text)
        callers = self._service.host.callers
        if callers.profile(profile) is None:
            off = ". The transport of 2024-11-05 is off: serve.mcp.sse turns it on"
            more = off if profile == "sse" else ""
            raise Fault("not_found", f"there is no profile {profile!r}{more}")
        problem = callers.problem(callers.current(caller.principal), profile)
        if problem is not None:
            raise Fault("not_permitted", problem)
        made.profile = profile
        return made

    async def answer(self, verb: str, caller: Caller, endpoint: Endpoint, web: Web) -> None:
        """One request."""
        try:
            seated = self.seat(caller, endpoint)
            if verb == "POST":
                await self._post(seated, endpoint, web)
            elif verb == "GET":
                await self._get(seated, endpoint, web)
            elif verb == "DELETE":
                self.connections.end(self._connection(seated, endpoint, web))
                await reply(web.send, 204, b"")
            else:
                raise Fault("method_not_allowed", "this address takes POST, GET and DELETE")
        except Fault as fault:
            await self.refuse(fault, web)
        except McpFault as fault:
            await answer(web, fault.http, error_frame(None, fault))

    async def refuse(self, fault: Fault, web: Web, headers: Headers | None = None) -> None:
        """Say what is wrong with a request of which no id is known."""
        more = [*(headers or ()), *(extra(fault) if headers is None else ())]
        if fault.reason == "method_not_allowed":
            more.append((b"allow", b"POST, GET, DELETE, OPTIONS"))
        if web.exchange is not None and fault.reason in ("request_too_large", "request_timeout"):
            web.exchange.linger()
        await reply(web.send, fault.http, error_frame(None, McpFault.of(fault)), more)

    def _connection(self, caller: Caller, endpoint: Endpoint, web: Web) -> Connection:
        """The connection that a request of the handshake era belongs to. Raises `Fault`."""
        given = web.head.get(b"mcp-session-id")
        if given is None:
            raise Fault("not_a_request", "the header Mcp-Session-Id is missing. Initialize first")
        check_version(web.head)
        return self.connections.find(caller, endpoint, given.decode("latin-1").strip())

    # POST.

    async def _post(self, caller: Caller, endpoint: Endpoint, web: Web) -> None:
        settings = self._service.settings.http
        head, exchange = web.head, web.exchange
        body = None if exchange is None else exchange.whole_body()
        if body is None or len(body) > settings.max_body:
            body = await read_body(web.receive, head, settings)
        check_type(head)
        check_accept(head, _JSON, _EVENTS)
        value = strict(body, settings.max_body)
        if type(value) is list:
            await self._batch(caller, endpoint, web, cast("list[Any]", value))
            return
        read = jsonrpc.message(value)
        if type(read) is Request:
            if read.id is None:
                raise Fault("not_a_request", "the id of a request is text or a whole number")
            await self.request(caller, endpoint, web, read)
        elif type(read) is Wrong:
            raise Fault("not_a_request", read.message)
        else:
            await self._one_way(caller, endpoint, web, read)

    async def _one_way(self, caller: Caller, endpoint: Endpoint, web: Web, read: Message) -> None:
        """A notification, or the answer to a question."""
        if type(read) is Notification and is_modern(web.head, read.params):
            await self.dispatcher.told(caller, endpoint, read.method, read.params, None)
        else:
            connection = self._connection(caller, endpoint, web)
            await self._take(caller, endpoint, connection, read)
        await reply(web.send, 202, b"")

    async def _take(
        self, caller: Caller, endpoint: Endpoint, connection: Connection, read: Message
    ) -> None:
        if type(read) is Response:
            connection.answered(read)
        elif type(read) is Notification:
            if read.method == "notifications/cancelled":
                connection.cancelled(read.params)
            else:
                await self.dispatcher.told(caller, endpoint, read.method, read.params, connection)

    async def request(self, caller: Caller, endpoint: Endpoint, web: Web, read: Request) -> None:
        """Answer a request."""
        try:
            if is_modern(web.head, read.params):
                asked = read_modern(web.head, read)
                if asked.method == LISTEN:
                    await self.held.listen(self.dispatcher, caller, endpoint, asked, web)
                    return
                if asked.method == "tools/call":
                    self._params.check(web.head, caller, endpoint, asked)
                post = Post(web)
                work = self._answer(caller, endpoint, asked, post.line())
            elif read.method == "initialize":
                check_version(web.head)
                await self._initialize(caller, endpoint, web, read)
                return
            else:
                connection = self._connection(caller, endpoint, web)
                post = Post(web, connection)
                work = self._on(connection, caller, endpoint, read, post.line())
        except McpFault as fault:
            await answer(web, fault.http, error_frame(read.id, fault))
            return
        except Fault as fault:
            await answer(web, fault.http, error_frame(read.id, McpFault.of(fault)))
            return
        await self._settle(work, post)

    def answered(
        self,
        caller: Caller,
        endpoint: Endpoint,
        asked: Asked,
        line: Channel,
        begun: Run | None,
        post: Post,
    ) -> Coroutine[Any, Any, None]:
        """Answer a request of the modern era, whose call may go on already."""
        return self._settle(self._answer(caller, endpoint, asked, line, begun), post)

    async def _settle(self, work: Coroutine[Any, Any, tuple[int, bytes]], post: Post) -> None:
        """Answer with what work comes to."""
        try:
            waits_for = work.send(None)
        except StopIteration as ended:
            status, frame = ended.value
        else:
            # Only now does anybody have to look after its client.
            status, frame = await self._patiently(post, going_on(work, waits_for))
        await post.finish(status, frame)

    def _patiently(self, post: Post, work: Awaitable[T]) -> Coroutine[Any, Any, T]:
        return post.patiently(work, self.heart, self.patience)

    async def _answer(
        self,
        caller: Caller,
        endpoint: Endpoint,
        asked: Asked,
        line: Channel,
        begun: Run | None = None,
    ) -> tuple[int, bytes]:
        """The status and the text of what answers a request."""
        try:
            result = await self.dispatcher.answer(caller, endpoint, asked, line, begun)
            return 200, jsonrpc.result(asked.id, encode(result))
        except McpFault as fault:
            return fault.http, error_frame(asked.id, fault)
        except Fault as fault:
            return fault.http, error_frame(asked.id, McpFault.of(fault))
        except Exception:
            return _broken(asked)

    async def _on(
        self,
        connection: Connection,
        caller: Caller,
        endpoint: Endpoint,
        read: Request,
        line: Line,
    ) -> tuple[int, bytes]:
        """The same in the handshake era, where an error is an answer like others."""
        try:
            asked = connection.read(read)
            connection.begin(read.id, line)
        except McpFault as fault:
            return 200, error_frame(read.id, fault)
        try:
            _, frame = await self._answer(caller, endpoint, asked, line)
            return 200, frame
        finally:
            connection.end(read.id)

    async def _initialize(
        self, caller: Caller, endpoint: Endpoint, web: Web, read: Request
    ) -> None:
        """Agree on a revision, and open a connection."""
        asked = asked_handshake(read.id, read.method, read.params, version=LATEST_HANDSHAKE)
        result = await self.dispatcher.answer(caller, endpoint, asked, Line(_NOWHERE, None))
        version: Any = result.get("protocolVersion")
        connection = self.connections.open(caller, endpoint, asked, version)
        body = jsonrpc.result(read.id, encode(result))
        await reply(web.send, 200, body, [(b"mcp-session-id", connection.id.encode())])

    async def _batch(self, caller: Caller, endpoint: Endpoint, web: Web, items: list[Any]) -> None:
        """Several messages in one POST, which one revision has."""
        connection = self._connection(caller, endpoint, web)
        if connection.version != BATCHES:
            raise Fault("not_a_request", "this revision has no batches. Send one message")
        if not 1 <= len(items) <= MOST_IN_BATCH:
            text = f"a batch of {len(items)} messages. Send 1 to {MOST_IN_BATCH} in it"
            raise Fault("not_a_request", text)
        post = Post(web, connection)
        works: list[Coroutine[Any, Any, tuple[int, bytes]]] = []
        frames: list[bytes] = []
        for item in items:
            read = jsonrpc.message(item)
            if type(read) is Wrong or (type(read) is Request and _no_member(read)):
                fault = Fault("not_a_request", getattr(read, "message", "not in a batch"))
                frames.append(error_frame(read.id, McpFault.of(fault)))
            elif type(read) is Request:
                works.append(self._on(connection, caller, endpoint, read, post.line()))
            else:
                await self._take(caller, endpoint, connection, read)
        if works:
            together = asyncio.gather(*works)
            frames += [frame for _, frame in await self._patiently(post, together)]
        if not frames:
            await reply(web.send, 202, b"")
        elif post.streaming:
            for frame in frames:
                post.push(frame)
            await post.close()
        else:
            await post.finish(200, jsonrpc.batch(frames))

    # The rest.

    async def _get(self, caller: Caller, endpoint: Endpoint, web: Web) -> None:
        if b"mcp-session-id" not in web.head or is_modern(web.head, None):
            raise Fault("method_not_allowed", "without Mcp-Session-Id this address takes POST only")
        check_accept(web.head, _EVENTS)
        connection = self._connection(caller, endpoint, web)
        await self.held.resume(connection, caller, web)

    async def close(self) -> None:
        """Let what clients asked for end, as the host does, and then their connections. Nobody is
        asked anything more."""
        self.held.close()
        self.connections.refuse_questions()
        await self.dispatcher.stop()
        end = time.monotonic() + self._service.host.settings.drain
        while self.connections.busy and time.monotonic() < end:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK)
        self.connections.close()
        self.heart.stop()
        self.patience.stop()


class _Nowhere:
    """Where nothing is said."""

    def push(self, frame: bytes) -> None:
        _log.debug("nobody is there yet to be told %d bytes", len(frame))


_NOWHERE = _Nowhere()


def _no_member(read: Request) -> bool:
    """Whether a request may not be in a batch."""
    return read.id is None or read.method == "initialize"


def _broken(asked: Asked) -> tuple[int, bytes]:
    """The answer where something of ours failed, which is what runs at this moment."""
    _log.exception("the MCP method %s failed", asked.method)
    return 500, error_frame(asked.id, McpFault.of(Fault("unexpected_failure")))
