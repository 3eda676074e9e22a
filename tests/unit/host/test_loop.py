"""The loop in a thread of its own that hosts and clients without asyncio work on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import contextmanager
from typing import Any

import pytest

from toolcrib import ToolcribError
from toolcrib.host.loop import Loop

NAME = "toolcrib-test-loop"


def running() -> bool:
    return any(thread.name == NAME for thread in threading.enumerate())


@contextmanager
def made() -> Any:
    loop = Loop(NAME, "not from in here")
    try:
        yield loop
    finally:
        loop.close()
    assert not running()


async def three() -> int:
    await asyncio.sleep(0)
    return 3


def test_it_starts_with_the_first_use_and_ends() -> None:
    with made() as loop:
        assert not running()
        assert loop.run(three()) == 3
        assert running()
        loop.close()
        assert not running()
        assert loop.run(three()) == 3


def test_what_runs_in_it_cannot_wait_for_it() -> None:
    async def inner() -> int:
        return loop.run(three())

    with made() as loop, pytest.raises(ToolcribError, match="not from in here"):
        loop.run(inner())


def test_what_is_left_is_cancelled_and_may_tidy_up() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            ended.append("task")

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            ended.append("generator")

    following = numbers()
    tasks: list[Any] = []

    async def begin() -> int:
        tasks.append(asyncio.ensure_future(work()))
        await asyncio.sleep(0)
        return await anext(following)

    with made() as loop:
        assert loop.run(begin()) == 1
    assert ended == ["task", "generator"]


def test_a_thread_that_is_busy_is_not_waited_for() -> None:
    done = threading.Event()

    async def begin() -> None:
        asyncio.get_running_loop().run_in_executor(None, done.wait)
        await asyncio.sleep(0)

    try:
        with made() as loop:
            loop.run(begin())
        assert not done.is_set()
    finally:
        done.set()
