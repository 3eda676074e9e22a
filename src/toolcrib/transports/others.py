"""What other processes write to the same store, followed while somebody looks on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from toolcrib.core.chain import Block
from toolcrib.core.events import Event, decode_record, events_of
from toolcrib.errors import StoreError
from toolcrib.host.history import History
from toolcrib.host.parts import Parts

_log = logging.getLogger("toolcrib")
_LOOK = 1.0
"""Seconds after which is looked again, whether or not something is said to have changed."""
_BLOCKS = 20
_AT_ONCE = 100
"""Records that are told without letting others have their turn."""

Tell = Callable[[Event, tuple[int, int], int], None]
"""Takes an event, its number in its run and in its record, and the position of its block."""


class Others:
    """Tells the events of all runs but this host's own, in writing order."""

    def __init__(self, parts: Parts, tell: Tell) -> None:
        self.begun = self.position = 0
        """The blocks behind the first position, and up to the second one, were told."""
        self.ready = asyncio.get_running_loop().create_future()
        """Done when it is known where they begin."""
        self._parts = parts
        self._tell = tell
        self._task = asyncio.ensure_future(self._follow())

    def stop(self) -> asyncio.Task[None]:
        """Follow no more; gives what to wait for."""
        self._task.cancel()
        return self._task

    async def _follow(self) -> None:
        store, warned = self._parts.store, False
        try:
            while True:
                try:
                    if not self.ready.done():
                        self.begun = self.position = await History(store).end()
                        self.ready.set_result(None)
                    await store.wait(timeout=_LOOK)
                    while found := await store.blocks(after=self.position, limit=_BLOCKS):
                        for position, block in found:
                            await self._tell_block(position, block)
                            self.position = position
                except StoreError as error:
                    if self._parts.pipeline.stopping:
                        return
                    if not warned:
                        _log.warning("other writers' events cannot be followed: %s", error)
                    warned = True
                    await asyncio.sleep(_LOOK)
        finally:
            if not self.ready.done():
                self.ready.set_result(None)

    async def _tell_block(self, position: int, block: Block) -> None:
        if block.run == self._parts.trail.run:
            return  # the bus has told it
        for number, line in enumerate(block.lines.split(b"\n")):
            try:
                record = decode_record(line)
            except msgspec.DecodeError:
                continue  # somebody edited the trail: verifying it says more
            seq = block.first + number
            for index, event in enumerate(events_of(record, block.run, seq)):
                self._tell(event, (seq, index), position)
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
