"""One client's connection: the list of methods as JSON-RPC, everything at the same time.

Each request has a task of its own, answers come in the order in which they are ready, and a
cancel or an approval arrives while calls run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import msgspec

from toolcrib.core.jsontext import MAX_DEPTH, is_plain, is_whole, shown
from toolcrib.core.result import ToolResult
from toolcrib.errors import JsonError
from toolcrib.host.session import Session
from toolcrib.protocol import jsonrpc
from toolcrib.protocol.jsonrpc import Id, Message, Notification, Request, Response, Wrong
from toolcrib.transports.caller import Caller
from toolcrib.transports.calls import keyed_id
from toolcrib.transports.eager import Starter
from toolcrib.transports.faults import Fault
from toolcrib.transports.outgoing import MUCH, Outlet
from toolcrib.transports.pushes import Pushes
from toolcrib.transports.requests import Batch, CallFrame, Open, ResultFrame, decode_call
from toolcrib.transports.service import Service
from toolcrib.transports.sessions import entered

if TYPE_CHECKING:
    from toolcrib.transports import models as m
    from toolcrib.transports.client_tools import ClientTools
    from toolcrib.transports.subscriptions import Subscriptions

_log = logging.getLogger("toolcrib")
_encode = msgspec.json.Encoder().encode
MOST_REQUESTS = 1000
"""Requests of one connection that are not answered yet; more are refused."""
MOST_IN_BATCH = 1000
"""Messages in one text."""
_SHALLOW = 2 * MAX_DEPTH
"""Bytes of a text that cannot be too deep: what opens has to close, too."""
_AGAIN = 0.02
"""Seconds until a call is cancelled again that could not be reached at that moment."""
_TOOLS = frozenset(("tools.register", "tools.unregister"))
_EVENTS = frozenset(("events.subscribe", "events.unsubscribe"))
_PATIENCE = 5.0
"""Seconds for calls to end that were cancelled with their connection."""


class Connection:
    """Reads what one client sends, and answers. Belongs to one loop."""

    def __init__(
        self,
        service: Service,
        caller: Caller,
        out: Outlet,
        *,
        max_bytes: int,
        most_requests: int = MOST_REQUESTS,
        fell_behind: Callable[[], None] | None = None,
    ) -> None:
        """`fell_behind` is told when the client does not keep up with its events."""
        self.caller = caller
        self.closed = False
        self.more = False
        """Whether messages wait that will be answered in this moment, too."""
        self._service = service
        self._out = out
        self._max_bytes = max_bytes
        self._short = min(max_bytes, _SHALLOW)
        self._most = most_requests
        self._loop = asyncio.get_running_loop()
        self._starter = Starter()
        self._open: dict[object, Open] = {}
        self._asked: dict[Id, asyncio.Future[Response]] = {}
        self._count = 0
        self._pushes = Pushes.of(service.host)
        self._pushes.add(self)
        # What every call takes, without asking for it each time.
        self._followed = self._pushes.calls
        self._new_id = service.parts.pipeline.new_id
        self._fell_behind = fell_behind
        self._tools: ClientTools | None = None
        self._events: Subscriptions | None = None

    @property
    def session_id(self) -> str | None:
        """The session that the connection is."""
        return None if self.caller.session is None else self.caller.session.id

    def _own_session(self, id: str) -> Session:
        """The caller's session of that id, which it may enter. Raises `Fault`."""
        found = self._service.sessions.find(self.caller, id)
        entered(self._service.host, self.caller, found, None)
        return found

    # What comes in.

    def receive(self, text: bytes | str) -> None:
        """Take one text; what has to be done goes on by itself. A plain call that never waits is
        done and answered when this returns."""
        # Nearly everything is a plain call, so this is as short as can be.
        try:
            data = text if isinstance(text, bytes) else text.encode()
            # In this order: to look for a byte is far quicker.
            if (0x5C in data and b"\\u" in data) or len(data) > self._short:
                frame = self._long_call(data)
            else:
                frame = decode_call(data)
            # As many quotation marks when it is written again prove that no member stood in it
            # twice, as with `jsontext.parse_quickly`.
            if not is_whole(data, _encode(frame)):
                frame = None
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
            frame = None
        opened = self._open
        if frame is None or (opened and (frame.id in opened or len(opened) >= self._most)):
            self._receive(text)
            return
        key, new_id = frame.id, self._new_id
        call_id = new_id()
        one = opened[key] = Open(self, key, key, "tools.call", frame.params, None, call_id)
        one.task = self._starter.start(self._serve_call(one, call_id))

    def _long_call(self, data: bytes) -> CallFrame:
        """A plain call for which the length of its text proves nothing. Raises `ValueError` for
        one that has to be looked at closely."""
        if len(data) > self._max_bytes or not is_plain(data):
            raise ValueError
        return decode_call(data)

    def _receive(self, text: bytes | str) -> None:
        """Take one text that is no plain call."""
        try:
            value = jsonrpc.strict(text, max_bytes=self._max_bytes)
        except JsonError as error:
            self.refuse(Fault("not_json", str(error)))
            return
        if type(value) is not list:
            self._message(jsonrpc.message(value), None)
            return
        items = cast("list[Any]", value)
        if not 1 <= len(items) <= MOST_IN_BATCH:
            # Before they are looked at: many small ones would be answered with far more.
            text = f"a batch of {len(items)} messages. Send 1 to {MOST_IN_BATCH} in it"
            self.refuse(Fault("not_a_request", text))
            return
        batch = Batch()
        for item in items:
            self._message(jsonrpc.message(item), batch)
        self._settle(batch)

    def refuse(self, fault: Fault) -> None:
        """Answer something that could not even be read."""
        self._out.push(_refusal(None, fault))

    def _message(self, read: Message, batch: Batch | None) -> None:
        if type(read) is Request:
            self._request(read, batch)
        elif type(read) is Response:
            self._answered(read)
        elif type(read) is Notification:
            self._told(read)
        elif type(read) is Wrong:
            self._reply(batch, _refusal(read.id, Fault("not_a_request", read.message)))

    def _request(self, read: Request, batch: Batch | None) -> None:
        if read.id in self._open:
            # Answered under no id: under its own it would pass for the first one's answer.
            text = f"the id {shown(read.id)} belongs to a request that is not answered yet"
            self._reply(batch, _refusal(None, Fault("not_a_request", text)))
        elif len(self._open) >= self._most:
            text = f"{self._most} requests of this connection are not answered yet"
            self._reply(batch, _refusal(read.id, Fault("too_many_calls", text)))
        else:
            if batch is not None:
                batch.open += 1
            self._begin(Open(self, read.id, read.id, read.method, read.params, batch))

    def _told(self, read: Notification) -> None:
        if read.method == "client.progress":
            if self._tools is not None:
                self._tools.progress(read.params)
        elif len(self._open) < self._most:
            one = Open(self, None, None, read.method, read.params)
            one.key = one
            self._begin(one)

    def _begin(self, one: Open) -> None:
        self._open[one.key] = one
        one.task = self._loop.create_task(self._serve(one))

    # What goes out.

    async def _serve(self, one: Open) -> None:
        """Do what one request asks, and answer it."""
        try:
            answer = _encode(await self._do(one))
            frame = jsonrpc.result(one.id, answer)
        except Fault as fault:
            frame = _refusal(one.id, fault)
        except asyncio.CancelledError:
            if self.closed or not one.cancelled:
                raise
            frame = _refusal(one.id, Fault("cancelled"))
        except Exception:
            _log.exception("the method %s failed", one.method)
            frame = _refusal(one.id, Fault("unexpected_failure"))
        finally:
            self._open.pop(one.key, None)
        if one.batch is not None:
            self._reply(one.batch, frame)
            self._settle(one.batch)
        elif one.key is not one and self._out.give(frame, bool(self._open)):
            await self._out.flush()

    async def _serve_call(self, one: Open, call_id: str) -> None:
        """The same for a plain call."""
        asked, followed = one.params, self._followed
        followed[call_id] = one
        try:
            result = await self._service.place(
                self.caller,
                asked.name,
                asked.arguments,
                session=asked.session,
                profile=asked.profile,
                timeout=asked.timeout,
                call_id=call_id,
            )
            frame = _encode(ResultFrame(one.id, result))
        except Exception:
            _log.exception("a call failed outside of its path")
            frame = _refusal(one.id, Fault("unexpected_failure"))
        finally:
            opened = self._open
            del followed[call_id], opened[one.key]
        if self._out.give(frame, self.more or bool(opened)):
            await self._out.flush()

    def _reply(self, batch: Batch | None, frame: bytes) -> None:
        if batch is None:
            self._out.push(frame)
        else:
            batch.answers.append(frame)

    def _settle(self, batch: Batch) -> None:
        batch.open -= 1
        if not batch.open and batch.answers:
            self._out.push(jsonrpc.batch(batch.answers))

    def notify(self, method: str, params: Any, *, droppable: bool = False) -> None:
        """Tell the client something; what may be dropped is when it reads too slowly."""
        late = self.closed or self.caller.badge.over
        if not late and not (droppable and self._out.waiting >= MUCH):
            self._out.push(jsonrpc.notification(method, _encode(params)))

    def ask(self, method: str, params: Any) -> asyncio.Future[Response]:
        """Ask the client for something. The answer is a response of its own, or a `Fault`
        (`client_gone`)."""
        future: asyncio.Future[Response] = self._loop.create_future()
        if self.closed or self.caller.badge.over:
            future.set_exception(Fault("client_gone"))
            return future
        self._count += 1
        name = f"host-{self._count}"
        self._asked[name] = future
        future.add_done_callback(lambda _: self._asked.pop(name, None))
        self._out.push(jsonrpc.request(name, method, _encode(params)))
        return future

    def _answered(self, read: Response) -> None:
        future = self._asked.get(read.id)
        if future is not None and not future.done():
            future.set_result(read)

    # The methods.

    async def _do(self, one: Open) -> Any:
        method, params = one.method, one.params
        if method == "tools.call":
            return await self._call(one)
        if method == "calls.cancel" and isinstance(params, dict) and "request" in params:
            return self._cancel_request(cast("dict[str, Any]", params))
        if method in _TOOLS:
            return self._offer(method, params)
        if method in _EVENTS:
            return await self._follow(method, params)
        return await self._service.handle(self.caller, method, params)

    def _offer(self, method: str, params: Any) -> m.Names:
        from toolcrib.transports import models as m
        from toolcrib.transports.client_tools import ClientTools

        if self._tools is None:
            self._tools = ClientTools(self, self._service.host, self._own_session)
        if method == "tools.register":
            return self._tools.register(_typed(method, params, m.ToolsRegister))
        return self._tools.unregister(_typed(method, params, m.ToolsUnregister))

    async def _follow(self, method: str, params: Any) -> m.Subscribed | m.Closed:
        from toolcrib.transports import models as m
        from toolcrib.transports.subscriptions import Subscriptions

        if self._events is None:
            self._events = Subscriptions(self._service, self.caller, self._out, self._fell_behind)
        if method == "events.subscribe":
            return await self._events.add(_typed(method, params, m.EventsSubscribe))
        return self._events.remove(_typed(method, params, m.EventsUnsubscribe))

    async def _call(self, one: Open) -> ToolResult | m.CallState:
        from toolcrib.transports.models import ToolsCall

        service, caller = self._service, self.caller
        try:
            asked = msgspec.convert(one.params, ToolsCall)
        except msgspec.ValidationError:
            return await service.handle(caller, "tools.call", one.params)  # says what is wrong
        key = asked.key
        one.call_id = call_id = service.new_call_id() if key is None else keyed_id(caller, key)
        followed = self._pushes.calls
        mine = followed.setdefault(call_id, one) is one
        try:
            return await service.calls.run(caller, asked, call_id=call_id)
        finally:
            if mine:
                del followed[call_id]

    def _cancel_request(self, params: dict[str, Any]) -> m.Cancelled:
        """Stop what one of this connection's own requests does."""
        from toolcrib.transports.models import Cancelled

        asked: Any = params["request"]
        if len(params) > 1 or not (asked is None or type(asked) in (str, int)):
            raise Fault("invalid_request", "calls.cancel takes the id of a call, or of a request")
        one = self._open.get(asked)
        if one is None:
            return Cancelled(cancelled=False)
        self._cancel(one)
        return Cancelled(cancelled=True)

    def _cancel(self, one: Open) -> None:
        if self._open.get(one.key) is not one or one.task is None:
            return
        one.cancelled = True
        if one.method != "tools.call":
            one.task.cancel()
        elif one.call_id is None or not self._service.calls.cancel(one.call_id):
            # It has not begun, or is at a point where it cannot be stopped: in a moment it can.
            self._loop.call_later(_AGAIN, self._cancel, one)

    # Its end.

    async def drain(self, seconds: float) -> None:
        """Let what runs end and be answered; what takes too long is left to `close`."""
        end = self._loop.time() + seconds
        while self._open and not self.closed and self._loop.time() < end:
            tasks = {one.task for one in self._open.values() if one.task is not None}
            left = max(0.0, end - self._loop.time())
            await asyncio.wait(tasks, timeout=left, return_when=asyncio.FIRST_COMPLETED)

    async def close(self) -> None:
        """Stop the calls made here and end the session; questions to people stay. Calling it again
        does nothing."""
        if self.closed:
            return
        self.closed = True
        self._pushes.remove(self)
        self._starter.close()
        if self._tools is not None:
            self._tools.close()
        for future in list(self._asked.values()):
            if not future.done():
                future.set_exception(Fault("client_gone"))
        if self._events is not None:
            await self._events.close()
        mine = asyncio.current_task()
        tasks = {one.task for one in self._open.values()}
        running = {task for task in tasks if task is not None and task is not mine}
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=_PATIENCE)
        session = self.caller.session
        if session is not None:
            try:
                await session.close()
            except Exception:
                _log.exception("the session %s could not be closed", session.id)


def _typed(method: str, params: Any, model: type[Any]) -> Any:
    try:
        return msgspec.convert({} if params is None else params, model)
    except msgspec.ValidationError as error:
        text = str(error).replace("Object", "the request").replace(" - at `$", " at `")
        raise Fault("invalid_request", f"{method}: {text}") from None


def _refusal(id: Id, fault: Fault) -> bytes:
    return jsonrpc.error(id, fault.code, fault.message, _encode(fault.result()))
