"""Somebody who answers approvals as a script says, well or badly."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeGuard, cast

from toolcrib.core.approval import ApprovalDecision, ApprovalRequest

Behaviour = Literal["allow", "deny", "escalate", "crash", "nonsense", "expire"]
"""allow, deny and escalate are answers · crash raises · nonsense answers with something that is
no answer · expire never answers, so that the request runs out."""

_ANSWERS = ("allow", "deny", "escalate")
_FAULTS = ("crash", "nonsense", "expire")


class ApprovalSimulator:
    """An approver for tests: `make_host(…, approver=ApprovalSimulator({"deploy": "allow"}))`.

    The script maps a tool's name to what happens: a behaviour, True or False, an
    `ApprovalDecision`, an exception to raise, a function of the request that gives one of these,
    or a list of them, one a question. What is not in the script, or behind the end of its list,
    gets `default`. `delay` seconds pass before each answer.
    """

    def __init__(
        self,
        script: Mapping[str, Any] | None = None,
        *,
        default: Any = "deny",
        delay: float = 0.0,
    ) -> None:
        self._script: dict[str, list[Any]] = {}
        self._default = default
        self._delay = delay
        _check(default)
        self.requests: list[ApprovalRequest] = []
        """Every question, oldest first."""
        for tool, step in (script or {}).items():
            self.script(tool, step)

    def __repr__(self) -> str:
        return f"<ApprovalSimulator, {len(self.requests)} questions>"

    def script(self, tool: str, *steps: Any) -> None:
        """Say what happens from now on when this tool is asked about, one step a question; a
        single step happens every time."""
        row = list(cast("Iterable[Any]", steps[0])) if _is_row(steps) else list(steps)
        for step in row:
            _check(step)
        if len(steps) == 1 and not _is_row(steps):
            row = [_Always(row[0])]
        self._script[tool] = row

    def asked(self, tool: str) -> list[ApprovalRequest]:
        """The questions about one tool."""
        return [request for request in self.requests if request.tool == tool]

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        """Answer, or fail to, as the script says."""
        self.requests.append(request)
        if self._delay:
            await asyncio.sleep(self._delay)
        step = self._next(request.tool)
        if not _is_error(step) and callable(step):
            step = step(request)
            step = await step if inspect.isawaitable(step) else step
        return await _act(step)

    def _next(self, tool: str) -> Any:
        row = self._script.get(tool)
        if not row:
            return self._default
        return row[0].step if isinstance(row[0], _Always) else row.pop(0)


async def _act(step: Any) -> ApprovalDecision:
    if _is_error(step):
        raise step
    if step == "crash":
        raise RuntimeError("the simulated approver crashed")
    if step == "expire":
        await asyncio.get_running_loop().create_future()
    if step is True or step is False:
        step = "allow" if step else "deny"
    if step in _ANSWERS:
        return ApprovalDecision(answer=step, by="simulator")
    # Also what is no answer at all is passed on: that is what `nonsense` is for.
    return cast("ApprovalDecision", step)


def _check(step: object) -> None:
    known = (*_ANSWERS, *_FAULTS)
    if isinstance(step, str) and step not in known:
        raise ValueError(f"{step!r} is no behaviour. Choose of: {', '.join(known)}")
    fits = isinstance(step, bool | str | ApprovalDecision) or callable(step) or _is_error(step)
    if not fits:
        raise ValueError(
            f"an approver cannot be scripted with a {type(step).__name__}. Give a behaviour, "
            "True, False, an ApprovalDecision, an exception or a function"
        )


class _Always:
    """A step that happens every time."""

    def __init__(self, step: Any) -> None:
        self.step = step


def _is_row(steps: tuple[Any, ...]) -> bool:
    return len(steps) == 1 and isinstance(steps[0], list | tuple)


def _is_error(value: object) -> TypeGuard[Exception | type[Exception]]:
    return isinstance(value, Exception) or (
        isinstance(value, type) and issubclass(value, Exception)
    )
