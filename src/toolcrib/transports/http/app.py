"""The ASGI application: Host and Origin first, then who asks, then what for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from toolcrib.core.serving import HttpSettings, Listen
from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault
from toolcrib.transports.http.answers import Headers, Receive, Scope, Send, reply, reply_fault
from toolcrib.transports.http.body import Gone
from toolcrib.transports.http.calling import Calling
from toolcrib.transports.http.exchange import CONNECTION, DONE, Exchange
from toolcrib.transports.http.guard import Guard, is_forwarded, read_head
from toolcrib.transports.http.heads import Plain
from toolcrib.transports.http.listening import is_loopback
from toolcrib.transports.http.public import Public
from toolcrib.transports.http.query import read_query
from toolcrib.transports.http.rest import Rest
from toolcrib.transports.http.routes import Found, Routes, allowed
from toolcrib.transports.identity.identity import Identity, Known, Peer
from toolcrib.transports.service import Service

if TYPE_CHECKING:
    from toolcrib.transports.http.connection import Connection
    from toolcrib.transports.mcp.entrance import Entrance

Work = Coroutine[Any, Any, None]
_log = logging.getLogger("toolcrib")
BEARER = "toolcrib.bearer."
"""A WebSocket subprotocol of this beginning carries a token: browsers can send no header."""
_CALL = "/v1/tools/"
_MCP = ("/mcp/", "/.well-known/oauth-protected-resource")
_UNUSUAL = frozenset(
    (b"prefer", b"idempotency-key", b"content-encoding", b"origin", b"sec-fetch-site", b"expect")
)
"""Headers that ask for more than a plain call."""
_SHARED_HEADERS = (
    b"authorization, content-type, idempotency-key, if-none-match, last-event-id, prefer"
)
_EXPOSED = (
    b"etag, location, mcp-session-id, preference-applied, retry-after, toolcrib-call-id, "
    b"www-authenticate"
)


def create_app(service: Service, identity: Identity, addresses: Iterable[Listen] = ()) -> App:
    """The HTTP door as an ASGI application; `addresses` are those it was really given."""
    return App(service, identity, addresses)


class App:
    """Everything that is reached over HTTP."""

    def __init__(self, service: Service, identity: Identity, addresses: Iterable[Listen]) -> None:
        self._service = service
        self._identity = identity
        self._addresses = tuple(addresses)
        settings = service.settings.http
        self._routes = Routes()
        self._calling = Calling(service, settings)
        self._rest = Rest(service, settings)
        self._public = Public(service, settings)
        self._guard = Guard(settings, self._addresses)
        self._entrance: Entrance | None = None
        """Of MCP, once somebody came to it."""

    def renew(self, settings: HttpSettings) -> None:
        """Go by these settings from now on."""
        self._guard = Guard(settings, self._addresses)
        self._calling.settings = self._rest.settings = self._public.settings = settings
        if self._entrance is not None:
            self._entrance.renew()

    async def close(self) -> None:
        """End the streams that would stay open, because the host stops."""
        if self._entrance is not None:
            await self._entrance.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "http":
            await self.http(scope, receive, send)
        elif kind == "websocket":
            await self._websocket(scope, receive, send)
        elif kind == "lifespan":
            await _lifespan(receive, send)

    def plain(self, connection: Connection, exchange: Exchange) -> Plain | None:
        """What the head of a plain call says; None for any other. Whatever is unusual about a
        request, and whatever is wrong with it, is left to `http`."""
        scope: Any = exchange.scope
        path: str = scope["path"]
        mcp = path == "/mcp" or path.startswith("/mcp/")
        called = mcp or (path.startswith(_CALL) and path.endswith("/call"))
        if scope["method"] != "POST" or not called:
            return None
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        head = dict(headers)
        if (
            len(head) != len(headers)
            or connection.peer is not None
            or scope["query_string"]
            or b"%" in scope["raw_path"]
            or not (mcp or ("/" not in path[10:-5] and path[10:-5]))
            or head.get(b"content-type") != b"application/json"
            or not _UNUSUAL.isdisjoint(head)
            or not self._guard.plain(head)
        ):
            return None
        known = self._known(head, connection.door, connection.loopback)
        if known is None:
            return None
        return Plain(scope, head, self._guard, known, None if mcp else path[10:-5])

    def quick(self, plain: Plain, exchange: Exchange) -> Any:
        """The work of a plain call, `DONE` when it is answered already or goes on by itself, or
        None: `http` then looks closely."""
        if plain.guard is not self._guard or not self._identity.holds(plain.known):
            return None
        body = bytes(exchange.body)
        if plain.name is not None:
            work: Any = self._calling.quick(plain.known.caller, plain.name, body, exchange)
        elif self._entrance is not None:
            work = self._entrance.quick(plain, body, exchange)
        else:
            return None
        return work if work is None or work is DONE else self.safely(work, exchange)

    async def safely(self, work: Work, exchange: Exchange) -> None:
        """Do the work of a request, and answer it in any case."""
        try:
            await work
        except asyncio.CancelledError:
            exchange.break_off(Fault("host_stopping"))
        except Exception:
            scope: Any = exchange.scope
            _log.exception("%s %s failed", scope["method"], scope["path"])
            send: Any = exchange.send
            await self._refuse(Fault("unexpected_failure"), exchange, send)

    async def http(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One HTTP request; our own server comes straight here."""
        connection = scope.get(CONNECTION)
        exchange: Exchange | None = None
        began: Any
        if connection is None:
            began = send = _Watched(send)
        else:
            began = exchange = connection.running
        try:
            head = read_head(scope["headers"])
            self._guard.check(head, scope)
            shared = self._guard.shares(head)
            if shared is not None:
                send, exchange = _sharing(send, shared), None
            path: str = scope["path"]
            if scope["method"] == "POST" and path.startswith(_CALL) and path.endswith("/call"):
                name = path[10:-5]
                # An escaped slash is no slash: what is escaped is taken apart before it is read.
                if name and "/" not in name and b"%" not in (scope.get("raw_path") or b""):
                    caller = None
                    if connection is not None and connection.peer is None:
                        known = self._known(head, connection.door, connection.loopback)
                        caller = None if known is None else known.caller
                    if caller is None:
                        caller = await self._caller(head, scope, connection)
                    query: bytes = scope["query_string"]
                    await self._calling.call(caller, name, head, query, exchange, receive, send)
                    return
            if path == "/mcp" or path.startswith(_MCP):
                await self._mcp(scope, head, connection, exchange, receive, send)
                return
            await self._other(scope, head, connection, exchange, receive, send)
        except Fault as fault:
            if began is exchange and fault.reason in ("request_too_large", "request_timeout"):
                began.linger()
            await self._refuse(fault, began, send)
        except Gone:
            pass
        except asyncio.CancelledError:
            # Only the end of the server gets here: calls end with a result.
            if exchange is None:
                raise
            exchange.break_off(Fault("host_stopping"))
        except Exception:
            _log.exception("%s %s failed", scope["method"], scope["path"])
            await self._refuse(Fault("unexpected_failure"), began, send)

    async def _refuse(self, fault: Fault, began: Any, send: Send) -> None:
        """Say what is wrong, unless an answer has begun already: then it is broken off."""
        if not began.response_started:
            await reply_fault(send, fault)
        elif not began.response_complete:
            began.transport.close()

    async def _other(
        self,
        scope: Scope,
        head: Mapping[bytes, bytes],
        connection: Any,
        exchange: Exchange | None,
        receive: Receive,
        send: Send,
    ) -> None:
        verb: str = scope["method"]
        if verb == "HEAD":
            send = _without_body(send)
        if await self._public.answer(scope, head, send):
            return
        if scope["path"] == "/metrics":
            caller = await self._caller(head, scope, connection)
            await self._public.metrics(caller, scope, send)
            return
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        found = self._routes.find(raw)
        if verb == "OPTIONS":
            headers = [(b"allow", allowed(found.places)), *_preflight(found, head)]
            await reply(send, 204, b"", headers)
            return
        place = found.places.get(verb)
        if place is None:
            fault = Fault(
                "method_not_allowed", f"this address takes {allowed(found.places).decode()}"
            )
            await reply_fault(send, fault, [(b"allow", allowed(found.places))])
            return
        caller = await self._caller(head, scope, connection)
        query: bytes = scope["query_string"]
        if found.stream is not None:
            await self._stream(found, caller, head, query, connection, receive, send)
        elif place.method is not None and place.method.name == "tools.call":
            name = found.values["name"]
            await self._calling.call(caller, name, head, query, exchange, receive, send)
        else:
            await self._rest.answer(
                caller, verb, place, found.values, head, query, exchange, receive, send
            )

    async def _mcp(
        self,
        scope: Scope,
        head: Mapping[bytes, bytes],
        connection: Any,
        exchange: Exchange | None,
        receive: Receive,
        send: Send,
    ) -> None:
        entrance = self._entrance
        if entrance is None:
            from toolcrib.transports.mcp.entrance import Entrance

            entrance = self._entrance = Entrance(self._service)
        cut = None if connection is None else connection.transport.abort
        web = entrance.web(head, exchange, receive, send, cut)
        if await entrance.open_to_all(scope, web):
            return
        caller = None
        if connection is not None and connection.peer is None:
            known = self._known(head, connection.door, connection.loopback)
            caller = None if known is None else known.caller
        if caller is None:
            try:
                caller = await self._caller(head, scope, connection)
            except Fault as fault:
                await entrance.refuse(fault, scope, web)
                return
        await entrance.answer(caller, scope, web)

    async def _stream(
        self,
        found: Found,
        caller: Caller,
        head: Mapping[bytes, bytes],
        query_string: bytes,
        connection: Any,
        receive: Receive,
        send: Send,
    ) -> None:
        if found.stream == "websocket":
            raise Fault("not_a_request", "this address takes WebSockets")
        from toolcrib.transports.http.sse import serve_events

        one = "id" in found.values
        query = read_query(
            query_string, ("types", "after") if one else ("types", "after", "call_id")
        )
        if one:
            query["call_id"] = found.values["id"]
        last = head.get(b"last-event-id")
        text = None if last is None else last.decode("latin-1")
        cut = None if connection is None else connection.transport.abort
        await serve_events(self._service, caller, query, text, receive, send, cut)

    def _known(self, head: Mapping[bytes, bytes], door: str, loopback: bool) -> Known | None:
        """Who asks, if that is known without waiting."""
        authorization = head.get(b"authorization")
        if loopback and is_forwarded(head):
            loopback = False
        return self._identity.known(authorization, door, loopback)

    async def _caller(self, head: Mapping[bytes, bytes], scope: Scope, connection: Any) -> Caller:
        """Who asks. Raises `Fault`."""
        authorization = head.get(b"authorization")
        peer: Peer | None = None
        if connection is not None:
            door, loopback, peer = connection.door, connection.loopback, connection.peer
        else:
            door = "http"
            loopback = is_loopback(scope.get("client")) and is_loopback(scope.get("server"))
        if is_forwarded(head):
            loopback, peer = False, None  # both are the proxy's
        return await self._identity.identify(authorization, door=door, loopback=loopback, peer=peer)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            head = read_head(scope["headers"])
            self._guard.check(head, scope)
            raw: bytes = scope.get("raw_path") or scope["path"].encode()
            if self._routes.find(raw).stream != "websocket":
                raise Fault("unknown_method", "WebSockets are at /v1/ws")
            read_query(scope["query_string"], ())
            token = _offered_token(scope)
            if token is not None and b"authorization" not in head:
                head[b"authorization"] = b"Bearer " + token
            caller = await self._caller(head, scope, scope.get(CONNECTION))
        except Fault as fault:
            await receive()
            await reply_fault(_handshake(send), fault)
            return
        except Exception:
            _log.exception("opening a WebSocket failed")
            await receive()
            await reply_fault(_handshake(send), Fault("unexpected_failure"))
            return
        from toolcrib.transports.websocket import serve_websocket

        await serve_websocket(self._service, caller, scope, receive, send)


class _Watched:
    """Another server's `send`, of which it is known how far the answer is."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.response_started = False
        self.response_complete = False
        self.transport = self

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        self.response_started = True
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self.response_complete = True
        await self._send(message)

    def close(self) -> None:
        """What breaks an answer off there is that the application fails."""
        raise RuntimeError("the answer broke off")


def _offered_token(scope: Scope) -> bytes | None:
    offered: list[str] = scope.get("subprotocols") or []
    for protocol in offered:
        if protocol.startswith(BEARER):
            return protocol.removeprefix(BEARER).encode("latin-1", "replace")
    return None


def _preflight(found: Found, head: Mapping[bytes, bytes]) -> Headers:
    if b"access-control-request-method" not in head:
        return []
    return [
        (b"access-control-allow-methods", allowed(found.places)),
        (b"access-control-allow-headers", _SHARED_HEADERS),
        (b"access-control-max-age", b"600"),
    ]


def _sharing(send: Send, origin: bytes) -> Send:
    """Let a page of a configured origin read the answer."""
    more: Headers = [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", _EXPOSED),
        (b"vary", b"Origin"),
    ]

    async def sharing(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *more]
        await send(message)

    return sharing


def _without_body(send: Send) -> Send:
    async def bare(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.body":
            message["body"] = b""
        await send(message)

    return bare


def _handshake(send: Send) -> Send:
    """Answers to a WebSocket's opening are HTTP answers under other names."""

    async def answering(message: MutableMapping[str, Any]) -> None:
        message["type"] = f"websocket.{message['type']}"
        await send(message)

    return answering


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
