"""Running Python functions: asynchronous ones in the caller's loop, others in threads."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from toolcrib.core.context import ToolContext
from toolcrib.core.entry import Execute
from toolcrib.executors.streams import drain, drain_async

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


class Callee(Protocol):
    """What has to be known about a function to call it."""

    @property
    def context_parameter(self) -> str | None: ...
    @property
    def is_async(self) -> bool: ...
    @property
    def is_generator(self) -> bool: ...
    @property
    def positional(self) -> tuple[str, ...]: ...


class PythonExecutor:
    """Binds functions to calls. Its threads start with the first synchronous call."""

    kind = "python"

    def __init__(self, threads: int = 32) -> None:
        self.threads = threads
        """How many threads there will be; no longer matters once they run."""
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self.abandoned = 0
        """Threads that were still at work when their call had to end, and are now."""

    def bind(self, function: Callable[..., Any], callee: Callee, *, inline: bool) -> Execute:
        """How to run `function` for a context. Chosen once, so that a call does not choose."""
        plain = not (callee.context_parameter or callee.positional or callee.is_generator)
        if callee.is_async and plain:
            return lambda ctx: function(**ctx.typed)
        call = caller(function, callee)
        if callee.is_async:
            return call
        return _inline(call) if inline else self._threaded(call)

    def _threaded(self, call: Callable[[ToolContext], Any]) -> Execute:
        async def execute(ctx: ToolContext) -> Any:
            pool = self._pool or self._start()
            copied = contextvars.copy_context()
            work = pool.submit(copied.run, _outside, call, ctx)
            try:
                value = await asyncio.wrap_future(work)
            except asyncio.CancelledError:
                self._leave(ctx, work)
                raise
            return await arrived(value)

        return execute

    def _leave(self, ctx: ToolContext, work: Future[Any]) -> None:
        """A thread cannot be stopped: say so, and count it until it is done."""
        if work.cancel() or work.done():
            return
        ctx.cancelled = True
        ctx.still_running = True
        with self._lock:
            self.abandoned += 1
        work.add_done_callback(self._returned)

    def _returned(self, work: Future[Any]) -> None:
        with self._lock:
            self.abandoned -= 1

    def _start(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                from concurrent import futures

                self._pool = futures.ThreadPoolExecutor(self.threads, thread_name_prefix="toolcrib")
            return self._pool

    def close(self) -> None:
        """Let the threads go; those that never return are left behind."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)


def caller(function: Callable[..., Any], callee: Callee) -> Callable[[ToolContext], Any]:
    """What calls `function` with a context's arguments: it gives the output, or an awaitable of
    it when the function is asynchronous. Generators are run to their end."""
    wants, positional = callee.context_parameter, callee.positional

    def call(ctx: ToolContext) -> Any:
        kwargs = ctx.typed
        if wants:
            kwargs = {**kwargs, wants: ctx}
        if positional:
            first = [kwargs[name] for name in positional if name in kwargs]
            rest = {k: v for k, v in kwargs.items() if k not in positional}
            return function(*first, **rest)
        return function(**kwargs)

    if not callee.is_generator:
        return call
    if callee.is_async:
        return lambda ctx: drain_async(ctx, call(ctx))
    return lambda ctx: drain(ctx, call(ctx))


def _outside(call: Callable[[ToolContext], Any], ctx: ToolContext) -> Any:
    try:
        return call(ctx)
    except StopIteration as error:
        # A future cannot carry this one: whoever waits for it would wait for ever.
        raise RuntimeError("the function raised StopIteration") from error


def _inline(call: Callable[[ToolContext], Any]) -> Execute:
    async def execute(ctx: ToolContext) -> Any:
        value = call(ctx)
        return await arrived(value)

    return execute


async def arrived(value: Any) -> Any:
    """`value` itself, or what awaiting it gives."""
    return await value if inspect.isawaitable(value) else value


def from_object(tool: Any) -> Execute:
    """How to run an object with `execute(input)`, as agent frameworks write tools."""

    async def execute(ctx: ToolContext) -> Any:
        value = tool.execute(dict(ctx.arguments))
        return unfold(ctx, await arrived(value))

    return execute


def unfold(ctx: ToolContext, value: Any) -> Any:
    """Another framework's result object (`success`, `output`, `error`) as ours."""
    from toolcrib.core.result import ToolResult

    if isinstance(value, ToolResult) or not hasattr(value, "success"):
        return value
    metadata: Mapping[str, Any] = getattr(value, "metadata", None) or {}
    if value.success:
        return ToolResult(call_id=ctx.call_id, output=value.output, metadata=dict(metadata))
    error: Any = value.error
    if isinstance(error, Mapping):
        return ctx.error(str(error.get("message", error)))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    return ctx.error(str(error or "the tool reported a failure without words"))


def handled(function: Callable[..., Any]) -> str | None:
    """The first parameter of a function written `handler(input, context)`; None for others."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    if len(parameters) != 2:
        return None
    second = parameters[1]
    written_so = second.name in ("context", "ctx") or "ToolContext" in str(second.annotation)
    return parameters[0].name if written_so else None


def handler(function: Callable[..., Any]) -> Execute:
    """How to run a function that takes all arguments as one, and the context."""

    async def execute(ctx: ToolContext) -> Any:
        value = function(dict(ctx.arguments), ctx)
        return unfold(ctx, await arrived(value))

    return execute
