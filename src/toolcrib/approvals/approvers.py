"""Approvers in the program: a function, a fixed answer, and one after the other."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable
from typing import Any, Literal, cast, get_args

from toolcrib.approvals.answers import read_decision
from toolcrib.approvals.consult import counted, vias
from toolcrib.approvals.threads import in_thread
from toolcrib.core.approval import Answer, ApprovalDecision, ApprovalRequest
from toolcrib.core.protocols import Approver
from toolcrib.core.spec import Effect
from toolcrib.errors import ConfigError


class CallbackApprover:
    """Asks a function: `function(request)` gives True, False or an `ApprovalDecision`.

    Async functions run in the loop, others in a thread of their own.
    """

    def __init__(self, function: Callable[[ApprovalRequest], Any]) -> None:
        self._function = function
        self._async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an object with an async __call__
        )

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        """What the function says. Anything that is not an answer raises."""
        if self._async:
            answer = self._function(request)
        else:
            answer = await in_thread(lambda: self._function(request))
        if inspect.isawaitable(answer):
            answer = await answer
        return read_decision(answer)


class AutomaticApprover:
    """Gives every request the same answer, for tests and unattended runs.

    With `only`, the answer is for tools known to do nothing beyond these effects; the others get
    `otherwise`.
    """

    def __init__(
        self,
        answer: Literal["allow", "deny"],
        *,
        only: Collection[Effect] | None = None,
        otherwise: Answer = "deny",
    ) -> None:
        if answer not in ("allow", "deny"):
            raise ConfigError(f"an automatic approver answers allow or deny, not {answer!r}")
        if otherwise not in get_args(Answer):
            raise ConfigError(f"otherwise is allow, deny or escalate, not {otherwise!r}")
        if isinstance(only, str) or not set(only or ()) <= set(get_args(Effect)):
            known = ", ".join(get_args(Effect))
            raise ConfigError(f"only is a list of effects, not {only!r}", cure=f"Choose of {known}")
        self._answer: Answer = answer
        self._only = None if only is None else frozenset(only)
        self._otherwise: Answer = otherwise

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        """The fixed answer."""
        fits = self._only is None or (
            request.effects is not None and self._only.issuperset(request.effects)
        )
        return ApprovalDecision(answer=self._answer if fits else self._otherwise, by="automatic")


class ChainApprover:
    """Asks one after the other: who answers `escalate` passes the question on.

    When the last one passes too, the request stays pending for people. One that raises ends the
    chain with a no.
    """

    def __init__(self, approvers: Iterable[Any]) -> None:
        links = [as_approver(approver) for approver in approvers]
        self._links = [link for link in links if link is not None]
        if not self._links:
            raise ConfigError("a chain of approvers is empty", cure="Give it one approver or more")
        self.via = tuple(dict.fromkeys(via for link in self._links for via in vias(link)))

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        """The first answer that is not `escalate`."""
        for link in self._links:
            if counted(link, request):
                decision = read_decision(await link.ask(request))
                if decision.answer != "escalate":
                    return decision
        return ApprovalDecision(answer="escalate")


def as_approver(approver: object) -> Approver | None:
    """An approver made of an object with `ask`, or of a function; None stays None."""
    if approver is None:
        return None
    if isinstance(approver, type):
        raise ConfigError(
            f"approver is the class {approver.__name__}", cure="Give an object made from it"
        )
    if callable(getattr(approver, "ask", None)):
        return cast("Approver", approver)
    if callable(approver):
        return CallbackApprover(approver)
    raise ConfigError(
        f"approver is a {type(approver).__name__}",
        cure="Give a function(request), or an object with `async def ask(self, request)`",
    )
