"""The events that one connection asked to be told of."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from toolcrib.protocol import jsonrpc
from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault
from toolcrib.transports.models import Closed, EventsSubscribe, EventsUnsubscribe, Subscribed
from toolcrib.transports.outgoing import Outlet
from toolcrib.transports.replay import Seen
from toolcrib.transports.service import Service
from toolcrib.transports.view import DROPPED, View

_log = logging.getLogger("toolcrib")
_encode = msgspec.json.Encoder().encode
MOST = 32
"""Subscriptions of one connection."""


class Subscriptions:
    """Carries views to a client, each at the client's own pace."""

    def __init__(
        self,
        service: Service,
        caller: Caller,
        out: Outlet,
        fell_behind: Callable[[], None] | None = None,
    ) -> None:
        self._service = service
        self._caller = caller
        self._out = out
        self._fell_behind = fell_behind
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._count = 0

    async def add(self, asked: EventsSubscribe) -> Subscribed:
        """Begin to tell. Raises `Fault`."""
        if len(self._tasks) >= MOST:
            text = f"this connection has {MOST} subscriptions; end one of them"
            raise Fault("too_many_viewers", text)
        view = self._service.hub.view(
            self._caller, types=asked.types, call_id=asked.call_id, after=asked.after
        )
        view.sent_away = self._fell_behind
        self._count += 1
        name = f"e{self._count}"
        self._tasks[name] = asyncio.ensure_future(view.open())
        try:
            await self._tasks[name]
        except BaseException:
            self._tasks.pop(name, None)
            view.close()
            raise
        # It runs behind whoever answers the request, so the first event follows that answer.
        task = self._tasks[name] = asyncio.ensure_future(self._carry(name, view))
        task.add_done_callback(lambda _: self._tasks.pop(name, None))
        after = asked.after if view.place is None else view.place
        return Subscribed(subscription=name, after=after)

    def remove(self, asked: EventsUnsubscribe) -> Closed:
        """Tell no more."""
        task = self._tasks.pop(asked.subscription, None)
        if task is None:
            raise Fault("not_found", f"there is no subscription {asked.subscription!r} here")
        task.cancel()
        return Closed(closed=True)

    async def close(self) -> None:
        """End all of them."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _carry(self, name: str, view: View) -> None:
        params: dict[str, Any] = {"subscription": name, "reason": "ended", "resume": None}
        try:
            async with view:
                async for seen in view:
                    if seen.type == DROPPED:
                        said = msgspec.json.decode(seen.data)["data"]
                        params |= {"reason": said["reason"], "resume": said["resume"]}
                        continue
                    if self._out.give(_event(name, seen), True):
                        await self._out.flush()
                    await self._out.room()
        except Fault as fault:
            params["reason"] = fault.reason
        except Exception:
            _log.exception("a subscription to events broke off")
            params["reason"] = "unexpected_failure"
        self._out.push(jsonrpc.notification("event.dropped", _encode(params)))


def _event(name: str, seen: Seen) -> bytes:
    return (
        b'{"jsonrpc":"2.0","method":"event","params":{"subscription":"%b","event":%b,"resume":%b}}'
        % (name.encode(), seen.data, _encode(seen.id or None))
    )
