"""Calls over HTTP: each under a key of its own, so that a lost connection never runs one twice."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from toolcrib.client.answers import decode, encoded, ending, fault, told, unfit
from toolcrib.client.errors import (
    CannotConnect,
    ClientError,
    ConnectionLost,
    NothingFound,
    unknown_outcome,
)
from toolcrib.client.link import Placed, call_id_of, pauses
from toolcrib.client.watching import Watch
from toolcrib.core.result import ToolResult
from toolcrib.errors import JsonError
from toolcrib.transports.models import CallState

if TYPE_CHECKING:
    from toolcrib.client.http import HttpLink, Reply

_log = logging.getLogger("toolcrib")
WAIT = 25.0
"""Seconds that one request waits for a call's ending; proxies cut longer ones off."""
_ATTEMPTS = 5
"""How often a connection is tried for a call that has not left."""
_TOLD = ("call.progress", "approval.requested", "call.finished", "call.denied")
_LATE = 2.0
"""Seconds that the last events of a call, or its cancelling, may take."""


class _Keyed:
    """One call under its key, over as many connections as it takes."""

    def __init__(self, call: Placed, body: bytes, path: str, principal: str | None) -> None:
        self.call = call
        self.body = body
        self.path = path
        self.key = secrets.token_hex(16)
        self.sent = False
        """Whether the host may have it."""
        self.id = "" if principal is None else call_id_of(principal, self.key)
        """What the host calls it; empty until it is known."""


class HttpCalls:
    """Makes the calls of one link."""

    def __init__(self, link: HttpLink) -> None:
        self._link = link
        self._later: set[asyncio.Task[Any]] = set()

    async def place(self, call: Placed) -> ToolResult:
        """Make a call and wait for its ending, a person's time included."""
        from toolcrib.client.http import segment

        try:
            params = call.params()
            body = encoded({key: value for key, value in params.items() if key != "name"})
        except JsonError as error:
            return unfit(error)
        path = f"/v1/tools/{segment(call.name)}/call"
        keyed = _Keyed(call, body, path, self._link.principal)
        try:
            async with asyncio.timeout(call.patience):
                return await self._ending(keyed)
        except TimeoutError:
            return await self._given_up(keyed)
        except asyncio.CancelledError:
            if keyed.sent:
                self._start(self._cancel(keyed))
            raise
        finally:
            if call.watch is not None:
                await call.watch.finish()

    async def close(self) -> None:
        """Let cancelling end that is under way."""
        if self._later:
            await asyncio.wait(self._later, timeout=_LATE)
        for task in self._later:
            task.cancel()
        await asyncio.gather(*self._later, return_exceptions=True)

    async def _ending(self, keyed: _Keyed) -> ToolResult:
        watch = keyed.call.watch
        if watch is None or not keyed.id:
            return await self._made(keyed)
        opened = asyncio.Event()
        telling = asyncio.ensure_future(self._tell(keyed.id, watch, opened))
        try:
            opening = asyncio.ensure_future(opened.wait())
            await asyncio.wait({telling, opening}, return_when=asyncio.FIRST_COMPLETED)
            opening.cancel()
            result = await self._made(keyed)
            await asyncio.wait({telling}, timeout=_LATE)
            return result
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)

    async def _made(self, keyed: _Keyed) -> ToolResult:
        answer = await self._post(keyed, WAIT)
        if isinstance(answer, ToolResult):
            return answer
        keyed.id = answer.call_id
        return await self._poll(keyed, WAIT)

    async def _post(self, keyed: _Keyed, wait: float) -> ToolResult | CallState:
        """Bring the call to the host: again with the same key while its answer is lost."""
        link, down = self._link, False
        until = time.monotonic() + link.network.timeout
        for attempt, pause in enumerate(pauses(), 1):
            before, keyed.sent = keyed.sent, True
            try:
                if down and not link.durable and not await self._remembers(keyed):
                    return unknown_outcome(
                        "the host was restarted and does not know the call; it may have run",
                        keyed.id,
                    )
                return self._read(
                    await link.exchange(
                        "POST",
                        keyed.path,
                        {"wait": f"{wait:g}"},
                        keyed.body,
                        {"Idempotency-Key": keyed.key},
                        wait=wait,
                    )
                )
            except CannotConnect:
                keyed.sent = before
                down = before
                if not before and attempt >= _ATTEMPTS:
                    raise
            except ConnectionLost:
                pass
            if keyed.sent and time.monotonic() > until:
                return unknown_outcome(f"{link.where}: no answer; the call may have run", keyed.id)
            await asyncio.sleep(pause)
        raise AssertionError("unreachable")

    async def _remembers(self, keyed: _Keyed) -> bool:
        """Whether a host that was away still knows the key. One that forgot would run it again."""
        if not keyed.id:
            return False
        reply = await self._link.exchange("GET", f"/v1/calls/{keyed.id}", {"wait": "0"})
        return not _forgotten(self._read(reply))

    def _read(self, reply: Reply) -> ToolResult | CallState:
        answer = ending(reply.body, self._link.where)
        if isinstance(answer, ToolResult) and reply.status >= 400 and not answer.call_id:
            return told(fault(reply.body, self._link.where))
        return answer

    async def _poll(self, keyed: _Keyed, wait: float) -> ToolResult:
        """Ask how the call ended until it has."""
        link, failing = self._link, None
        steps = pauses()
        while True:
            try:
                reply = await link.exchange(
                    "GET", f"/v1/calls/{keyed.id}", {"wait": f"{wait:g}"}, wait=wait
                )
            except (CannotConnect, ConnectionLost):
                failing = failing or time.monotonic()
                if time.monotonic() - failing > link.network.timeout:
                    words = f"{link.where}: the host is gone; the call may have run"
                    return unknown_outcome(words, keyed.id)
                await asyncio.sleep(next(steps))
                continue
            failing, steps = None, pauses()
            answer = self._read(reply)
            if isinstance(answer, CallState):
                continue
            if _forgotten(answer):
                return unknown_outcome("the host does not know the call any more", keyed.id)
            return answer

    # What happens meanwhile.

    async def _tell(self, call_id: str, watch: Watch, opened: asyncio.Event) -> None:
        """Follow the events from before the call begins until it has ended."""
        try:
            async for message in self._link.stream("/v1/events", {"types": ",".join(_TOLD)}):
                opened.set()
                event = message.event()
                if event is None or event.call_id != call_id:
                    continue
                if event.type == "call.progress":
                    watch.progress(event.data.get("fraction"), event.data.get("message"))
                elif event.type == "approval.requested":
                    await self._ask_about(str(event.data.get("request")), watch)
                else:
                    return
        except ClientError as error:
            _log.warning("the call %s is not followed: %s", call_id, error)

    async def _ask_about(self, id: str, watch: Watch) -> None:
        if watch.on_approval is not None:
            raw = await self._link.ask("approvals.get", {"id": id})
            watch.approval(decode("approvals.get", raw, self._link.where))

    # Giving up.

    async def _given_up(self, keyed: _Keyed) -> ToolResult:
        seconds = keyed.call.patience
        unknown = unknown_outcome(
            f"no ending within the patience of {seconds:g} s; the call may go on", keyed.id
        )
        if not keyed.sent:
            raise CannotConnect(f"no connection within {seconds:g} s", where=self._link.where)
        try:
            async with asyncio.timeout(_LATE):
                await self._cancel(keyed)
                return await self._poll(keyed, 1.0)
        except (TimeoutError, ClientError):
            return unknown

    async def _cancel(self, keyed: _Keyed) -> None:
        """Stop the call on the host, as well as that can be done."""
        if not keyed.id:
            return
        for pause in (0.05, 0.2, 0.5):
            try:
                raw = await self._link.ask("calls.cancel", {"id": keyed.id})
                if decode("calls.cancel", raw, self._link.where).cancelled:
                    return
            except NothingFound:
                pass  # it may just be arriving
            except ClientError:
                return
            await asyncio.sleep(pause)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._later.add(task)
        task.add_done_callback(self._later.discard)


def _forgotten(answer: ToolResult | CallState) -> bool:
    """Whether the host says that there is no such call."""
    return not answer.call_id and isinstance(answer, ToolResult) and answer.reason == "not_found"
