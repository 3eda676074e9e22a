"""Calls in worker processes that end early: nothing goes on, and nobody else is hurt."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import process_functions
from executing import alive, children, context, descriptors, exists, until
from toolcrib.core.entry import Execute
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import ToolFailure
from toolcrib.executors.process import ProcessExecutor
from toolcrib.host.workshop import Sandboxes, Workshop

CONFIG = {"module": "process_functions", "path": [str(Path(process_functions.__file__).parent)]}


@pytest.mark.parametrize(
    ("function", "words"), [("dies", "exit code 3"), ("killed", "signal SIGKILL")]
)
async def test_a_worker_that_ends_breaks_one_call_only(
    bind: Callable[..., Execute], function: str, words: str
) -> None:
    other = asyncio.ensure_future(bind("wait")(context()))
    await asyncio.sleep(0)
    with pytest.raises(ToolFailure, match=words) as caught:
        await bind(function)(context())
    assert caught.value.reason == "tool_error"
    assert await other == 2
    assert await bind("add")(context(a=1)) == 11


async def test_a_cancelled_call_is_over_when_it_says_so(
    bind: Callable[..., Execute], executor: ProcessExecutor, tmp_path: Path
) -> None:
    late, ready = tmp_path / "late", tmp_path / "ready"
    ctx = context(file=str(late), ready=str(ready))
    call = asyncio.ensure_future(bind("slow_write")(ctx))
    await until(ready.exists)
    (pid,) = executor.processes
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not exists(pid)  # not even a zombie
    assert await bind("add")(context(a=1)) == 11
    await asyncio.sleep(0.45)
    assert not late.exists()
    assert ctx.still_running is False


async def test_being_cancelled_twice_does_not_leave_the_work_behind(
    bind: Callable[..., Execute], executor: ProcessExecutor, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    call = asyncio.ensure_future(bind("slow_write")(context(file="x", ready=str(ready))))
    await until(ready.exists)
    (pid,) = executor.processes
    call.cancel()
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not exists(pid)


async def test_what_the_function_started_is_killed_too_even_in_a_session_of_its_own(
    bind: Callable[..., Execute], tmp_path: Path
) -> None:
    late, ready = tmp_path / "late", tmp_path / "ready"
    call = asyncio.ensure_future(bind("spawns")(context(file=str(late), ready=str(ready))))
    await until(ready.exists)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.sleep(0.6)
    assert not late.exists()


async def test_a_call_cancelled_while_it_waits_for_a_worker_never_starts(
    bind: Callable[..., Execute], tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    first = asyncio.ensure_future(bind("wait", workers=1)(context()))
    run = bind("slow_write", workers=1)
    second = asyncio.ensure_future(run(context(file=str(ready), ready=str(ready))))
    await asyncio.sleep(0.01)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert await first == 2
    assert await bind("add", workers=1)(context(a=1)) == 11
    assert not ready.exists()


@pytest.mark.parametrize(("function", "arguments"), [("floods", {}), ("large", {"n": 5000})])
async def test_output_over_the_limit(
    bind: Callable[..., Execute], function: str, arguments: dict[str, Any]
) -> None:
    run = bind(function, output="4kB")
    with pytest.raises(ToolFailure) as caught:
        await run(context(**arguments))
    assert caught.value.reason == "output_too_large"
    assert await bind("add")(context(a=1)) == 11


async def test_memory_over_the_limit_is_an_error_of_that_call(
    bind: Callable[..., Execute],
) -> None:
    with pytest.raises(ToolFailure, match="more memory"):
        await bind("hungry", memory="256MiB")(context())
    assert await bind("hungry", memory="256MiB")(context(n=1000)) == 1000


async def test_processor_time_over_the_limit(bind: Callable[..., Execute]) -> None:
    with pytest.raises(ToolFailure, match=r"more than 0\.1 s of processor time"):
        await bind("busy", cpu="100ms")(context())
    assert await bind("add", cpu="1s")(context(a=1)) == 11


async def test_workers_that_cannot_start_break_calls_and_not_the_host(tmp_path: Path) -> None:
    executor = ProcessExecutor(command=("/bin/sh", "-c", "echo cannot begin >&2; exit 9"))
    spec = ToolSpec(name="t", kind="process", config={"module": "os", "function": "getcwd"})
    run = executor.bind(spec, Workshop(Sandboxes(), tmp_path))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="cannot begin"):
            await run(context())
    await executor.aclose()


async def test_nothing_is_left_after_closing(tmp_path: Path) -> None:
    before, files = children(), descriptors()
    executor = ProcessExecutor(workers=3)
    spec = ToolSpec(
        name="t",
        kind="process",
        config={**CONFIG, "function": "wait"},
    )
    run = executor.bind(spec, Workshop(Sandboxes(), tmp_path))
    await asyncio.gather(*(run(context()) for _ in range(3)))
    busy = asyncio.ensure_future(run(context()))
    await asyncio.sleep(0.02)
    workers = executor.processes
    await executor.aclose()
    with pytest.raises(ToolFailure, match="worker process ended"):
        await busy
    await executor.aclose()
    assert not [pid for pid in workers if exists(pid)]
    assert children() == before
    assert descriptors() == files


async def test_workers_die_with_the_host(tmp_path: Path) -> None:
    program = f"""
import asyncio, os
from toolcrib.core.context import ToolContext
from toolcrib.core.spec import ToolSpec
from toolcrib.executors.process import ProcessExecutor
from toolcrib.host.workshop import Sandboxes, Workshop

async def main():
    executor = ProcessExecutor()
    spec = ToolSpec(name="t", kind="process", config={CONFIG | {"function": "busy"}})
    run = executor.bind(spec, Workshop(Sandboxes(), {str(tmp_path)!r}))
    asyncio.ensure_future(run(ToolContext()))
    while not executor.processes:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.5)
    print(executor.processes[0], flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program], stdout=subprocess.PIPE, check=False
    )
    await until(lambda: not alive(int(done.stdout)))


def test_each_event_loop_has_workers_of_its_own(tmp_path: Path) -> None:
    executor = ProcessExecutor(workers=1)
    spec = ToolSpec(
        name="t",
        kind="process",
        config={**CONFIG, "function": "pid"},
    )
    run = executor.bind(spec, Workshop(Sandboxes(), tmp_path))

    async def once() -> int:
        return await run(context())

    first = asyncio.run(once())
    second = asyncio.run(once())  # the first loop is closed: its worker goes
    assert first != second
    assert executor.processes == [second]
    asyncio.run(executor.aclose())
    assert not alive(second)


async def test_a_worker_that_dies_while_nobody_calls_is_looked_after(
    bind: Callable[..., Execute], executor: ProcessExecutor
) -> None:
    pid = await bind("pid")(context())
    os.kill(pid, 9)
    await until(lambda: not exists(pid))
    assert await bind("pid")(context()) != pid


async def test_a_worker_handed_to_a_call_that_was_just_cancelled_is_not_lost(
    bind: Callable[..., Execute], executor: ProcessExecutor
) -> None:
    run = bind("pid", workers=1)
    pid = await run(context())
    ((_, pool),) = executor._pools.items()
    worker = await pool.take()
    waiting = asyncio.ensure_future(pool.take())
    await asyncio.sleep(0)
    pool.give(worker)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await asyncio.wait_for(run(context()), 5) == pid
