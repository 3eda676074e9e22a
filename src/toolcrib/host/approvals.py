"""The approvals and grants of a host, as an embedder answers them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from toolcrib.errors import ConfigError, ToolcribError

if TYPE_CHECKING:
    from toolcrib.approvals.inbox import Fate, Inbox
    from toolcrib.approvals.rendering import PastCall
    from toolcrib.core.approval import ApprovalRequest, Grant
    from toolcrib.core.problems import Problem
    from toolcrib.host.history import CallSummary
    from toolcrib.host.host import ToolHost

    _Requests = list[ApprovalRequest]
    _Fates = list[Fate]
    _Grants = list[Grant]
    _Past = list[PastCall]

LOOKED_AT = 1000
"""Newest calls of a principal among which those of one session are looked for."""


class UnfitArguments(ConfigError, ValueError):
    """Changed arguments do not fit the tool's schema. The request stays pending."""

    def __init__(self, request: ApprovalRequest, problems: Sequence[Problem]) -> None:
        words = _words(problems[0])
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(
            f"the changed arguments do not fit {request.tool}: {words}{more}",
            cure=f"Approval {request.id} stays pending: answer again",
        )
        self.problems = tuple(problems)
        """Everything that is wrong."""


class Approvals:
    """What waits for a person, and what is remembered of the answers."""

    def __init__(self, host: ToolHost) -> None:
        self._host = host

    async def _inbox(self) -> Inbox:
        return (await self._host.start()).inbox

    async def list(self, *, state: Any = "pending") -> _Requests:
        """The requests in a state, those that expire first in front."""
        return await (await self._inbox()).list(state=state)

    async def get(self, id: str) -> ApprovalRequest:
        """One request. Raises `NotFound`."""
        return await (await self._inbox()).get(id)

    async def decide(
        self,
        id: str,
        allow: bool = True,
        *,
        note: str | None = None,
        reach: str = "once",
        arguments: dict[str, Any] | None = None,
        by: str = "host",
        via: str = "host",
    ) -> ApprovalRequest:
        """Answer a request. Raises `NotFound`, or ValueError for an answer that was not offered;
        `UnfitArguments` is one. Then nothing has changed."""
        inbox = await self._inbox()
        if arguments is not None:
            request = await inbox.get(id)
            wrong = self._unfit(request, arguments) if request.state == "pending" else None
            if wrong:
                raise UnfitArguments(request, wrong)
        return await inbox.decide(
            id, allow=allow, note=note, reach=reach, arguments=arguments, by=by, via=via
        )

    async def decide_many(self, ids: Iterable[str], **answer: Any) -> _Fates:
        """Give several requests the same answer; each one's fate is told."""
        from toolcrib.approvals.inbox import Fate

        if answer.get("arguments") is None:
            return await (await self._inbox()).decide_many(ids, **answer)
        fates: _Fates = []
        for each in ids:
            try:
                fates.append(Fate(id=each, request=await self.decide(each, **answer)))
            except (ToolcribError, ValueError) as error:
                fates.append(Fate(id=each, error=str(error)))
        return fates

    def problems(self, request: ApprovalRequest, arguments: dict[str, Any]) -> Sequence[str]:
        """What is wrong with changed arguments of a request, in words."""
        return [_words(problem) for problem in self._unfit(request, arguments)]

    def lend_to(self, approver: object) -> None:
        """Let an approver look up what helps a person to decide, if it has a use for it."""
        use: Any = getattr(approver, "use_records", None)
        if callable(use):
            use(self)

    def _unfit(self, request: ApprovalRequest, arguments: Any) -> Sequence[Problem]:
        """What today's tool says of the arguments; nothing when it is not here or has changed: the
        call that waits is checked once more before it runs."""
        from toolcrib.core.problems import Problem

        host = self._host
        session = host.callers.sessions.get(request.session or "")
        profile = host.callers.profile(request.profile)
        plan = host.planner.plan(request.tool, profile, session)
        if plan is None or plan.spec.digest != request.digest or not isinstance(arguments, dict):
            return ()
        filled: dict[str, Any] = {**(plan.defaults or {}), **cast("dict[str, Any]", arguments)}
        try:
            found = plan.validator.problems(filled)
        except (TypeError, ValueError, OverflowError, RecursionError):
            return ()  # these are no JSON values, which the inbox says
        return [
            Problem(path=p.path, message=host.redactor.text(p.message), rule=p.rule)
            for p in found
            if not _as_shown(p.path, filled, request.arguments)
        ]

    async def past(self, request: ApprovalRequest, *, limit: int = 3) -> _Past:
        """The last calls before a request: of its session, or of its principal without one."""
        from toolcrib.host.history import History, Wanted

        store = (await self._host.start()).store
        await store.flush()
        wanted = Wanted(principal=request.principal)
        found = await History(store).recent_calls(limit=LOOKED_AT, wanted=wanted)
        before = [
            call
            for call in found
            if call.id != request.call_id and request.session in (None, call.session)
        ]
        return [_past(call) for call in before[-limit:]]

    async def grants(self, *, live: bool = True) -> _Grants:
        """The remembered approvals."""
        return await (await self._inbox()).grants(live=live)

    async def revoke(self, grant_id: str, *, by: str = "host") -> bool:
        """Take a remembered approval back; false when it is gone already."""
        return await (await self._inbox()).revoke(grant_id, by=by)


def _as_shown(path: str, arguments: dict[str, Any], shown: dict[str, Any]) -> bool:
    """Whether a problem is about a part that was left as it was shown: it fitted once, and what
    does not fit is the mask of a secret, which is put back before the call runs."""
    name = path.partition(".")[0].partition("[")[0]
    return name in arguments and name in shown and arguments[name] == shown[name]


def _words(problem: Problem) -> str:
    return f"{problem.path} {problem.message}".strip()


def _past(call: CallSummary) -> PastCall:
    from toolcrib.approvals.rendering import PastCall

    ending = call.status or "open"
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(call.time))
    return PastCall(call.tool, f"{ending}, {call.reason}" if call.reason else ending, when)
