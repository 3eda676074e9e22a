"""`GET /v1/events`: events as server-sent events, resumed by `Last-Event-ID`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from toolcrib.transports.caller import Caller
from toolcrib.transports.http.answers import Receive, Send
from toolcrib.transports.replay import Seen

if TYPE_CHECKING:
    from toolcrib.transports.events import View
    from toolcrib.transports.service import Service

RETRY_MS = 2000
"""When a client that lost its connection comes again, in milliseconds."""
_LONGEST = 65_536
"""Bytes that are sent in one go, when much waits."""
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    # Proxies that collect an answer before they pass it on would hold everything back.
    (b"x-accel-buffering", b"no"),
]
_BEAT = b":\n\n"
GRACE = 5.0
"""Seconds in which somebody who is sent away has to take something, again and again, until it has
all that waits for it; else the connection is cut."""


async def serve_events(
    service: Service,
    caller: Caller,
    query: Mapping[str, str],
    last_event_id: str | None,
    receive: Receive,
    send: Send,
    cut: Callable[[], None] | None = None,
) -> None:
    """Send a caller its events until it goes away, or until there are none left to come.

    `query` has `types` (names and patterns, with commas between), `call_id` and `after`;
    `Last-Event-ID` counts instead of `after`. `cut` breaks the connection off, where the server can
    do that. Raises `Fault` before anything was sent.
    """
    types = [part.strip() for part in query["types"].split(",")] if query.get("types") else None
    view = service.hub.view(
        caller,
        types=types,
        call_id=query.get("call_id"),
        after=last_event_id or query.get("after"),
        heartbeat=service.settings.http.heartbeat,
    )
    async with view:
        if view.over:
            # The answer that tells an EventSource not to come again.
            await send({"type": "http.response.start", "status": 204, "headers": _HEADERS[1:]})
            await send({"type": "http.response.body", "body": b""})
            return
        sending = _Sending(send, cut)
        view.sent_away = sending.hurry
        leaving = asyncio.ensure_future(_leave(receive, view))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await sending.body(_first(view))
            async for seen in view:
                await sending.body(_together(seen, view))
            await send({"type": "http.response.body", "body": b""})
        except OSError:
            return  # the client went away while something was on its way to it
        finally:
            sending.stop()
            leaving.cancel()
            await asyncio.wait({leaving})


async def _leave(receive: Receive, view: View) -> None:
    """End the view when the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    view.close()


class _Sending:
    """Sends the parts of a body. A client that takes nothing would hold it up for ever."""

    def __init__(self, send: Send, cut: Callable[[], None] | None) -> None:
        self._send = send
        self._cut = cut
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    async def body(self, data: bytes) -> None:
        """Send one part."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})
        self._count += 1

    def hurry(self) -> None:
        """From now on the client has to take what is sent."""
        self.stop()
        if self._cut is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(GRACE, self._look, self._count)

    def _look(self, before: int) -> None:
        if self._count == before and self._cut is not None:
            self._cut()
        else:
            self.hurry()

    def stop(self) -> None:
        """It is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _first(view: View) -> bytes:
    """What a client does that loses its connection: when it comes again, and where it resumes."""
    retry = b"retry: %d\n" % RETRY_MS
    if view.place is None:
        return b"%b\n" % retry
    return b"%bid: %b\n\n" % (retry, view.place.encode())


def _together(seen: Seen, view: View) -> bytes:
    """An event, with those that wait behind it."""
    first = frame(seen)
    following = view.take()
    if following is None:
        return first
    frames, size = [first], len(first)
    while following is not None:
        frames.append(frame(following))
        size += len(frames[-1])
        following = view.take() if size < _LONGEST else None
    return b"".join(frames)


def frame(seen: Seen) -> bytes:
    """One event in the form of server-sent events."""
    if not seen.type:
        return _BEAT
    # Only an edited trail has a type with line breaks in it.
    kind = "".join(seen.type.splitlines()).encode("utf-8", "replace")
    if not seen.id:
        return b"event: %b\ndata: %b\n\n" % (kind, seen.data)
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (seen.id.encode(), kind, seen.data)
