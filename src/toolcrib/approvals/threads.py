"""Blocking work beside the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


def in_thread(function: Callable[[], T]) -> asyncio.Future[T]:
    """Run `function` in a thread of its own.

    Not in the loop's pool: a person may take hours, and neither the pool's other users nor the
    end of the program should wait for that.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)  # pyright: ignore[reportArgumentType]
        elif isinstance(error, Exception) and not isinstance(error, StopIteration):
            future.set_exception(error)
        else:
            # Neither may be put into a future: one would end the loop, the other is refused.
            future.set_exception(RuntimeError(f"the function raised {type(error).__name__}"))

    def run() -> None:
        result, error = None, None
        try:
            result = context.run(function)
        except BaseException as raised:
            error = raised
        # The loop may be closed by now; then nobody waits for the result any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="toolcrib-approver", daemon=True).start()
    return future
