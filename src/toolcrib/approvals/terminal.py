"""The approver at the terminal: one question at a time, single keys, no default."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TextIO

from toolcrib.approvals.keyboard import Keyboard, NoAnswer, Stop
from toolcrib.approvals.rendering import KEYS, choices, more, question, remaining, visible
from toolcrib.approvals.threads import in_thread
from toolcrib.core.approval import ApprovalDecision, ApprovalRequest

_ESCALATE = ApprovalDecision(answer="escalate")


class TerminalApprover:
    """Asks the person at the terminal. Enter approves nothing; silence leaves it pending.

    Writes to standard error and reads standard input unless told otherwise. `hold` gives a context
    inside which log lines are held back.
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
    ) -> None:
        self.via = via
        """The channel its answers count as."""
        self._input = input
        self._output = output
        self._hold = hold or nullcontext
        self._clock = clock
        self._by = by
        self._keyboard: Keyboard | None = None
        self._changed = threading.Condition()
        self._queue: deque[Stop] = deque()

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        """The person's answer; `escalate` when there is none."""
        stop = Stop()
        with self._changed:
            self._queue.append(stop)
        try:
            asking = in_thread(lambda: self._in_turn(request, stop))
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

    def _in_turn(self, request: ApprovalRequest, stop: Stop) -> ApprovalDecision:
        """One question at a time, in the order in which they came."""
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._queue[0] is stop or bool(stop))
            return _ESCALATE if stop else self._prompt(request, stop)
        finally:
            self._leave(stop)

    def _leave(self, stop: Stop) -> None:
        with self._changed:
            self._queue.remove(stop)
            self._changed.notify_all()
        stop.close()

    def _prompt(self, request: ApprovalRequest, stop: Stop) -> ApprovalDecision:
        keyboard = self._keyboard
        if keyboard is None:
            stream = self._input or sys.stdin
            if stream is None:  # pyright: ignore[reportUnnecessaryComparison] - detached process
                return _ESCALATE
            keyboard = self._keyboard = Keyboard(stream)
        until = time.monotonic() + request.expires - self._clock()
        try:
            with self._hold(), keyboard.opened():
                self._write("\n" + question(request))
                keyboard.forget()
                return self._answer(request, keyboard, stop, until)
        except (NoAnswer, KeyboardInterrupt):
            why = "No longer asked here." if stop else "Not answered here; it stays pending."
            if time.monotonic() >= until:
                why = "Nobody answered in time."
            self._write(f"\n  {why}\n")
            return _ESCALATE

    def _answer(
        self, request: ApprovalRequest, keyboard: Keyboard, stop: Stop, until: float
    ) -> ApprovalDecision:
        reaches = {KEYS[reach]: reach for reach in request.offered if reach in KEYS}
        self._write(self._time(request))
        while True:
            key = keyboard.key(stop, until)
            if not key:
                continue
            if key in reaches:
                self._write(f"{key}\n")
                return ApprovalDecision(answer="allow", reach=reaches[key], by=self._by)
            if key == "n":
                return self._refusal(keyboard, stop, until)
            if key == "m":
                self._write(f"{key}\n\n{more(request)}\n  {choices(request)}\n")
            else:
                keys = ", ".join([*reaches, "n"])
                self._write(f"\n  {visible(key, 12)} does nothing; press {keys} or m.\n")
            self._write(self._time(request))

    def _refusal(self, keyboard: Keyboard, stop: Stop, until: float) -> ApprovalDecision:
        try:
            with keyboard.editing():
                self._write("n\n  A note for the model, or Enter for none: ")
                note = keyboard.line(stop, until)
        except (NoAnswer, KeyboardInterrupt):
            note = ""
            self._write("\n")
        return ApprovalDecision(answer="deny", note=note or None, by=self._by)

    def _time(self, request: ApprovalRequest) -> str:
        return f"  Refused by itself in {remaining(request.expires - self._clock())}.  > "

    def _write(self, text: str) -> None:
        output = self._output or sys.stderr
        encoding = getattr(output, "encoding", None) or "utf-8"
        output.write(text.encode(encoding, "backslashreplace").decode(encoding))
        output.flush()
