"""Our part of the server: uvicorn's protocols with limits, clocks and the peer's identity added."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import struct
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import httptools
import msgspec
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from toolcrib.net.framing import Parts
from toolcrib.transports.faults import Fault
from toolcrib.transports.http.answers import JSON_HEAD, refuse
from toolcrib.transports.http.exchange import CONNECTION, DONE, Exchange, Turning, hang_up
from toolcrib.transports.http.heads import Heads, Plain
from toolcrib.transports.http.listening import is_loopback
from toolcrib.transports.identity.identity import Peer
from toolcrib.transports.outgoing import round_of

if TYPE_CHECKING:
    from toolcrib.transports.http.server import HttpDoor

MOST_HEADERS = 128
MOST_QUEUED = 16
"""Requests behind the one being answered. While more could come, it is read on: whoever does not
read does not notice either that the client left."""
MOST_PILED = 512
"""Requests that come in one piece before reading can pause; nobody honest sends that many."""
LAST_WORDS = 5.0
"""Seconds for a WebSocket's client to take what was sent last."""
_ASGI = {"version": "3.0", "spec_version": "2.3"}
_PLAIN = re.compile(rb"/[A-Za-z0-9/_.~:@-]*").fullmatch
"""A path that needs no parser: nothing is escaped in it and nothing follows it."""
_WITH_BODY = (b"content-length", b"transfer-encoding")
_VERSIONS = ("1.1", "1.0")
_CREDENTIALS = struct.Struct("3i")
_UNHEARD = logging.getLogger("toolcrib.unheard")
_UNHEARD.disabled = True


class Connection(HttpToolsProtocol):
    """One connection. Its clock is the door's sweep: no timer of its own, none per request."""

    def __init__(self, server: HttpDoor, door: str) -> None:
        super().__init__(server.config, server.state, {}, server.loop)
        self.owner = server
        self._app: Any = server.app
        self.door = door
        """`http` or `unix`."""
        self.peer: Peer | None = None
        """Who is at the other end of a unix socket."""
        self.loopback = False
        """Whether both ends are this machine's."""
        self.running: Exchange | None = None
        """The request that is being answered; more may be queued behind it."""
        self._unbegun: Exchange | None = None
        """The running one, until all that came with it is read."""
        self._between = True
        """Whether the parser waits for the first byte of a request."""
        self._heads = Heads()
        self._partial: tuple[Plain, Parts] | None = None
        """A request whose head is known and whose body is not all there."""
        self.deaf = False
        """Nothing more is read: what came was wrong."""
        self._waits_since = 0.0
        """Since when a request is awaited; 0 while one is answered."""
        self._in_head = True
        """Whether a head has begun and not ended; so counts a connection that sent nothing yet."""
        self._head_bytes = 0
        self._stalled_since = 0.0
        """Since when the client takes nothing of what is written; 0 while it does."""

    # The connection.

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        turning: Any = Turning(transport, round_of(self.loop))
        self.transport = turning
        self._waits_since = self.loop.time()
        if self.door == "unix":
            self.peer = peer_of(transport)
        else:
            self.loopback = is_loopback(self.client) and is_loopback(self.server)
        if len(self.connections) > self.owner.most:
            self.refuse(Fault("too_many_connections"))
            self.transport.close()  # no time for a gentle goodbye

    def connection_lost(self, exc: Exception | None) -> None:
        running, queued = self.running, [cycle for cycle, _ in self.pipeline]
        super().connection_lost(exc)
        self._heads.clear()
        for exchange in (running, *queued):
            if isinstance(exchange, Exchange):
                exchange.lost()

    def data_received(self, data: bytes) -> None:
        if self.deaf:
            return
        whole = self._between and (self.running is None or self.running.response_complete)
        if self._partial is not None:
            plain, parts = self._partial
            parts.add(data)
            if parts.missing > 0:
                return
            self._partial = None
            if parts.missing == 0 and self._again(plain, parts.body):
                return
            data = bytes(parts.data)
        elif whole and (found := self._heads.find(data)) is not None:
            plain, body, missing = found
            if missing:
                self._partial = plain, Parts(data, body, missing)
                self._waits_since = self.loop.time()
                return
            if self._again(plain, body):
                return
        if self._in_head:
            self._head_bytes += len(data)
        parser: Any = self.parser
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            if not self.deaf and self._should_upgrade():
                self.handle_websocket_upgrade()
        except httptools.HttpParserError:
            if not self.deaf:
                self.refuse(Fault("not_a_request", "this is not HTTP/1.1"))
        else:
            if self._in_head and self._head_bytes > self.owner.settings.max_headers:
                self.refuse(Fault("head_too_large"))
        if self._unbegun is not None:
            exchange, self._unbegun = self._unbegun, None
            work: Any = None
            plain = self._app.plain(self, exchange)
            if plain is not None:
                if whole and exchange.keep_alive:
                    self._heads.keep(data, plain)
                if not exchange.more_body:
                    work = self._app.quick(plain, exchange)
            if work is not DONE:
                self.go_on(work or exchange.run_asgi(self._app.http))

    def _again(self, plain: Plain, body: bytes) -> bool:
        """Answer a request whose head is known; false when it has to be read after all."""
        if self.owner.closing or self.transport.is_closing():
            return False
        exchange = Exchange(self, plain.scope, expects=False, keep_alive=True)
        whole: Any = body
        exchange.body = whole
        exchange.more_body = False
        work = self._app.quick(plain, exchange)
        if work is None:
            return False
        if not exchange.response_complete:
            self._waits_since = 0.0
            self.cycle = self.running = exchange
        if work is not DONE:
            self.go_on(work)
        return True

    def take_up(self, work: Any, exchange: Exchange) -> None:
        """Go on with a request that went without a task so far."""
        self.go_on(self._app.safely(work, exchange))

    def break_off(self) -> None:
        """End a request that nobody answers any more, because the host stops."""
        if self.running is not None and not self.running.response_complete:
            self.running.break_off(Fault("host_stopping"))

    def go_on(self, work: Any) -> None:
        """Do the work of a request, as a task from where it waits."""
        task = self.owner.starter.start(work)
        if task is not None:
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled_since = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stalled_since = 0.0

    def sweep(self, now: float) -> None:
        """Hang up when a head, the next request or the client's reading has been awaited for too
        long."""
        settings = self.owner.settings
        if self._stalled_since and now - self._stalled_since > settings.keep_alive:
            self.transport.abort()
        if not self._waits_since:
            return
        if self._in_head or self._partial is not None:
            if now - self._waits_since > settings.request_timeout:
                self.refuse(Fault("request_timeout"))
        elif now - self._waits_since > settings.keep_alive:
            self.transport.close()

    def shutdown(self) -> None:
        """Close when nothing is being answered, else after the answer."""
        if self.running is None or self.running.response_complete:
            self.transport.close()
        else:
            self.running.keep_alive = False

    def refuse(self, fault: Fault) -> None:
        """Answer with a fault, after the answers that are still due, and close."""
        self.deaf = True
        self._waits_since = 0.0
        if self.running is not None and not self.running.response_complete:
            scope: dict[str, Any] = {"type": "http", "method": "GET", "headers": []}
            self._queue(self._exchange(scope, "1.0"), refuse(fault))
            return
        body = msgspec.json.encode(fault.result())
        head = (STATUS_LINE[fault.http], b"connection: close\r\n", JSON_HEAD)
        self.transport.write(b"".join((*head, b"%d\r\n\r\n" % len(body), body)))
        hang_up(self.transport)

    # The parser's callbacks.

    def on_message_begin(self) -> None:
        self._between = False
        self.url = b""
        self.expect_100_continue = False
        self.headers = []
        scope: Any = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": "1.1",
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "root_path": "",
            "headers": self.headers,
            CONNECTION: self,
        }
        self.scope = scope
        self._in_head = True
        if self._waits_since:
            self._waits_since = self.loop.time()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._waits_since = 0.0
        many = self._head_bytes > self.owner.settings.max_headers
        self._head_bytes = 0
        if len(self.headers) > MOST_HEADERS or (many and not self._head_fits()):
            self.refuse(Fault("head_too_large"))
            raise _Refused
        scope: Any = self.scope
        parser: Any = self.parser
        version = parser.get_http_version()
        scope["method"] = parser.get_method().decode("ascii")
        scope["http_version"] = version
        if version not in _VERSIONS:
            raise _Refused
        upgrade = parser.should_upgrade()
        if upgrade and self._should_upgrade():
            return
        if _PLAIN(self.url):
            scope["raw_path"], scope["query_string"] = self.url, b""
        else:
            url: Any = httptools.parse_url(self.url)
            if url.path is None or url.fragment is not None:
                raise _Refused
            if url.schema is not None:
                # Written out whole, the address itself says which host is meant.
                named = self.url.partition(b"://")[2].partition(b"/")[0]
                self.headers[:] = [(k, named if k == b"host" else v) for k, v in self.headers]
            scope["raw_path"], scope["query_string"] = url.path, url.query or b""
        path: str = scope["raw_path"].decode("ascii")
        scope["path"] = unquote(path) if "%" in path else path
        if upgrade and any(name in _WITH_BODY for name, _ in self.headers):
            # The parser reads no body behind an upgrade, so the request would come without it.
            self.refuse(Fault("not_a_request", "this protocol is not offered"))
            raise _Refused
        exchange = self._exchange(scope, version)
        if upgrade or self.owner.closing:
            exchange.keep_alive = False
        self.cycle = exchange
        if self.running is None or self.running.response_complete:
            self.running = self._unbegun = exchange
        else:
            if len(self.pipeline) >= MOST_PILED:
                text = f"over {MOST_PILED} requests without waiting for an answer"
                self.refuse(Fault("too_many_calls", text))
                raise _Refused
            if len(self.pipeline) >= MOST_QUEUED:
                self.flow.pause_reading()
            self._queue(exchange, self._app)

    def _head_fits(self) -> bool:
        length = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        return length <= self.owner.settings.max_headers

    def _queue(self, exchange: Exchange, app: Any) -> None:
        self.pipeline.appendleft((exchange, app))

    def _exchange(self, scope: Any, version: str) -> Exchange:
        parser: Any = self.parser
        return Exchange(
            self,
            scope,
            expects=self.expect_100_continue,
            keep_alive=version != "1.0" and parser.should_keep_alive(),
        )

    def _start(self, exchange: Exchange, app: Any) -> None:
        self.running = exchange
        # What runs at this moment is the call that was answered before, perhaps another caller's.
        self.owner.context.run(self._start_asgi_task, exchange, app)

    def on_body(self, body: bytes) -> None:
        exchange: Any = self.cycle
        if exchange is None or exchange.response_complete:
            return
        exchange.body += body
        if len(exchange.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        exchange.came()

    def on_message_complete(self) -> None:
        self._between = True
        exchange: Any = self.cycle
        if exchange is not None and not exchange.response_complete:
            exchange.more_body = False
            exchange.came()

    def on_response_complete(self) -> None:
        """The next request's turn; the door's sweep closes a connection that stays idle."""
        if self.transport.is_closing():
            return
        if self.flow.read_paused and len(self.pipeline) <= MOST_QUEUED:
            self.flow.resume_reading()  # behind more, each answer would let a whole load in
        if self.pipeline:
            exchange, app = self.pipeline.pop()
            self._start(exchange, app)  # pyright: ignore[reportArgumentType]
        elif not self.deaf:
            self._waits_since = self.loop.time()

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over, unless an earlier request is still being answered on it."""
        if self.running is not None and not self.running.response_complete:
            self.refuse(Fault("not_a_request", "open a WebSocket on a connection of its own"))
            return
        self._waits_since = 0.0
        turning: Any = self.transport
        turning.flush()
        self.transport = turning.real
        super().handle_websocket_upgrade()
        upgraded = self.transport.get_protocol()
        if isinstance(upgraded, Socket):
            upgraded.connection = self


class Socket(WebSocketsSansIOProtocol):
    """A connection that became a WebSocket. When it is over, a client that does not read what is
    left is not waited for: closing alone would keep it until the client's system gives up."""

    connection: Connection | None = None
    """What it was before."""

    async def run_asgi(self) -> None:
        self.scope[CONNECTION] = self.connection  # pyright: ignore[reportGeneralTypeIssues]
        app: Any = self.app

        async def answering(scope: Any, receive: Any, send: Any) -> None:
            await app(scope, receive, send)
            if self.initial_response is not None:
                # uvicorn takes a refusal for a handshake that was forgotten, and logs an error.
                self.handshake_complete = True

        self.app = answering
        await super().run_asgi()
        if self.disconnected:
            return
        said = self.close_timer is not None
        if self.close_timer is not None:
            self.close_timer.cancel()
        seconds = self.close_timeout if said else LAST_WORDS
        self.close_timer = self.loop.call_later(seconds, self.transport.abort)

    def keepalive_timeout(self) -> None:
        """As ever, but at once."""
        super().keepalive_timeout()
        self.transport.abort()

    def send_receive_event_to_app(self) -> None:
        """As ever, but bad UTF-8 of a client's leaves no traceback in the operator's log."""
        told, self.logger = self.logger, _UNHEARD
        try:
            super().send_receive_event_to_app()
        finally:
            self.logger = told


class _Refused(Exception):
    """Stops the parser."""


def peer_of(transport: asyncio.Transport) -> Peer | None:
    """The process at the other end of a unix socket, as the kernel knows it."""
    held: socket.socket | None = transport.get_extra_info("socket")
    if held is None:
        return None
    data = held.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(data)
    return Peer(uid=uid, gid=gid, pid=pid)
