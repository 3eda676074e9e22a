"""Blocking work that ends when its call ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def run_stoppable(work: Callable[[], T], stop: Callable[[], None]) -> T:
    """Run `work` in a thread of its own. When the call is cancelled, `stop` is called and the
    thread is waited for: nothing happens after this has returned or raised."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def body() -> None:
        try:
            value = work()
        except BaseException as error:  # carried to whoever waits
            _tell(loop, done.set_exception, error)
        else:
            _tell(loop, done.set_result, value)

    thread = threading.Thread(target=body, name="toolcrib-sql", daemon=True)
    thread.start()
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        stop()
        while not done.done():
            try:
                await asyncio.wait({done})
            except asyncio.CancelledError:
                continue
        if not done.cancelled():
            done.exception()  # looked at, so that nobody is told that it was not
        raise
    finally:
        thread.join()  # it has told its result: there is no more than its return to wait for


def _tell(loop: asyncio.AbstractEventLoop, how: Callable[[Any], None], what: Any) -> None:
    try:
        loop.call_soon_threadsafe(how, what)
    except RuntimeError:
        return  # the loop was closed while the thread worked: nobody waits any more
