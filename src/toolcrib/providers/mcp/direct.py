"""Plain calls of a modern server over HTTP: what all of them share is written once.

What is unusual about a call, and whatever a server answers that is not a plain result, goes the
long way, by `Session.request` and `HttpWire`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from toolcrib.core.context import ToolContext
from toolcrib.core.jsontext import is_plain, is_whole
from toolcrib.errors import Denial, ToolFailure
from toolcrib.net.exchange import REDIRECTS, Request
from toolcrib.protocol.mcp import keys
from toolcrib.providers.mcp.exchange import (
    IN_THREAD,
    MAX_DEPTH,
    Behalf,
    Exchange,
    Lost,
    encode,
)
from toolcrib.providers.mcp.http import HttpWire
from toolcrib.providers.mcp.session import CLIENT, Session

if TYPE_CHECKING:
    from toolcrib.net.quick import Place
    from toolcrib.net.quickwire import QuickStream

_MOST = 4096
"""Tools whose requests are kept ready."""
_BODY = (
    b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%b,"arguments":%b,'
    b'"_meta":{"progressToken":%d,%b,"' + keys.CAPABILITIES.encode() + b'":%b}}}'
)


class Direct:
    """The short way to one server, for as long as a session with it lasts."""

    def __init__(self, session: Session, wire: HttpWire, place: Place) -> None:
        self.session = session
        self._wire = wire
        self._place = place
        about = {keys.VERSION: session.version, keys.CLIENT: CLIENT}
        self._about = encode(about)[1:-1]
        self._ready: dict[str, tuple[Request, bytes, bytes]] = {}
        """By tool: the request, its head up to the length, and the tool's name as JSON."""
        self._nothing = encode(session.asking.mirrored(None))
        self._most = min(IN_THREAD, wire.max_message)
        self._leads_away = False
        """Whether the server sends us elsewhere."""

    def begin(
        self, tool: str, ctx: ToolContext, behalf: Behalf
    ) -> tuple[Exchange, QuickStream] | None:
        """Send a call, whose answer is then to be waited for. None when nothing was sent: there is
        no connection at the moment, or the caller said something that has to be passed on."""
        link, session = behalf.link, self.session
        can = self._nothing
        if link is not None:
            if link.meta or link.log_level is not None:
                return None
            if link.capabilities:
                can = encode(session.asking.mirrored(link))
        if session.lost is not None or self._leads_away:
            return None
        ready = self._ready.get(tool) or self._prepare(tool)
        number = next(session.ids)
        request, head, name = ready
        arguments = ctx.encoded or encode(ctx.arguments)
        body = _BODY % (number, name, arguments, number, self._about, can)
        stream = self._place.send(request, b"%b%d\r\n\r\n%b" % (head, len(body), body))
        if stream is None:
            return None
        exchange = Exchange(number, "tools/call", _NOTHING, behalf=behalf, version=session.version)
        exchange.sent = True
        behalf.note(exchange)
        session.flights[number] = exchange
        return exchange, stream

    def read(self, exchange: Exchange, stream: QuickStream) -> dict[str, Any] | None:
        """The result, where the answer is whole and plain; else it is to be read closely."""
        body = stream.all_there
        if body is None or stream.status != 200 or len(body) > self._most:
            return None
        if stream.headers.get("content-type") != "application/json":
            return None
        found = _read(body)
        if found is None or found.id != exchange.id:
            return None
        exchange.answered = True
        return found.result

    async def read_closely(self, exchange: Exchange, stream: QuickStream) -> dict[str, Any]:
        """The result of any other answer."""
        if stream.status in REDIRECTS and "location" in stream.headers:
            self._leads_away = True  # the long way follows it
            # By any other status the server may say where to read what the call came to.
            exchange.sent = stream.status not in (307, 308)
            raise Lost(f"{stream.request.words} was redirected")
        return await self._wire.answer(stream, exchange)

    def end(self, exchange: Exchange, stream: QuickStream) -> None:
        """The call is over; a server that did not answer sees that nobody waits any more."""
        self.session.flights.pop(exchange.id, None)
        if not exchange.answered:
            stream.close()

    def _prepare(self, tool: str) -> tuple[Request, bytes, bytes]:
        from toolcrib.net.quick import lines_of

        if len(self._ready) >= _MOST:
            self._ready.clear()
        params = {"name": tool}
        exchange = Exchange(0, "tools/call", params, version=self.session.version)
        request = self._wire.request(exchange)
        made = self._ready[tool] = (
            request,
            lines_of(request) + b"Content-Length: ",
            encode(tool),
        )
        return made


_NOTHING: dict[str, Any] = {}


class _Answer(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An answer as nearly every server writes it."""

    jsonrpc: Literal["2.0"]
    id: int
    result: dict[str, Any]


_decode = msgspec.json.Decoder(_Answer).decode


def _read(body: bytes) -> _Answer | None:
    """A plain answer; None for any other, which is looked at closely. Why the text is then strict
    JSON, `core.jsontext.parse_quickly` says."""
    if not is_plain(body, MAX_DEPTH):
        return None
    try:
        found = _decode(body)
        return found if is_whole(body, encode(found)) else None
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return None


def direct_to(session: Session) -> Direct | None:
    """The short way to a server, if there is one."""
    wire = session.wire
    if session.era != "modern" or not isinstance(wire, HttpWire):
        return None
    try:
        place = wire.place()
    except (Denial, ToolFailure):
        return None  # said with the first request
    return None if place is None else Direct(session, wire, place)
