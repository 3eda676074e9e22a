"""Clients of the handshake era: what was agreed on, what waits for them, and when they are over."""

from __future__ import annotations

import asyncio
import base64
import os
import time
from collections import OrderedDict
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from toolcrib.core.link import InputRefused
from toolcrib.protocol import jsonrpc
from toolcrib.protocol.jsonrpc import Id, Request, Response
from toolcrib.protocol.mcp.codes import INTERNAL_ERROR
from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault
from toolcrib.transports.mcp.asked import Asked, Endpoint, asked_handshake
from toolcrib.transports.mcp.faults import McpFault
from toolcrib.transports.mcp.line import Line, Sink, encode

if TYPE_CHECKING:
    from toolcrib.transports.mcp.dispatcher import Dispatcher
    from toolcrib.transports.mcp.streams import Stream
    from toolcrib.transports.mcp.watching import Watch
    from toolcrib.transports.service import Service

MOST_ASKED = 100
"""Questions to one client that are not answered yet."""
MOST_IN_BATCH = 100
"""Messages that come together, where there are batches."""
MOST_REQUESTS = 1000
"""Requests of one client that are not answered yet."""
MOST_STREAMS = 32
"""Streams of one client that wait to be resumed; the oldest make room."""
PRIMED = "2025-11-25"
"""From this revision on, clients understand an event without a message."""
_PAUSE = 30.0
"""Seconds between two looks for connections that are over, at most."""


class Connection:
    """A client since its `initialize`, whatever the transport."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        caller: Caller,
        endpoint: Endpoint,
        asked: Asked,
        version: str,
        sink: Sink | None = None,
    ) -> None:
        """`sink` takes what belongs to no request; unset: a stream that the client may open."""
        params = asked.params
        self.id = base64.urlsafe_b64encode(os.urandom(24)).decode()
        self.caller = caller
        """Who made its last request; always the same principal."""
        self.endpoint = endpoint
        self.version = version
        self.capabilities: Mapping[str, Any] = _object(params.get("capabilities")) or {}
        self.client: Mapping[str, Any] | None = _object(params.get("clientInfo"))
        self.log_level: str | None = None
        self.uris: set[str] = set()
        """Resources whose changes it wants to be told."""
        self.lines: dict[Id, Line] = {}
        """Its requests that are not answered yet."""
        self.closed = False
        self.began = self.seen = time.monotonic()
        self._sink: Sink = sink or self.general
        self._dispatcher = dispatcher
        self._watch: Watch | None = None
        self._asked: dict[Id, asyncio.Future[Response]] = {}
        self._count = 0
        self._streams: OrderedDict[str, Stream] = OrderedDict()

    @cached_property
    def general(self) -> Stream:
        """Where an HTTP client is told what belongs to no request."""
        return self._stream("0")

    def _stream(self, id: str) -> Stream:
        from toolcrib.transports.mcp import streams

        return streams.Stream(id, primed=self.version >= PRIMED)

    def renew(self, caller: Caller) -> None:
        """Somebody came: the same principal, perhaps with newer credentials."""
        self.seen = time.monotonic()
        if caller is not self.caller:
            self.caller = caller
            if self._watch is not None:
                self._watch.caller = caller

    # Requests of the client.

    def read(self, request: Request) -> Asked:
        """A request with what the client said of itself when it came. Raises `McpFault`."""
        return asked_handshake(
            request.id,
            request.method,
            request.params,
            version=self.version,
            capabilities=self.capabilities,
            client=self.client,
            log_level=self.log_level,
        )

    def begin(self, id: Id, line: Line) -> None:
        """A request that is not answered yet. Raises `McpFault`."""
        if id in self.lines:
            text = "a request with this id is not answered yet. Use another one"
            raise McpFault(jsonrpc.INVALID_REQUEST, text)
        if len(self.lines) >= MOST_REQUESTS:
            raise McpFault.of(Fault("too_many_calls", f"{MOST_REQUESTS} requests are open"))
        self.lines[id] = line

    def end(self, id: Id) -> None:
        """It is answered."""
        self.lines.pop(id, None)
        self.seen = time.monotonic()

    def cancelled(self, params: Any) -> None:
        """The client wants one of its requests stopped."""
        wanted: Any = _object(params) or {}
        asked = wanted.get("requestId")
        line = self.lines.get(asked) if type(asked) in (str, int) else None
        if line is not None:
            line.leave()

    # Requests to the client.

    async def ask(self, method: str, params: Mapping[str, Any], sink: Sink | None = None) -> Any:
        """Ask the client, where a request of its own is answered or outside of any. Raises
        `McpFault` for an error that it answered, `InputRefused` where it cannot be asked."""
        if self.closed:
            raise InputRefused("the client went away")
        if len(self._asked) >= MOST_ASKED:
            raise InputRefused(f"the client has not answered {MOST_ASKED} questions")
        self._count += 1
        name, sink = self._count, sink or self._sink
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._asked[name] = future
        try:
            sink.push(jsonrpc.request(name, method, encode(params)))
            answer = await future
        except asyncio.CancelledError:
            if not self.closed:
                told = encode({"requestId": name, "reason": "the answer is not needed any more"})
                sink.push(jsonrpc.notification("notifications/cancelled", told))
            raise
        finally:
            self._asked.pop(name, None)
        if answer.error is None:
            return answer.result
        code, message = answer.error.get("code"), answer.error.get("message")
        raise McpFault(
            code if type(code) is int else INTERNAL_ERROR,
            message if type(message) is str else "the client answered with an error",
            answer.error.get("data"),
        )

    def answered(self, read: Response) -> None:
        """The client answered a question; late answers count nothing."""
        future = self._asked.get(read.id)
        if future is not None and not future.done():
            future.set_result(read)

    def refuse_questions(self) -> None:
        """The client will not answer any more."""
        for future in list(self._asked.values()):
            if not future.done():
                future.set_exception(InputRefused("the client went away"))

    # What belongs to no request.

    def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell the client something that belongs to no request."""
        if not self.closed and not self.caller.badge.over:
            self._sink.push(jsonrpc.notification(method, encode(params)))

    def follow(self) -> None:
        """Be told of what changes, from now on or by other wishes than before."""
        from toolcrib.transports.mcp.watching import Wanted

        wanted = Wanted(
            tools=True,
            prompts=True,
            resources=True,
            uris=frozenset(self.uris),
            messages=self.log_level,
        )
        if self._watch is not None:
            self._watch.renew(wanted)
        elif not self.closed:
            changes = self._dispatcher.changes
            self._watch = changes.watch(self.caller, self.endpoint, wanted, self.tell)

    # Streams that can be resumed.

    def new_stream(self) -> Stream:
        """A stream for the answer to a POST."""
        self._count += 1
        stream = self._stream(f"{self._count:x}")
        self._streams[stream.id] = stream
        while len(self._streams) > MOST_STREAMS:
            ended = next((s for s in self._streams.values() if s.ended), None)
            if ended is None:
                break
            self.drop(ended)
        return stream

    def stream(self, id: str) -> Stream | None:
        """A stream that may be resumed."""
        return self.general if id == "0" else self._streams.get(id)

    def drop(self, stream: Stream) -> None:
        """It is not resumed any more."""
        self._streams.pop(stream.id, None)

    # Its end.

    @property
    def busy(self) -> bool:
        """Whether the client is doing something here."""
        return bool(self.lines) or ("general" in vars(self) and self.general.attached)

    def close(self) -> None:
        """Stop what it asked for and send it away. Calling it again does nothing."""
        if self.closed:
            return
        self.closed = True
        if self._watch is not None:
            self._watch.close()
        self.refuse_questions()
        for line in list(self.lines.values()):
            line.leave()
        if "general" in vars(self):
            self.general.close()
        for stream in self._streams.values():
            stream.close()
        self._streams.clear()


class Connections:
    """The connections of the HTTP door: bound to who opened them, counted, and over when their time
    is up."""

    def __init__(self, service: Service, dispatcher: Dispatcher) -> None:
        self._service = service
        self._dispatcher = dispatcher
        self._all: dict[str, Connection] = {}
        self._of: dict[str, dict[str, Connection]] = {}
        """The same by principal."""
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._all)

    def open(
        self,
        caller: Caller,
        endpoint: Endpoint,
        asked: Asked,
        version: str,
        sink: Sink | None = None,
    ) -> Connection:
        """A new one. Raises `Fault` when its principal has too many that are in use; one that is
        not makes room."""
        mine = self._of.setdefault(caller.principal.name, {})
        most = self._service.settings.sessions.per_principal
        if len(mine) >= most:
            idle = min((each for each in mine.values() if not each.busy), key=_seen, default=None)
            if idle is None:
                text = f"{caller.principal.name} has {most} MCP connections in use; close one"
                raise Fault("too_many_sessions", text)
            self.end(idle)
            mine = self._of.setdefault(caller.principal.name, {})
        made = Connection(self._dispatcher, caller, endpoint, asked, version, sink)
        self._all[made.id] = mine[made.id] = made
        if self._timer is None:
            self._arm()
        return made

    def find(self, caller: Caller, endpoint: Endpoint, id: str) -> Connection:
        """The caller's own connection of that id. Raises `Fault`; it says the same of somebody
        else's as of one that never was."""
        found = self._all.get(id)
        if found is not None and self._over(found, time.monotonic()):
            self.end(found)
            found = None
        if found is None or _of(found) != caller.principal.name or found.endpoint != endpoint:
            raise Fault("not_found", "there is no such MCP session. Initialize again")
        found.renew(caller)
        return found

    def end(self, connection: Connection) -> None:
        """It is over."""
        connection.close()
        if self._all.pop(connection.id, None) is None:
            return
        mine = self._of[_of(connection)]
        del mine[connection.id]
        if not mine:
            del self._of[_of(connection)]

    @property
    def busy(self) -> bool:
        """Whether requests of theirs are not answered yet."""
        return any(each.lines for each in self._all.values())

    def refuse_questions(self) -> None:
        """Nobody is asked anything any more."""
        for each in self._all.values():
            each.refuse_questions()

    def close(self) -> None:
        """End all."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for each in list(self._all.values()):
            self.end(each)

    def _over(self, one: Connection, now: float) -> bool:
        settings = self._service.settings.sessions
        idle = not one.busy and now - one.seen > settings.idle
        return idle or now - one.began > settings.absolute

    def _arm(self) -> None:
        settings = self._service.settings.sessions
        pause = min(_PAUSE, settings.idle / 2, settings.absolute / 2)
        self._timer = asyncio.get_running_loop().call_later(pause, self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        now = time.monotonic()
        for each in list(self._all.values()):
            if self._over(each, now) or each.caller.badge.over:
                self.end(each)
        if self._all:
            self._arm()


def _of(connection: Connection) -> str:
    return connection.caller.principal.name


def _seen(connection: Connection) -> float:
    return connection.seen


def _object(value: Any) -> dict[str, Any] | None:
    return cast("dict[str, Any]", value) if type(value) is dict else None
