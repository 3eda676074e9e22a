"""`POST /v1/tools/{name}/call`: the one address that has to be quick."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, cast

import msgspec

from toolcrib.core.result import ToolResult
from toolcrib.core.serving import HttpSettings
from toolcrib.transports.caller import Caller
from toolcrib.transports.calls import Calls
from toolcrib.transports.eager import going_on
from toolcrib.transports.faults import Fault
from toolcrib.transports.http.answers import (
    JSON_HEAD,
    Headers,
    Receive,
    Send,
    encode,
    reply,
    retry_headers,
    status_of,
)
from toolcrib.transports.http.body import check_type, parse_body, quickly, read_body
from toolcrib.transports.http.exchange import Exchange
from toolcrib.transports.http.query import read_query
from toolcrib.transports.http.waiting import Clock, Turn, wanted_wait
from toolcrib.transports.models import CallState, ToolsCall
from toolcrib.transports.service import Service

LONGEST_KEY = 256
_HEAD = b"\r\n" + JSON_HEAD


class Rest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the body of a call may say beside its arguments."""

    session: str | None = None
    profile: str | None = None
    timeout: float | None = None


_NOTHING = Rest()


class _Turn(Turn):
    """A call's turn, with how its request is answered before the call ends."""

    __slots__ = ("_exchange", "_send", "wait")

    def __init__(
        self,
        calls: Calls,
        call_id: str,
        exchange: Exchange | None,
        send: Send,
        wait: tuple[float, bool] | None,
    ) -> None:
        self.call_id = call_id
        self.answered = False
        self.kept = None
        self._calls = calls
        self._exchange = exchange
        self._send = send
        self.wait = wait

    async def tell(self, state: CallState) -> None:
        """Answer 202: where to ask, and how far the call is."""
        if self._exchange is not None:
            self._exchange.gone = None
        headers = [*_told(state.call_id, self.wait), *_where(state)]
        await reply(self._send, 202, encode(state), headers)


class Calling:
    """Runs calls in the task of their request, and answers them."""

    def __init__(self, service: Service, settings: HttpSettings) -> None:
        self._service = service
        self.settings = settings
        self._clock: Clock | None = None

    async def call(
        self,
        caller: Caller,
        name: str,
        head: Mapping[bytes, bytes],
        query_string: bytes,
        exchange: Exchange | None,
        receive: Receive,
        send: Send,
    ) -> None:
        """One call. Raises `Fault` for what is wrong with the request."""
        settings = self.settings
        body = None if exchange is None else exchange.whole_body()
        if body is None or len(body) > settings.max_body:
            body = await read_body(receive, head, settings)
        arguments: dict[str, Any] | None = None
        rest = _NOTHING
        if body:
            check_type(head)
            given = parse_body(body, settings)
            arguments = given.pop("arguments", None)
            if arguments is not None and type(arguments) is not dict:
                raise Fault("invalid_request", "`arguments` is no JSON object")
            if given:
                rest = _rest(given)
        wait = None
        if query_string or b"prefer" in head:
            query = read_query(query_string, ("wait",))
            wait = wanted_wait(query, head, settings)
        key = head.get(b"idempotency-key")
        if key is not None:
            await self._keyed(caller, name, arguments, rest, key, wait, send)
            return

        await self._run(caller, name, arguments, rest, wait, exchange, receive, send)

    def quick(
        self, caller: Caller, name: str, body: bytes, exchange: Exchange
    ) -> Coroutine[Any, Any, None] | None:
        """The work of a call whose request says nothing but its arguments, as most do; None when
        it has to be looked at closely."""
        value: Any = quickly(body) if len(body) <= self.settings.max_body else None
        if type(value) is not dict or len(cast("Any", value)) != 1:
            return None
        arguments: Any = cast("dict[str, Any]", value).get("arguments")
        if type(arguments) is not dict:
            return None
        given = cast("dict[str, Any]", arguments)
        receive: Any = exchange.receive
        send: Any = exchange.send
        return self._run(caller, name, given, _NOTHING, None, exchange, receive, send)

    async def _run(
        self,
        caller: Caller,
        name: str,
        arguments: dict[str, Any] | None,
        rest: Rest,
        wait: tuple[float, bool] | None,
        exchange: Exchange | None,
        receive: Receive,
        send: Send,
    ) -> None:
        service = self._service
        call_id = service.new_call_id()
        work = service.place(
            caller,
            name,
            arguments,
            session=rest.session,
            profile=rest.profile,
            timeout=rest.timeout,
            call_id=call_id,
        )
        try:
            waits_for = work.send(None)
        except StopIteration as ended:
            # It never waited, as most do: nobody could leave or lose patience meanwhile.
            result: ToolResult = ended.value
        else:
            turn = _Turn(service.calls, call_id, exchange, send, wait)
            result = await self._patiently(turn, going_on(work, waits_for), exchange, receive)
            if not turn.end(caller.principal.name, result):
                return
        body = encode(result)
        if exchange is not None and result.error is None and wait is None:
            # The common ending, written without a detour.
            told = b"toolcrib-call-id: " + result.call_id.encode() + _HEAD
            if exchange.finish(200, told, body):
                return
        headers = [*_told(result.call_id, wait), *retry_headers(result)]
        await reply(send, status_of(result), body, headers)

    async def _patiently(
        self,
        turn: _Turn,
        work: Awaitable[ToolResult],
        exchange: Exchange | None,
        receive: Receive,
    ) -> ToolResult:
        """The result of a call that waits for something, for as long as its client does."""
        clock = self._clock
        if clock is None:
            clock = self._clock = Clock(asyncio.get_running_loop())
        timer = watcher = None
        if exchange is not None:
            exchange.gone = turn.left
        else:
            watcher = asyncio.ensure_future(_watch(receive, turn.left))
        if turn.wait is None:
            clock.add(turn, self.settings.wait)
        else:
            timer = clock.add_own(turn, turn.wait[0])
        try:
            return await work
        except BaseException:
            if turn.kept is not None:
                turn.kept.cancel()
            raise
        finally:
            turn.answered = True
            if timer is not None:
                timer.cancel()
            else:
                clock.remove(turn)
            if exchange is not None:
                exchange.gone = None
            if watcher is not None:
                watcher.cancel()

    async def _keyed(
        self,
        caller: Caller,
        name: str,
        arguments: dict[str, Any] | None,
        rest: Rest,
        key: bytes,
        wait: tuple[float, bool] | None,
        send: Send,
    ) -> None:
        """A call that runs once however often it is sent; it goes on without its client."""
        if not 1 <= len(key) <= LONGEST_KEY or not key.isascii():
            text = f"Idempotency-Key has 1 to {LONGEST_KEY} ASCII characters"
            raise Fault("invalid_request", text)
        request = ToolsCall(
            name=name,
            arguments=arguments,
            session=rest.session,
            profile=rest.profile,
            timeout=rest.timeout,
            wait=self.settings.wait if wait is None else wait[0],
            key=key.decode("ascii"),
        )
        found = await self._service.calls.run(caller, request)
        if isinstance(found, CallState):
            await reply(send, 202, encode(found), [*_told(found.call_id, wait), *_where(found)])
        else:
            headers = [*_told(found.call_id, wait), *retry_headers(found)]
            await reply(send, status_of(found), encode(found), headers)


def _rest(given: dict[str, Any]) -> Rest:
    for name, where in (("name", "the address"), ("wait", "`?wait=`"), ("key", "Idempotency-Key")):
        if name in given:
            raise Fault("invalid_request", f"`{name}` belongs into {where}, not into the body")
    try:
        rest = msgspec.convert(given, Rest)
    except msgspec.ValidationError as error:
        text = str(error).replace("Object", "the body").replace(" - at `$.", ": at `")
        raise Fault("invalid_request", text) from None
    if rest.timeout is not None and not rest.timeout > 0:
        raise Fault("invalid_request", "`timeout` is a number of seconds above 0")
    return rest


def _told(call_id: str, wait: tuple[float, bool] | None) -> Headers:
    found: Headers = [(b"toolcrib-call-id", call_id.encode())]
    if wait is not None and wait[1]:
        found.append((b"preference-applied", b"wait=%g" % wait[0]))
    return found


def _where(state: CallState) -> Headers:
    return [(b"location", b"/v1/calls/%s" % state.call_id.encode()), (b"retry-after", b"1")]


async def _watch(receive: Receive, left: Callable[[], None]) -> None:
    """Under another server: the body was read, so what comes next is that the client left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    left()
