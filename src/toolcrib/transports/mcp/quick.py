"""Plain calls over HTTP, the messages that come most: the call itself writes its answer.

Most are over in the moment they come. Of those that wait, most wait for their own end only, and so
nobody has to wait for them: only where something has to be said or asked meanwhile, the long way
is taken up, `McpDoor.answered`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from toolcrib.core.link import InputRefused
from toolcrib.pipeline.plan import Plan
from toolcrib.protocol import jsonrpc
from toolcrib.protocol.jsonrpc import Request
from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault
from toolcrib.transports.http.answers import JSON_HEAD, encode
from toolcrib.transports.http.body import quickly
from toolcrib.transports.http.exchange import DONE, Exchange
from toolcrib.transports.http.heads import Plain
from toolcrib.transports.mcp.asked import Asked, Endpoint
from toolcrib.transports.mcp.dispatcher import plain_result
from toolcrib.transports.mcp.envelope import BOTH, Params, named, usual_call
from toolcrib.transports.mcp.faults import McpFault
from toolcrib.transports.mcp.line import error_frame, said
from toolcrib.transports.mcp.posts import Post, web_of
from toolcrib.transports.mcp.run import Run

if TYPE_CHECKING:
    from toolcrib.transports.mcp.http import McpDoor
    from toolcrib.transports.service import Service

_log = logging.getLogger("toolcrib")
_PLAIN = frozenset(("tools/call", "tools/list"))
"""Methods whose requests need no closer look than every request gets."""


class _Seen:
    """What is known of a head: under another configuration, no head is known any more."""

    __slots__ = ("endpoint", "name", "seat")

    def __init__(self, endpoint: Endpoint, seat: Caller, name: bytes | None) -> None:
        self.endpoint = endpoint
        self.seat = seat
        self.name = name
        """Of the tool, where the headers are those of a modern call."""


class QuickCalls:
    """Answers plain calls of one door."""

    def __init__(self, door: McpDoor, service: Service, params: Params) -> None:
        self._door = door
        self._service = service
        self._params = params

    def quick(self, plain: Plain, endpoint: Endpoint, body: bytes, exchange: Exchange) -> Any:
        """The work of a plain `tools/call`, `DONE` when it is answered already or goes on by
        itself; None for anything else."""
        service = self._service
        seen: _Seen | None = plain.seen
        try:
            if (
                seen is None
                or seen.endpoint is not endpoint
                or endpoint.session is not None  # which may have ended
            ):
                seen = plain.seen = self._look(plain, endpoint)
            if len(body) > service.settings.http.max_body:
                return None
            asked = None if seen.name is None else usual_call(seen.name, body)
            if asked is not None:
                plan = self._params.unmarked(seen.seat, asked.params["name"])
                if plan is None or endpoint.session is not None:
                    plan = None
                    self._params.check(plain.head, seen.seat, endpoint, asked)
                return _Plain(self._door, seen, asked, plain, exchange).begin(plan)
        except (Fault, McpFault):
            return None  # said where everything is
        if plain.head.get(b"accept") != BOTH:
            return None
        value: Any = quickly(body)
        if type(value) is not dict:
            return None
        read = jsonrpc.message(cast("dict[str, Any]", value))
        if type(read) is not Request or read.id is None or read.method not in _PLAIN:
            return None
        return self._door.request(seen.seat, endpoint, web_of(plain.head, exchange), read)

    def _look(self, plain: Plain, endpoint: Endpoint) -> _Seen:
        """What the head comes to at this address. Raises `Fault`."""
        seat = self._door.seat(plain.known.caller, endpoint)
        return _Seen(endpoint, seat, named(plain.head))


class _Plain(Post):
    """One plain call of the modern era, the answer to it, and its own `Channel`."""

    __slots__ = ("_asked", "_door", "_run", "_seen", "_told")

    _run: Run

    def __init__(
        self, door: McpDoor, seen: _Seen, asked: Asked, plain: Plain, exchange: Exchange
    ) -> None:
        super().__init__(None, head=plain.head, exchange=exchange)
        self._door = door
        self._seen = seen
        self._asked = asked
        self._told: Callable[[], None] | None = None

    def begin(self, plan: Plan | None) -> Any:
        """Begin the call, under its plan if that is known: `DONE` when it is over and answered, or
        waits for its end only; else the work that is left."""
        seen, door = self._seen, self._door
        if seen.seat.badge.over:
            return self._long_way(None)
        params = self._asked.params
        running = door.dispatcher.running
        self._run = run = running.begin(
            seen.seat, seen.endpoint, self._asked, self, params["name"], params["arguments"],
            plan=plan,
        )  # fmt: skip
        if run.over and not self.streaming:
            return self._write() or DONE
        if run.has_news:
            return self._long_way(run)
        run.turn = self
        self._told = self._left
        self._exchange.gone = self.lost
        door.heart.add(self)
        run.settle = self._settle
        return DONE

    def _long_way(self, run: Run | None) -> Any:
        seen = self._seen
        return self._door.answered(seen.seat, seen.endpoint, self._asked, self, run, self)

    # What its call can do with the client.

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell the client something that belongs to this request."""
        if not self._lost:
            said(self, method, params)

    async def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        """A client of the modern era is asked by an answer. Raises `InputRefused`."""
        raise InputRefused("a client of this revision is not asked on its own channel")

    def on_gone(self, told: Callable[[], None]) -> None:
        """Tell when the client goes away; at once if it has."""
        if self._lost:
            told()
        else:
            self._told = told

    def _leave(self) -> None:
        told, self._told = self._told, None
        if told is not None:
            try:
                told()
            except Exception:
                _log.exception("a request whose client left could not be stopped")

    # When something happens.

    def _left(self) -> None:
        """The client left: its call is stopped."""
        self._door.dispatcher.running.gone(self._run, self)

    def _settle(self) -> None:
        """Something happened to the call: answer it if that was its end, else go the long way."""
        exchange, run = self._exchange, self._run
        self._door.heart.discard(self)
        exchange.gone = None
        if run.over and not self.streaming:
            run.turn = None
            run.detach()
            # Alone, it need not wait for what others are answered in the same moment.
            alone = not self._door.dispatcher.running.calls
            work = None if self._lost else self._write(now=alone)
        else:
            work = self._long_way(run)
        if work is not None:
            exchange.connection.take_up(work, exchange)

    def _write(self, *, now: bool = False) -> Any:
        """Write the answer to a call that is over; the work that is left when that is not done in
        a moment."""
        status, frame = self._ending()
        if self._exchange.finish(status, JSON_HEAD, frame, now=now):
            return None
        return self.finish(status, frame)

    def _ending(self) -> tuple[int, bytes]:
        run, asked, seen = self._run, self._asked, self._seen
        result = run.result
        try:
            if result is None:
                raise McpFault.of(run.broken or Fault("unexpected_failure"))
            plain = plain_result(result)
            if plain is None:
                told = self._door.dispatcher.ended(seen.seat, seen.endpoint, asked, result)
                plain = encode(told)
            return 200, jsonrpc.result(asked.id, plain)
        except McpFault as fault:
            return fault.http, error_frame(asked.id, fault)
        except Exception:
            _log.exception("the MCP method %s failed", asked.method)
            return 500, error_frame(asked.id, McpFault.of(Fault("unexpected_failure")))
