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
_STANDING = 16
"""Tasks that stand by at most."""
_OVER = object()
"""What work gives in the place of something to wait for when it has ended."""
Work = Coroutine[Any, Any, None]
Steps = Generator[Any, Any, None]


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

    def __init__(self, *, again: bool = False) -> None:
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
    later, or sets it a time limit, asks for it. Only work that waits uses it up; with `again`, it
    stands by for other work after that, where nobody waits for the end of a task.
    """

    def __init__(self, *, again: bool = False) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._idle = _Idle() if again else None
        # Always one of them: how many tasks there are says nothing about what was done before.
        self._next: _StandIn | None = _StandIn(self._loop, self._idle)

    def start(self, work: Work) -> Task[None] | None:
        """Run the work until it waits; then gives the task that it goes on as."""
        loop = self._loop
        made = self._next
        if made is None or made.spent:
            made = self._next = self._another()
        task = made.task
        context = self._context.copy()  # one call does not see what another set
        before = _current(loop)
        if before is not None:
            _leave(loop, before)
        _enter(loop, task)
        # By its iterator: that ends without an exception, which would cost more than the step.
        steps = work.__await__()
        try:
            waiting = context.run(next, steps, _OVER)
        except CancelledError:
            return None
        finally:
            _leave(loop, task)
            if before is not None:
                _enter(loop, before)
        if waiting is _OVER:
            return None
        self._next = self._another()
        made.take_over(work, steps, context, waiting)
        return task

    def _another(self) -> _StandIn:
        idle = self._idle
        while idle is not None and idle.all:
            found = idle.all.pop()
            if not found.spent:
                return found
            found.task.cancel()
        return _StandIn(self._loop, idle)

    def close(self) -> None:
        """Let the tasks go that stand by."""
        made, self._next = self._next, None
        if made is not None:
            made.task.cancel()
        if self._idle is not None:
            self._idle.over = True
            for one in self._idle.all:
                one.task.cancel()
            self._idle.all.clear()


class _Idle:
    """Those that stand by after their work."""

    def __init__(self) -> None:
        self.all: list[_StandIn] = []
        self.over = False
        """Whether nobody has work for them any more."""


class _StandIn(Coroutine[Any, Any, None]):
    """What a task runs that first waits for work, and then is that work."""

    def __init__(self, loop: asyncio.AbstractEventLoop, idle: _Idle | None) -> None:
        self._idle = idle
        """Where it stands by after its work; None where its task ends with it."""
        self._loop = loop
        self._free: Future[None] = loop.create_future()
        self._work: Work | None = None
        self._steps: Steps
        """What the work does, step by step."""
        self._context: Context
        self._waiting: Any = None
        """What the work waited for when it was taken over, until the task waits for it."""
        self._taken = False
        self.task: Task[None] = loop.create_task(self)

    @property
    def spent(self) -> bool:
        """Whether somebody cancelled its task, and be it that it was taken back: the next step may
        be the end of it, and must not be that of other work."""
        task: Any = self.task
        told = self._work is None and self._free.done()
        return told or task.done() or task._must_cancel or task.cancelling() > 0

    def take_over(self, work: Work, steps: Steps, context: Context, waiting: Any) -> None:
        """Go on with work that waits for something."""
        self._work, self._steps = work, steps
        self._context, self._waiting = context, waiting
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
        if self._idle is None:
            return self._context.run(work.send, value)
        try:
            waiting = self._context.run(next, self._steps, _OVER)
        except CancelledError:
            waiting = _OVER
        return self._stand_by() if waiting is _OVER else waiting

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
        if self._idle is None:
            return self._context.run(work.throw, *error)
        try:
            return self._context.run(work.throw, *error)
        except (StopIteration, CancelledError):
            return self._stand_by()

    def _stand_by(self) -> Any:
        """Wait for other work, unless enough others do. Whether somebody still cancels this is
        looked at before it gets any."""
        idle = self._idle
        if idle is None or idle.over or len(idle.all) >= _STANDING:
            raise StopIteration
        self._work = self._waiting = None
        del self._context, self._steps
        self._taken = False
        self._free = self._loop.create_future()
        idle.all.append(self)
        return next(iter(self._free.__await__()))

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
