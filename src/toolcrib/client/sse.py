"""Reading an event stream, however it is cut into pieces."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import NamedTuple

import msgspec

from toolcrib.core.events import Event

LONGEST = 64 * 1024 * 1024
"""Bytes of one message; more is a broken stream."""


class Message(NamedTuple):
    """One message: the id to resume behind, its type, and its data."""

    id: str
    type: str
    data: str

    def event(self) -> Event | None:
        """The event in it; None for what is only about the stream."""
        try:
            return msgspec.json.decode(self.data, type=Event)
        except msgspec.DecodeError:
            return None


BEGUN = Message("", "", "")
"""Stands for the beginning of a stream."""


async def messages(chunks: AsyncIterable[bytes]) -> AsyncIterator[Message]:
    """The messages of a stream. One that only names an id is given too: it is a place to resume
    from. What is not ended by an empty line was cut off and does not count."""
    waiting = bytearray()
    fields: dict[str, list[str]] = {}
    async for chunk in chunks:
        waiting += chunk
        if len(waiting) > LONGEST:
            raise ValueError("a message of the event stream has no end")
        while (end := waiting.find(b"\n")) >= 0:
            line = bytes(waiting[:end]).rstrip(b"\r").decode("utf-8", "replace")
            del waiting[: end + 1]
            if line:
                name, _, value = line.partition(":")
                if name:  # a line that begins with a colon is a comment
                    fields.setdefault(name, []).append(value.removeprefix(" "))
                continue
            if "data" in fields or "id" in fields:
                yield Message(
                    fields.get("id", [""])[-1],
                    fields.get("event", ["message"])[-1],
                    "\n".join(fields.get("data", [])),
                )
            fields = {}
