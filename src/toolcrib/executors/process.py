"""Python functions in processes of their own: warm, limited, and killed when time is up."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
from typing import Any

import msgspec

from toolcrib.core.context import ToolContext
from toolcrib.core.entry import Execute
from toolcrib.core.protocols import Workshop
from toolcrib.core.result import ToolResult
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import Denial, SpecError, ToolFailure
from toolcrib.executors import frames
from toolcrib.executors.frames import Call, Failed
from toolcrib.executors.pool import Pool, WorkerFailed
from toolcrib.executors.processconfig import ProcessConfig, read_config
from toolcrib.executors.worker import NoAnswer, OutputTooLarge, Worker, WorkerEnded, WorkerSettings

COMMAND = (sys.executable, "-P", "-m", "toolcrib.host.worker")
"""`-P`, because a file in the working folder must not take the place of a module."""

_log = logging.getLogger("toolcrib")


class ProcessExecutor:
    """Runs functions in worker processes. A call that times out or is cancelled ends only after
    its worker's processes are gone; a worker that breaks breaks one call."""

    kind = "process"

    def __init__(
        self,
        workers: int = 4,
        command: tuple[str, ...] = COMMAND,
        workshop: Workshop | None = None,
    ) -> None:
        if workers < 1:
            raise ValueError(f"workers must be at least 1, not {workers}")
        self.workers = workers
        """How many processes there are, at most, for tools of equal settings."""
        self.command = command
        self._workshop = workshop
        self._bound: dict[WorkerSettings, None] = {}
        self._pools: dict[tuple[asyncio.AbstractEventLoop, WorkerSettings], Pool] = {}
        self._lock = threading.Lock()

    def bind(self, spec: ToolSpec, workshop: Workshop) -> Execute:
        """Read the config once; raises `SpecError`. The module is found but not imported here:
        a tool that gets its own process is not run in the host's."""
        config = read_config(spec, workshop, self.workers, self.command)
        self._bound[config.settings] = None
        return _Function(self, config).execute

    async def execute(self, ctx: ToolContext) -> Any:
        """Run a call of a spec that was not bound before."""
        if self._workshop is None or ctx.spec is None:
            raise SpecError(
                "a process tool has to be bound first", cure="Give ProcessExecutor a workshop"
            )
        return await self.bind(ctx.spec, self._workshop)(ctx)

    async def warm(self) -> None:
        """Start the workers of all bound tools now, so that the first calls find them ready."""
        loop = asyncio.get_running_loop()
        for settings in self._bound:
            self.pool(loop, settings).warm()

    def pool(self, loop: asyncio.AbstractEventLoop, settings: WorkerSettings) -> Pool:
        """The workers of a loop that have these settings."""
        pool = self._pools.get((loop, settings))
        if pool is None:
            with self._lock:
                closed = [key for key in self._pools if key[0].is_closed()]
                for key in closed:
                    _abandon(self._pools.pop(key))
                pool = self._pools.setdefault((loop, settings), Pool(loop, settings))
        return pool

    @property
    def processes(self) -> list[int]:
        """The worker processes that there are now."""
        pools = list(self._pools.values())
        return [worker.process.pid for pool in pools for worker in pool.workers]

    async def aclose(self) -> None:
        """End all workers; returns when they are gone."""
        with self._lock:
            pools = list(self._pools.values())
            self._pools.clear()
        here = asyncio.get_running_loop()
        for pool in pools:
            if pool.loop is here:
                await _close(pool)
            elif pool.loop.is_running():
                closing = asyncio.run_coroutine_threadsafe(_close(pool), pool.loop)
                await asyncio.wrap_future(closing)
            else:
                _abandon(pool)


async def _close(pool: Pool) -> None:
    await asyncio.gather(*(worker.end() for worker in pool.let_go()))


def _abandon(pool: Pool) -> None:
    for worker in pool.let_go():
        worker.wait()


class _Function:
    """One process tool."""

    def __init__(self, executor: ProcessExecutor, config: ProcessConfig) -> None:
        self.executor = executor
        self.config = config
        self.pool: Pool | None = None
        """The one that the last call used."""

    async def execute(self, ctx: ToolContext) -> Any:
        loop = asyncio.get_running_loop()
        pool = self.pool
        if pool is None or pool.loop is not loop or pool.closed:
            pool = self.pool = self.executor.pool(loop, self.config.settings)
        try:
            worker = await pool.take()
        except WorkerFailed as error:
            raise RuntimeError(str(error)) from None
        try:
            kind, body = await worker.call(ctx, self._call(ctx))
        except (OutputTooLarge, WorkerEnded, NoAnswer, msgspec.MsgspecError) as error:
            code = await self._retire(pool, worker)
            raise self._broken(error, code, ctx.tool) from None
        except GeneratorExit:
            worker.let_go()  # thrown away with its loop: there is nobody left to wait
            pool.workers.discard(worker)
            raise
        except BaseException:
            # Cancelled, in most cases. The work is stopped before anybody hears of the end.
            await self._retire(pool, worker)
            raise
        if kind == frames.OUTPUT:
            pool.give(worker)
            return msgspec.json.decode(body)
        return await self._other(pool, worker, kind, body, ctx.tool)

    def _call(self, ctx: ToolContext) -> Call:
        session, config = ctx.session, self.config
        return Call(
            config.module,
            config.function,
            config.properties,
            ctx.arguments,
            config.output,
            config.cpu,
            ctx.tool,
            ctx.call_id,
            "" if session is None else session.id,
            "" if session is None else session.cwd,
            ctx.principal.name,
            {} if session is None else dict(session.environment),
            {} if session is None else dict(session.metadata),
        )

    async def _other(self, pool: Pool, worker: Worker, kind: int, body: bytes, tool: str) -> Any:
        """An answer that is more than a value. One that is none ends the worker."""
        try:
            if kind == frames.RESULT:
                result = msgspec.json.decode(body, type=ToolResult)
                pool.give(worker)
                return result
            failed = msgspec.json.decode(body, type=Failed)
        except msgspec.MsgspecError as error:
            await self._retire(pool, worker)
            raise _no_answer(error, tool) from None
        if failed.how == "memory":
            await self._retire(pool, worker)
        else:
            pool.give(worker)
        if failed.how == "denial":
            raise Denial(failed.reason, failed.message or None, **failed.details)
        if failed.how == "raised":
            raise RuntimeError(f"in the worker process:\n{failed.message}")
        raise ToolFailure(
            failed.message,
            reason=failed.reason or "tool_error",
            retryable=failed.retryable,
            retry_after=failed.retry_after,
            details=failed.details,
        )

    async def _retire(self, pool: Pool, worker: Worker) -> int:
        try:
            return await worker.end()
        finally:
            pool.forget(worker)

    def _broken(self, error: Exception, code: int, tool: str) -> Exception:
        if isinstance(error, OutputTooLarge):
            return ToolFailure(
                f"{tool} gave more output than {self.config.output} bytes, and was stopped",
                reason="output_too_large",
            )
        if not isinstance(error, WorkerEnded):
            return _no_answer(error, tool)
        if -code == signal.SIGXCPU and self.config.cpu is not None:
            return ToolFailure(
                f"{tool} used more than {self.config.cpu:g} s of processor time, and was stopped"
            )
        return ToolFailure(f"{tool} failed: its worker process ended ({_how(code)})")


def _no_answer(error: Exception, tool: str) -> ToolFailure:
    _log.warning("%s: its worker process said what is no answer: %s", tool, error)
    return ToolFailure(f"{tool} failed: its worker process gave no answer, and was stopped")


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
