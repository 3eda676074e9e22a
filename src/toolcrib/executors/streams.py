"""Functions that yield: what they say on the way, and what comes of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import Any, TypeGuard, cast

from toolcrib.core.context import ToolContext

LONGEST = 500
"""Characters of one message."""


def tell(ctx: ToolContext, value: Any) -> None:
    """Report a yielded value: a share from 0 to 1, a message, or a pair of both.

    Anything else is no progress; it counts only as what an asynchronous generator gives last.
    """
    if isinstance(value, str):
        ctx.progress(None, shortened(value))
    elif _is_share(value):
        ctx.progress(value)
    elif isinstance(value, tuple | list) and len(cast("list[Any]", value)) == 2:
        share, message = cast("list[Any]", value)
        if (share is None or _is_share(share)) and isinstance(message, str):
            ctx.progress(share, shortened(message))


def shortened(message: str) -> str:
    """A message of bearable length."""
    return message if len(message) <= LONGEST else f"{message[: LONGEST - 1]}…"


def _is_share(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def drain(ctx: ToolContext, generator: Generator[Any, Any, Any]) -> Any:
    """Run a generator to its end; what it returns is the output. Ends early once the call did."""
    try:
        while True:
            value = next(generator)
            if ctx.cancelled:
                return None
            tell(ctx, value)
    except StopIteration as end:
        return end.value
    finally:
        generator.close()


async def drain_async(ctx: ToolContext, generator: AsyncGenerator[Any, Any]) -> Any:
    """Run an asynchronous generator to its end; what it yields last is the output."""
    last = None
    try:
        async for last in generator:
            tell(ctx, last)
    finally:
        await generator.aclose()
    return last
