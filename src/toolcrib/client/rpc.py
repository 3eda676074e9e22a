"""The way to a host over one connection that both sides speak on: WebSocket or stdio."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from toolcrib.client.answers import encoded, strange
from toolcrib.client.errors import (
    CannotConnect,
    ClientError,
    ConnectionLost,
)
from toolcrib.client.link import READING, Placed, pauses
from toolcrib.client.pending import Pendings
from toolcrib.client.pipe import Frame, Pipe
from toolcrib.client.rpc_calls import RpcCalls
from toolcrib.client.subscriptions import Subscriptions
from toolcrib.client.watching import Watch
from toolcrib.core.approval import ApprovalRequest
from toolcrib.core.events import Event
from toolcrib.core.result import ToolResult

if TYPE_CHECKING:
    from toolcrib.client.network import Network
    from toolcrib.client.offers import Offers

_log = logging.getLogger("toolcrib")
SOON = 0.05
"""Seconds until it is known that a connection is gone."""
_ATTEMPTS = 5
"""How often something is asked that may be asked again."""


_frames = msgspec.json.Decoder(Frame)
_progress = msgspec.json.Decoder(dict[str, Any])


class RpcLink:
    """Requests and their answers, out of order and both ways, on one connection at a time."""

    def __init__(
        self,
        make: Callable[[], Pipe],
        *,
        where: str,
        timeout: float,
        reconnects: bool,
        network: Network | None = None,
    ) -> None:
        self.where = where
        self.principal: str | None = None
        self.durable = False
        self._network = network
        self.timeout = timeout
        self.closed = False
        self.subscriptions = Subscriptions(self)
        self._calls = RpcCalls(self)
        self._make = make
        self._reconnects = reconnects
        self._pauses = pauses()
        self._pipe: Pipe | None = None
        """The connection that can be used now."""
        self._last: Pipe | None = None
        """The newest one, in whatever state."""
        self._ids = itertools.count(1)
        self._pending = Pendings(where)
        self._up = asyncio.Event()
        """Set while requests can be sent, and when they never can be again."""
        self._broken: ClientError | None = None
        """Why no connection will come any more."""
        self._reading: asyncio.Task[None] | None = None
        self._working: set[asyncio.Task[Any]] = set()
        self._offers: Offers | None = None

    @property
    def gone(self) -> bool:
        """Whether no connection will come any more."""
        return self._broken is not None

    # Life.

    async def open(self) -> None:
        """Connect, once; one attempt. Later breaks are mended in the background."""
        pipe = self._make()
        await self._opened(pipe)
        self._pipe = pipe
        self._up.set()
        self._reading = asyncio.ensure_future(self._keep(pipe))

    async def close(self) -> None:
        """End the connection; the host cancels what runs on it."""
        self.closed = True
        reading = self._reading
        self._give_up(ClientError("the client was stopped", where=self.where))
        if self._last is not None:
            await self._last.close()
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        if self._offers is not None:
            self._offers.close()
        for task in self._working:
            task.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)
        if self._network is not None:
            await self._network.close()

    async def _opened(self, pipe: Pipe) -> None:
        self._last = pipe
        try:
            async with asyncio.timeout(self.timeout):
                await pipe.open()
        except BaseException as error:
            await pipe.close()
            if isinstance(error, TimeoutError):
                raise CannotConnect("no connection in time", where=self.where) from None
            raise

    async def _keep(self, pipe: Pipe) -> None:
        try:
            await self._keep_reading(pipe)
        except Exception:
            _log.exception("reading from %s failed", self.where)
            self._give_up(ClientError("the client failed; its log says more", where=self.where))

    async def _keep_reading(self, pipe: Pipe) -> None:
        """Read until the client is closed, over as many connections as it takes."""
        while True:
            await self._read(pipe)
            await self._lost(pipe)
            if self.gone:
                return
            if not self._reconnects:
                self._give_up(ConnectionLost(pipe.ended(), where=self.where))
                return
            found = await self._again()
            if found is None:
                return
            pipe = found

    async def _lost(self, pipe: Pipe) -> None:
        self._pipe = None
        self._up.clear()
        self._pending.fail(ConnectionLost(pipe.ended(), where=self.where))
        if self._offers is not None:
            self._offers.stop()
        await pipe.close()

    async def _again(self) -> Pipe | None:
        """The next connection, with everything on it that was on the last one."""
        for pause in self._pauses:
            await asyncio.sleep(pause)
            pipe = self._make()
            try:
                await self._opened(pipe)
            except (CannotConnect, ConnectionLost):
                continue
            except ClientError as error:  # it will not get better: a wrong token, another program
                self._give_up(error)
                return None
            self._pipe = pipe
            self.start(self._restore(pipe))
            return pipe
        return None

    async def _restore(self, pipe: Pipe) -> None:
        try:
            if self._offers is not None:
                await self._offers.renew()
        except ClientError as error:
            _log.warning("tools of this client are not offered any more: %s", error)
        if self._pipe is pipe:
            self.subscriptions.renew()
            self._up.set()

    def _give_up(self, why: ClientError) -> None:
        self._broken = self._broken or why
        self._up.set()
        self.subscriptions.renew()
        self._pending.fail(why)

    # Asking.

    async def ask(self, method: str, params: Mapping[str, Any]) -> bytes | msgspec.Raw:
        """The answer to a method; those that only read are asked again when it was lost."""
        left = _ATTEMPTS if method in READING and method != "host.info" else 1
        while True:
            await self.ready()
            try:
                return await self.request(method, params)
            except CannotConnect:
                await asyncio.sleep(SOON)  # it never left
            except ConnectionLost:
                left -= 1
                if not left or not self._reconnects:
                    raise

    async def ready(self) -> None:
        """Wait for a connection, as long as one may come."""
        if self._pipe is None or not self._up.is_set():
            try:
                async with asyncio.timeout(self.timeout):
                    await self._up.wait()
            except TimeoutError:
                raise CannotConnect("the connection does not come back", where=self.where) from None
        if self._broken is not None:
            raise self._broken.with_traceback(None)  # raised many times, it must not grow

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        watch: Watch | None = None,
        then: Callable[[msgspec.Raw], None] | None = None,
        number: int | None = None,
    ) -> msgspec.Raw:
        """One request on the connection there is. Raises `ConnectionLost` when it may have left
        and no answer came, `CannotConnect` when it never left."""
        number = number or self.next_number()
        frame = encoded({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        pipe = self._pipe
        if pipe is None:
            raise CannotConnect("there is no connection", where=self.where)
        pending = self._pending.add(number, watch, then)
        try:
            await self._send(pipe, frame)
            return await pending.answer
        except asyncio.CancelledError:
            if method == "tools.call" and self._pending.holds(number, pending):
                self.start(self.notify("calls.cancel", {"request": number}))
            raise
        finally:
            self._pending.remove(number, pending)

    def next_number(self) -> int:
        """An id that no other request of this client has."""
        return next(self._ids)

    async def _send(self, pipe: Pipe, frame: bytes) -> None:
        try:
            await pipe.send(frame)
        except ClientError:
            raise
        except Exception:
            problem = ConnectionLost(pipe.ended(), where=self.where)
        else:
            return
        raise problem

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell the host something, if it can be told."""
        await self.post(encoded({"jsonrpc": "2.0", "method": method, "params": params}))

    async def post(self, frame: bytes) -> None:
        """Send a message that needs no answer, if it can be sent."""
        pipe = self._pipe
        if pipe is not None:
            try:
                await self._send(pipe, frame)
            except ClientError as error:
                _log.debug("a message did not leave: %s", error)

    async def place(self, call: Placed) -> ToolResult:
        """Make a call and wait for its ending. It is never made again by itself."""
        return await self._calls.place(call)

    # What the host says.

    async def _read(self, pipe: Pipe) -> None:
        while True:
            try:
                text = await pipe.receive()
            except Exception:
                _log.debug("reading from %s failed", self.where, exc_info=True)
                return
            if text is None:
                return
            self._pauses = pauses()  # this connection is good for something
            try:
                frame = _frames.decode(text)
            except msgspec.DecodeError:
                self._give_up(strange(self.where, "what comes from there is no JSON-RPC"))
                return
            if frame.method is None:
                self._pending.answered(frame)
            else:
                self._told(frame.method, frame)

    def _told(self, method: str, frame: Frame) -> None:
        try:
            params = _progress.decode(frame.params)
        except msgspec.DecodeError:
            return
        if method == "event" or method == "event.dropped":
            self.subscriptions.told(method, params)
        elif method == "call.progress":
            self._pending.progress(params)
        elif method == "approval.requested":
            self._approval(params)
        elif method == "client.call" and frame.id is not None:
            self._called(frame.id, params)
        elif method == "client.cancel" and self._offers is not None:
            self._offers.cancel(str(params.get("call_id")))

    def _approval(self, params: dict[str, Any]) -> None:
        try:
            request = msgspec.convert(params.get("approval"), ApprovalRequest)
        except msgspec.ValidationError:
            _log.warning("%s: an approval request cannot be read", self.where)
            return
        watch = self._calls.watched.get(request.call_id)
        if watch is not None:
            watch.approval(request)

    # Tools that run here.

    def _called(self, id: int | str, params: dict[str, Any]) -> None:
        self.start(self.offers.answer(id, params))

    @property
    def offers(self) -> Offers:
        """The tools that run here; made with the first one."""
        if self._offers is None:
            from toolcrib.client.offers import Offers

            self._offers = Offers(self)
        return self._offers

    async def offer(self, thing: Any, *, replace: bool, session: str | None) -> None:
        """Offer a tool that runs here, for as long as this client is connected."""
        await self.offers.add(thing, replace=replace, session=session)

    async def withdraw(self, name: str, *, session: str | None) -> bool:
        """Offer it no longer."""
        return await self.offers.remove(name, session=session)

    def session_ended(self, session: str) -> None:
        """A session has ended, and what was offered in it is not any more."""
        if self._offers is not None:
            self._offers.forget(session)

    def follow(self, types: Sequence[str] | None, after: str | None) -> AsyncIterator[Event]:
        """Events as they happen; taken up where it ended after a break."""
        return self.subscriptions.follow(types, after)

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do something in the background, until it is done or the client is closed."""
        task = asyncio.ensure_future(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)
        task.add_done_callback(_report)


def _report(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("work in the background failed", exc_info=cast("Exception", error))
