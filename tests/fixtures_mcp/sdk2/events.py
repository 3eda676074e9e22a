"""What streams were sent, so that a client that lost one can read on."""

from __future__ import annotations

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.types import JSONRPCMessage


class Remembered(EventStore):
    """Keeps every event of the process; a fixture does not live long."""

    def __init__(self) -> None:
        self._events: list[tuple[str, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(
        self, last_event_id: str, send_callback: EventCallback
    ) -> str | None:
        last = int(last_event_id)
        if not 0 < last <= len(self._events):
            return None
        stream = self._events[last - 1][0]
        for number, (where, message) in enumerate(self._events[last:], last + 1):
            if where == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream
