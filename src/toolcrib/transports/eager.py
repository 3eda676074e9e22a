"""Starting work at once: as far as it goes in this moment, and as a task from where it waits.

Most calls never wait. A task for each would cost a turn of the loop, which is dearer than the call.
"""

from __future__ import annotations

import asyncio
import sys
import types
from asyncio import CancelledError, Future, Task
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any, TypeVar

T = TypeVar("T")
Work = Coroutine[Any, Any, None]


@types.coroutine
def going_on(work: Coroutine[Any, Any, T], waiting: Any) -> Generator[Any, Any, T]:
    """Go on with work that was begun by hand, by `send(None)`, and gave what it waits for."""
    try:
        while True:
            try:
                sent = yield waiting
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:
                waiting = work.throw(error)
            else:
                waiting = work.send(sent)
    except StopIteration as ended:
        return ended.value


class _EagerTasks:
    """Starts work with the tasks of Python 3.12 and later, which can do it themselves."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()

    def start(self, work: Work) -> Task[None] | None:
        """Run the work until it waits; then gives the task that it goes on as."""
        context = self._context.copy()
        made: Any = Task  # what it takes is known to later versions only
        task: Task[None] = made(work, loop=self._loop, context=context, eager_start=True)
        return None if task.done() else task

    def close(self) -> None:
        """Nothing is kept."""


class _StandIns:
    """The same for Python 3.11, by keeping a task that stands by.

    While work runs here, that task counts as the current one: whoever wants to cancel the work
    later, or sets it a time limit, asks for it. Only work that waits uses it up.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        # Always one of them: how many tasks there are says nothing about what was done before.
        self._next: _StandIn | None = _StandIn(self._loop)

    def start(self, work: Work) -> Task[None] | None:
        """Run the work until it waits; then gives the task that it goes on as."""
        loop = self._loop
        made = self._next
        if made is None or made.task.cancelling():
            made = self._next = _StandIn(loop)
        task = made.task
        context = self._context.copy()  # one call does not see what another set
        before = _current(loop)
        if before is not None:
            _leave(loop, before)
        _enter(loop, task)
        try:
            waiting = context.run(work.send, None)
        except (StopIteration, CancelledError):
            return None
        finally:
            _leave(loop, task)
            if before is not None:
                _enter(loop, before)
        self._next = _StandIn(loop)
        made.take_over(work, context, waiting)
        return task

    def close(self) -> None:
        """Let the task go that stands by."""
        made, self._next = self._next, None
        if made is not None:
            made.task.cancel()


class _StandIn(Coroutine[Any, Any, None]):
    """What a task runs that first waits for work, and then is that work."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._free: Future[None] = loop.create_future()
        self._work: Work | None = None
        self._context: Context
        self._waiting: Any = None
        """What the work waited for when it was taken over, until the task waits for it."""
        self._taken = False
        self.task: Task[None] = loop.create_task(self)

    def take_over(self, work: Work, context: Context, waiting: Any) -> None:
        """Go on with work that waits for something."""
        self._work, self._context, self._waiting = work, context, waiting
        if not self._free.done():
            self._free.set_result(None)

    def send(self, value: Any, /) -> Any:
        """The next step."""
        work = self._work
        if work is None:
            return next(iter(self._free.__await__()))
        if not self._taken:
            self._taken = True
            return self._waiting
        return self._context.run(work.send, value)

    def throw(self, *error: Any) -> Any:
        """The next step, with an exception, which is all that tasks give."""
        work = self._work
        if work is None:
            raise error[0]
        if not self._taken:
            # Cancelled between the two: as a task does it, through what is waited for.
            self._taken = True
            if self._waiting is not None and self._waiting.cancel():
                return self._waiting
        return self._context.run(work.throw, *error)

    def close(self) -> None:
        """End what is left of it."""
        if self._work is not None:
            self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        raise NotImplementedError("a task runs it")


_tasks: Any = asyncio.tasks
_enter: Callable[[asyncio.AbstractEventLoop, Task[Any]], None] = _tasks._enter_task
_leave: Callable[[asyncio.AbstractEventLoop, Task[Any]], None] = _tasks._leave_task
_current: Callable[[asyncio.AbstractEventLoop], Task[Any] | None]

if sys.version_info >= (3, 12):
    Starter = _EagerTasks
    _current = asyncio.current_task
else:  # there it is a function in Python around this look-up
    Starter = _StandIns
    _current = _tasks._current_tasks.get
