"""One MCP client over one pipe: both eras, everything at the same time."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, cast

from toolcrib.protocol import jsonrpc
from toolcrib.protocol.jsonrpc import Id, Message, Notification, Request, Response, Wrong
from toolcrib.protocol.mcp import keys
from toolcrib.protocol.mcp.versions import BATCHES, LATEST_HANDSHAKE
from toolcrib.transports.caller import Caller
from toolcrib.transports.eager import Starter
from toolcrib.transports.faults import Fault
from toolcrib.transports.mcp.asked import (
    Asked,
    Endpoint,
    asked_handshake,
    asked_modern,
    stands_alone,
)
from toolcrib.transports.mcp.faults import McpFault
from toolcrib.transports.mcp.line import Line, encode, error_frame, one_line
from toolcrib.transports.mcp.sessions import MOST_IN_BATCH, MOST_REQUESTS, Connection
from toolcrib.transports.outgoing import Outlet

if TYPE_CHECKING:
    from toolcrib.transports.mcp.dispatcher import Dispatcher
    from toolcrib.transports.mcp.listening import Listening

_log = logging.getLogger("toolcrib")
_PATIENCE = 5.0
"""Seconds for calls to end that were stopped with their client."""


class _Open:
    """A request that is not answered yet."""

    __slots__ = ("batch", "id", "line", "listening", "task")

    def __init__(self, id: Id, line: Line, batch: _Batch | None) -> None:
        self.id = id
        self.line = line
        self.batch = batch
        self.task: asyncio.Task[None] | None = None
        self.listening: Listening | None = None


class _Batch:
    """The answers to the messages of one text."""

    __slots__ = ("answers", "open")

    def __init__(self) -> None:
        self.open = 1
        """How many answers are still to come; one for the reading of the batch itself."""
        self.answers: list[bytes] = []


class Pipe:
    """Reads what one client sends, and answers. Belongs to one loop."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        caller: Caller,
        endpoint: Endpoint,
        out: Outlet,
        *,
        max_bytes: int,
        modern: bool = True,
    ) -> None:
        """`modern`: whether requests that stand alone are answered here, too."""
        self.caller = caller
        self.more = False
        """Whether messages wait that will be answered in this moment, too."""
        self.closed = False
        self.connection: Connection | None = None
        """There once the client has opened with `initialize`."""
        self._dispatcher = dispatcher
        self._endpoint = endpoint
        self._out = out
        self._max_bytes = max_bytes
        self._modern = modern
        self._open: dict[Id, _Open] = {}
        self._told: set[asyncio.Task[None]] = set()
        self._starter = Starter()

    @property
    def waiting(self) -> int:
        """Bytes that the client has not taken yet."""
        return self._out.waiting

    # What comes in.

    def receive(self, text: bytes | str) -> None:
        """Take one text; what has to be done goes on by itself. A plain call that never waits is
        done and answered when this returns."""
        read = jsonrpc.read(text, max_bytes=self._max_bytes)
        if type(read) is not list:
            self._message(cast("Message", read), None)
            return
        agreed = None if self.connection is None else self.connection.version
        if agreed != BATCHES or len(read) > MOST_IN_BATCH:
            text = f"batches have up to {MOST_IN_BATCH} messages, in the revision {BATCHES} only"
            self.refuse(Fault("not_a_request", text))
            return
        batch = _Batch()
        for each in read:
            self._message(each, batch)
        self._settle(batch)

    def push(self, frame: bytes) -> None:
        """Send a message; this is a `Sink`."""
        self._out.push(one_line(frame))

    def refuse(self, fault: Fault) -> None:
        """Answer something that could not even be read."""
        self.push(error_frame(None, McpFault.of(fault)))

    def _message(self, read: Message, batch: _Batch | None) -> None:
        if type(read) is Request:
            self._request(read, batch)
        elif type(read) is Notification:
            self._notification(read)
        elif type(read) is Response:
            if self.connection is not None:
                self.connection.answered(read)
        elif type(read) is Wrong:
            self._reply(batch, error_frame(read.id, McpFault(read.code, read.message)))

    def _request(self, read: Request, batch: _Batch | None) -> None:
        if read.id is None or read.id in self._open:
            # Answered under no id: under its own it would pass for the first one's answer.
            text = "the id of a request is text or a number, and of no other that is not answered"
            self._reply(batch, error_frame(None, McpFault(jsonrpc.INVALID_REQUEST, text)))
            return
        try:
            if len(self._open) >= MOST_REQUESTS:
                raise McpFault.of(Fault("too_many_calls", f"{MOST_REQUESTS} requests are open"))
            asked = self._asked(read, batch)
        except McpFault as fault:
            self._reply(batch, error_frame(read.id, fault))
            return
        connection = None if asked.modern else self.connection
        one = self._open[read.id] = _Open(read.id, Line(self, connection), batch)
        if connection is not None:
            connection.lines[read.id] = one.line
        if batch is not None:
            batch.open += 1
        one.task = self._starter.start(self._serve(one, asked))

    def _asked(self, read: Request, batch: _Batch | None) -> Asked:
        if stands_alone(read.params):
            if not self._modern:
                text = "this address is for clients that open with initialize. Use /mcp"
                raise McpFault(jsonrpc.INVALID_REQUEST, text)
            return asked_modern(read.id, read.method, read.params)
        if read.method == "initialize":
            if self.connection is not None or batch is not None:
                text = "initialize comes once, first and alone"
                raise McpFault(jsonrpc.INVALID_REQUEST, text)
            return asked_handshake(read.id, read.method, read.params, version=LATEST_HANDSHAKE)
        known = self.connection
        if known is None:
            if read.method == "ping":
                return asked_handshake(read.id, read.method, read.params, version=LATEST_HANDSHAKE)
            text = f"open with initialize, or say {keys.VERSION} in params._meta"
            raise McpFault(jsonrpc.INVALID_REQUEST, text)
        return known.read(read)

    def _notification(self, read: Notification) -> None:
        if read.method == "notifications/cancelled":
            params: Any = read.params
            asked = (
                cast("dict[str, Any]", params).get("requestId") if type(params) is dict else None
            )
            one = self._open.get(asked) if type(asked) in (str, int) else None
            if one is not None:
                self._cancel(one)
            return
        if read.method == "notifications/initialized" and self.connection is not None:
            self.connection.follow()
        if len(self._told) < MOST_REQUESTS:
            task = self._starter.start(self._tell(read))
            if task is not None:
                self._told.add(task)
                task.add_done_callback(self._told.discard)

    async def _tell(self, read: Notification) -> None:
        connection = None if stands_alone(read.params) else self.connection
        try:
            await self._dispatcher.told(
                self.caller, self._endpoint, read.method, read.params, connection
            )
        except Exception:
            _log.exception("the MCP notification %s failed", read.method)

    def _cancel(self, one: _Open) -> None:
        one.line.leave()
        if one.listening is not None:
            one.listening.close()
            self._end(one)

    # What goes out.

    async def _serve(self, one: _Open, asked: Asked) -> None:
        """Do what one request asks, and answer it unless it was cancelled."""
        try:
            if asked.method == keys.LISTEN and asked.modern:
                from toolcrib.transports.mcp import listening

                one.listening = listening.Listening(asked, self.caller, self)
                await one.listening.open(self._dispatcher, self._endpoint)
                return
            result = await self._dispatcher.answer(self.caller, self._endpoint, asked, one.line)
            frame = one_line(jsonrpc.result(one.id, encode(result)))
            if asked.method == "initialize" and not asked.modern:
                version: Any = result["protocolVersion"]
                self.connection = Connection(
                    self._dispatcher, self.caller, self._endpoint, asked, version, self
                )
        except McpFault as fault:
            frame = error_frame(one.id, fault)
        except Fault as fault:
            frame = error_frame(one.id, McpFault.of(fault))
        except Exception:
            _log.exception("the MCP method %s failed", asked.method)
            frame = error_frame(one.id, McpFault.of(Fault("unexpected_failure")))
        self._end(one)
        if one.batch is not None:
            if not one.line.gone:
                one.batch.answers.append(frame)
            self._settle(one.batch)
        elif not one.line.gone and self._out.give(frame, self.more or bool(self._open)):
            await self._out.flush()

    def _end(self, one: _Open) -> None:
        self._open.pop(one.id, None)
        if self.connection is not None:
            self.connection.end(one.id)

    def _reply(self, batch: _Batch | None, frame: bytes) -> None:
        if batch is None:
            self.push(frame)
        else:
            batch.answers.append(frame)

    def _settle(self, batch: _Batch) -> None:
        batch.open -= 1
        if not batch.open and batch.answers:
            self.push(jsonrpc.batch(batch.answers))

    # Its end.

    async def drain(self, seconds: float) -> None:
        """Nothing more is read: let what runs end and be answered; what takes too long is left to
        `close`."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        if self.connection is not None:
            self.connection.refuse_questions()
        for one in list(self._open.values()):
            if one.listening is not None:
                one.listening.close()
                self.push(one.listening.goodbye())
                self._end(one)
        while self._open and not self.closed and loop.time() < end:
            tasks = {one.task for one in self._open.values() if one.task is not None}
            left = max(0.0, end - loop.time())
            await asyncio.wait(tasks, timeout=left, return_when=asyncio.FIRST_COMPLETED)

    async def close(self) -> None:
        """Stop what the client asked for, and end the session; questions to people stay. Calling it
        again does nothing."""
        if self.closed:
            return
        self.closed = True
        self._starter.close()
        for one in list(self._open.values()):
            self._cancel(one)
        if self.connection is not None:
            self.connection.close()
        mine = asyncio.current_task()
        tasks = {one.task for one in self._open.values()} | self._told
        running = {task for task in tasks if task is not None and task is not mine}
        if running:
            _, late = await asyncio.wait(running, timeout=_PATIENCE)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=_PATIENCE)
        session = self.caller.session
        if session is not None:
            try:
                await session.close()
            except Exception:
                _log.exception("the session %s could not be closed", session.id)
