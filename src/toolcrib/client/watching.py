"""Telling a caller what happens to its call while it goes on."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from toolcrib.core.approval import ApprovalDecision, ApprovalRequest

_log = logging.getLogger("toolcrib")

OnProgress = Callable[[float | None, str | None], Any]
"""Called with the fraction done and a message, either may be None; may be asynchronous."""
OnApproval = Callable[[ApprovalRequest], Any]
"""Called with a request that waits. True, False or an `ApprovalDecision` answers it; None leaves
it to others. May be asynchronous."""
Decide = Callable[[str, ApprovalDecision], Awaitable[Any]]


class Watch:
    """The callbacks of one call. What they raise is logged and changes nothing."""

    def __init__(
        self, on_progress: OnProgress | None, on_approval: OnApproval | None, decide: Decide
    ) -> None:
        self.on_progress = on_progress
        self.on_approval = on_approval
        self._decide = decide
        self._turn = asyncio.Lock()
        self._telling: set[asyncio.Task[None]] = set()
        self._asking: set[asyncio.Task[None]] = set()

    def progress(self, fraction: float | None, message: str | None) -> None:
        """The tool told how far it is."""
        if self.on_progress is not None:
            self._start(self._telling, self._tell(self.on_progress, fraction, message))

    def approval(self, request: ApprovalRequest) -> None:
        """A person has to answer."""
        if self.on_approval is None or request.state != "pending":
            return
        self._start(self._asking, self._ask(self.on_approval, request))

    async def finish(self) -> None:
        """The call has ended: what was told of it arrives first, what is asked is not any more."""
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._telling, *self._asking, return_exceptions=True)

    async def _tell(self, tell: OnProgress, fraction: float | None, message: str | None) -> None:
        async with self._turn:  # in the order in which it was said
            try:
                await _arrived(tell(fraction, message))
            except Exception:
                _log.exception("on_progress failed")

    async def _ask(self, ask: OnApproval, request: ApprovalRequest) -> None:
        try:
            answer = await _arrived(ask(request))
            if isinstance(answer, bool):
                answer = ApprovalDecision(answer="allow" if answer else "deny")
            if answer is None:
                return
            if not isinstance(answer, ApprovalDecision):
                raise TypeError(f"on_approval gave a {type(answer).__name__}")
            if answer.answer != "escalate":
                await self._decide(request.id, answer)
        except Exception:
            _log.exception("approval %s was not answered from here", request.id)

    def _start(self, tasks: set[asyncio.Task[None]], work: Any) -> None:
        task = asyncio.ensure_future(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)


async def _arrived(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
