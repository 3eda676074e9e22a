"""The approver at the terminal: one question at a time, single keys, no default."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TextIO

from toolcrib.approvals.keyboard import Keyboard, NoAnswer, Stop
from toolcrib.approvals.prompt import Prompt
from toolcrib.approvals.rendering import SIZE, PastCall, Size, question
from toolcrib.approvals.threads import in_thread
from toolcrib.core.approval import ApprovalDecision, ApprovalRequest

_log = logging.getLogger("toolcrib")
_ESCALATE = ApprovalDecision(answer="escalate")
_PATIENCE = 2.0
"""Seconds that looking up the calls before may take."""

Check = Callable[[ApprovalRequest, dict[str, Any]], Sequence[str]]
"""What is wrong with changed arguments, in words."""
Past = Callable[[ApprovalRequest], Awaitable[Sequence[PastCall]]]
"""The calls that came before the one in question."""


class Records(Protocol):
    """What a host knows that helps a person to decide."""

    def problems(self, request: ApprovalRequest, arguments: dict[str, Any]) -> Sequence[str]: ...
    async def past(self, request: ApprovalRequest) -> Sequence[PastCall]: ...


class TerminalApprover:
    """Asks the person at the terminal. Enter approves nothing; silence leaves it pending.

    Writes to standard error and reads standard input unless told otherwise. `hold` gives a context
    inside which log lines are held back. `check` and `past` are the host's own unless given.
    """

    def __init__(
        self,
        *,
        input: TextIO | None = None,
        output: TextIO | None = None,
        hold: Callable[[], AbstractContextManager[object]] | None = None,
        clock: Callable[[], float] = time.time,
        by: str = "terminal",
        via: str = "cli",
        check: Check | None = None,
        past: Past | None = None,
    ) -> None:
        self.via = via
        """The channel its answers count as."""
        self._input = input
        self._output = output
        self._hold = hold or nullcontext
        self._clock = clock
        self._by = by
        self._check = check
        self._past = past
        self._keyboard: Keyboard | None = None
        self._changed = threading.Condition()
        self._queue: deque[Stop] = deque()

    def use_records(self, records: Records) -> None:
        """Take what a host knows, where nothing else was given."""
        self._check = self._check or records.problems
        self._past = self._past or records.past

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        """The person's answer; `escalate` when there is none."""
        stop = Stop()
        loop = asyncio.get_running_loop()
        with self._changed:
            self._queue.append(stop)
        try:
            asking = in_thread(lambda: self._in_turn(request, stop, loop))
        except BaseException:
            self._leave(stop)
            raise
        try:
            return await asyncio.shield(asking)
        finally:
            # Whoever gives up waits until the terminal is as it was before.
            stop.set()
            with self._changed:
                self._changed.notify_all()
            await asyncio.wait({asking}, timeout=1.0)

    def _in_turn(
        self, request: ApprovalRequest, stop: Stop, loop: asyncio.AbstractEventLoop
    ) -> ApprovalDecision:
        """One question at a time, in the order in which they came."""
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._queue[0] is stop or bool(stop))
            return _ESCALATE if stop else self._prompt(request, stop, loop)
        finally:
            self._leave(stop)

    def _leave(self, stop: Stop) -> None:
        with self._changed:
            self._queue.remove(stop)
            self._changed.notify_all()
        stop.close()

    def _prompt(
        self, request: ApprovalRequest, stop: Stop, loop: asyncio.AbstractEventLoop
    ) -> ApprovalDecision:
        keyboard = self._keyboard
        if keyboard is None:
            stream = self._input or sys.stdin
            if stream is None:  # pyright: ignore[reportUnnecessaryComparison] - detached process
                return _ESCALATE
            keyboard = self._keyboard = Keyboard(stream)
        until = time.monotonic() + request.expires - self._clock()
        try:
            with self._hold(), keyboard.opened():
                self._write("\n" + question(request, self._size()))
                keyboard.forget()
                return Prompt(
                    request=request,
                    keyboard=keyboard,
                    stop=stop,
                    until=until,
                    write=self._write,
                    clock=self._clock,
                    by=self._by,
                    problems=lambda arguments: self._problems(request, arguments),
                    past=lambda: self._calls_before(request, loop),
                    screen=self._screen(),
                ).answer()
        except (NoAnswer, KeyboardInterrupt):
            why = "No longer asked here." if stop else "Not answered here; it stays pending."
            if time.monotonic() >= until:
                why = "Nobody answered in time."
            self._write(f"\n  {why}\n")
            return _ESCALATE

    def _problems(self, request: ApprovalRequest, arguments: dict[str, Any]) -> Sequence[str]:
        if self._check is None:
            return ()
        try:
            return self._check(request, arguments)
        except Exception as error:
            _log.warning("changed arguments of %s cannot be checked", request.id, exc_info=True)
            return (f"they cannot be checked: {type(error).__name__}",)

    def _calls_before(
        self, request: ApprovalRequest, loop: asyncio.AbstractEventLoop
    ) -> Sequence[PastCall] | None:
        if self._past is None:
            return None
        looking = asyncio.run_coroutine_threadsafe(_awaited(self._past(request)), loop)
        try:
            return looking.result(_PATIENCE)
        except Exception:
            # A help that cannot be had must not keep the person from answering.
            looking.cancel()
            _log.warning("the calls before %s cannot be read", request.call_id, exc_info=True)
            return None

    def _screen(self) -> int | None:
        try:
            return (self._output or sys.stderr).fileno()
        except (OSError, ValueError, AttributeError):
            return None

    def _size(self) -> Size:
        screen = self._screen()
        if screen is None:
            return SIZE
        try:
            columns, rows = os.get_terminal_size(screen)
        except OSError:
            return SIZE
        # A terminal that does not know its size says 0.
        return Size(columns or SIZE.columns, rows or SIZE.rows)

    def _write(self, text: str) -> None:
        output = self._output or sys.stderr
        encoding = getattr(output, "encoding", None) or "utf-8"
        output.write(text.encode(encoding, "backslashreplace").decode(encoding))
        output.flush()


async def _awaited(found: Awaitable[Sequence[PastCall]]) -> Sequence[PastCall]:
    return await found
