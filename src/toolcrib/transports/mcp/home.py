"""Where the work of one door belongs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import msgspec


class Home(msgspec.Struct, frozen=True):
    """A loop, and the thread that it runs in: facts and servers speak up in any thread."""

    loop: asyncio.AbstractEventLoop
    thread: int

    @classmethod
    def here(cls) -> Home:
        """The running loop."""
        return cls(asyncio.get_running_loop(), threading.get_ident())

    @property
    def inside(self) -> bool:
        """Whether this is its thread."""
        return threading.get_ident() == self.thread

    def do(self, work: Callable[..., None], *args: Any) -> None:
        """Do it now, if this is its thread, else there in a moment; a loop that is closed has
        nobody left to tell."""
        if self.inside:
            work(*args)
        elif not self.loop.is_closed():
            self.loop.call_soon_threadsafe(work, *args)
