"""Event subscriptions on a connection that may break."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.client.errors import CannotConnect, ConnectionLost, Refused, refused
from toolcrib.client.link import pauses
from toolcrib.core.events import Event
from toolcrib.core.result import Failure, ToolResult
from toolcrib.reasons import REASONS

if TYPE_CHECKING:
    from toolcrib.client.rpc import RpcLink

MOST_WAITING = 10_000
"""Events that wait for a slow reader here. Then its subscription ends, and begins again behind the
last one that was read."""


class _Subscribed(msgspec.Struct):
    subscription: str
    after: str | None = None
    """Where the host's stream begins, if it says so."""


class _Told(msgspec.Struct):
    event: Event
    resume: str | None = None
    """What to resume behind once it was read."""


class _Subscription:
    """What one reader wants, and what it has not read yet. None stands for a break."""

    def __init__(self, types: Sequence[str] | None, after: str | None) -> None:
        self.types = None if types is None else list(types)
        self.after = after
        self.id: str | None = None
        self.queue: asyncio.Queue[tuple[Event, str | None] | None] = asyncio.Queue()
        self.refused: str | None = None
        """The reason for which the host will not go on with it."""

    def params(self) -> dict[str, Any]:
        wants = {"types": self.types, "after": self.after}
        return {key: value for key, value in wants.items() if value is not None}


class Subscriptions:
    """Those of one link."""

    def __init__(self, link: RpcLink) -> None:
        self._link = link
        self._all: set[_Subscription] = set()
        self._by_id: dict[str, _Subscription] = {}

    async def follow(self, types: Sequence[str] | None, after: str | None) -> AsyncIterator[Event]:
        """Events as they happen; after a break, first those that were missed."""
        link, wanted = self._link, _Subscription(types, after)
        self._all.add(wanted)
        steps = pauses()
        try:
            while not link.closed:
                try:
                    await self._subscribe(wanted)
                    while (told := await wanted.queue.get()) is not None:
                        steps = pauses()
                        event, resume = told
                        wanted.after = resume or event.id or wanted.after
                        yield event
                    if wanted.refused is not None:
                        raise _refusal(wanted.refused, link.where)
                except (CannotConnect, ConnectionLost):
                    if link.gone:
                        raise
                await asyncio.sleep(next(steps))
        finally:
            self._all.discard(wanted)
            await self._end(wanted)

    async def _subscribe(self, wanted: _Subscription) -> None:
        def begun(raw: msgspec.Raw) -> None:
            # Its events may stand right behind this answer.
            said = msgspec.json.decode(raw, type=_Subscribed)
            wanted.id = said.subscription
            wanted.after = wanted.after or said.after
            wanted.queue = asyncio.Queue()
            self._by_id[said.subscription] = wanted

        await self._link.ready()
        await self._link.request("events.subscribe", wanted.params(), then=begun)

    async def _end(self, wanted: _Subscription) -> None:
        if wanted.id is not None and self._by_id.pop(wanted.id, None) is not None:
            await self._link.notify("events.unsubscribe", {"subscription": wanted.id})

    def told(self, method: str, params: dict[str, Any]) -> None:
        """Something arrived for one of them."""
        wanted = self._by_id.get(str(params.get("subscription")))
        if wanted is None:
            return
        if method == "event.dropped":
            reason = str(params.get("reason"))
            row = REASONS.get(reason)
            if row is not None and row.retry == "no" and reason != "unexpected_failure":
                wanted.refused = reason
            self._break(wanted)
            return
        try:
            told = msgspec.convert(params, _Told)
        except msgspec.ValidationError:
            return
        wanted.queue.put_nowait((told.event, told.resume))
        if wanted.queue.qsize() >= MOST_WAITING:
            self._break(wanted)
            self._link.start(self._link.notify("events.unsubscribe", {"subscription": wanted.id}))

    def _break(self, wanted: _Subscription) -> None:
        if wanted.id is not None:
            self._by_id.pop(wanted.id, None)
        wanted.queue.put_nowait(None)

    def renew(self) -> None:
        """The connection is another one, or will never come: let every reader find out."""
        self._by_id.clear()
        for wanted in self._all:
            wanted.queue.put_nowait(None)


def _refusal(reason: str, where: str) -> Refused:
    row = REASONS[reason]
    failure = Failure(reason=reason, message=row.meaning)
    return refused(ToolResult(status=row.status, error=failure), where)
