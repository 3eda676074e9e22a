"""An event loop in a thread of its own, for code without asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from toolcrib.errors import ToolcribError

T = TypeVar("T")


class Loop:
    """Starts with the first use, and ends with `close`. Works beside a loop that runs already."""

    def __init__(self, name: str, refusal: str) -> None:
        """`name` is the thread's; `refusal` is said to what runs in it and wants to wait for it."""
        self._name = name
        self._refusal = refusal
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` gives. Whoever is interrupted while waiting cancels it."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name=self._name, daemon=True
                )
                self._thread.start()
            loop = self._loop
        if threading.current_thread() is self._thread:
            work.close()
            raise ToolcribError(self._refusal)
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """End the loop and its thread."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(_left(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


async def _left() -> None:
    """Cancel what is still there, so that nothing is broken off in the middle. Threads that
    somebody else's code keeps busy are not waited for."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
