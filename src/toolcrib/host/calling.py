"""From a name to its plan: who calls, under which profile, what there is, and what is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.core.context import ToolContext
from toolcrib.core.entry import Entry
from toolcrib.core.principal import Principal
from toolcrib.core.result import ToolResult
from toolcrib.errors import Denial, HostStopped, StoreError
from toolcrib.host.session import Session
from toolcrib.host.strays import slip, stray, unexplained, unreachable
from toolcrib.pipeline.plan import Plan

if TYPE_CHECKING:
    from toolcrib.core.decision import Explanation
    from toolcrib.host.host import ToolHost


class Calling:
    """The careful way of a call; the host itself takes a short cut where nothing is in doubt."""

    def __init__(self, host: ToolHost) -> None:
        self._host = host

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        principal: Principal | str | None,
        profile: str | None,
        session: Session | str | None,
        timeout: float | None,
        call_id: str | None,
        door: str = "python",
        parent: ToolContext | None = None,
    ) -> ToolResult:
        """One call; what it takes was checked by nobody yet."""
        wrong = slip(name, principal, timeout, call_id)
        if wrong is not None:
            raise TypeError(wrong)
        host = self._host
        try:
            parts = await host.start()
        except StoreError as error:
            return unreachable("audit_unavailable", str(error), call_id)
        except HostStopped:
            return unreachable("host_stopping", "the host has stopped; make a new one", call_id)
        who, chosen, held, problem, reason = host.callers.resolve(principal, profile, session)
        plan = None
        if problem is None:
            plan = self.plan(name, chosen, held)
            if (plan is None or plan.outage is not None) and host.sources.pending:
                # Perhaps it belongs to a provider that is about to come.
                await host.sources.arrival(lambda: self._entry(name, chosen, held), timeout)
                plan = self.plan(name, chosen, held)
            if plan is None or _veiled(plan, name, who):
                plan = None
                problem, reason = self._unknown(name, chosen)
        door = door if held is None else held.door
        if plan is None:
            above = None if parent is None else parent.call_id
            said = problem or name
            return stray(
                host, parts, name, who, reason, said,
                call_id=call_id, session=held, parent=above, door=door,
            )  # fmt: skip
        return await parts.pipeline.run(plan, who, held, arguments, timeout, call_id, door, parent)

    async def refuse(
        self,
        name: str,
        who: Principal,
        reason: str,
        message: str,
        call_id: str | None,
        door: str,
    ) -> ToolResult:
        """A call that a door knows to go nowhere: it ends like any other, and is on the trail."""
        host = self._host
        try:
            parts = await host.start()
        except (StoreError, HostStopped) as error:
            return unreachable("audit_unavailable", str(error), call_id)
        return stray(host, parts, name, who, reason, message, call_id=call_id, door=door)

    async def nested(
        self,
        ctx: ToolContext,
        name: str,
        arguments: Mapping[str, Any] | None,
        timeout: float | None,
    ) -> ToolResult:
        """A call made by a tool."""
        left = ctx.remaining
        if left is not None:
            timeout = left if timeout is None else min(timeout, left)
        profile = ctx.profile.name if ctx.profile is not None else None
        session: Any = ctx.session
        return await self.call(
            name, arguments, ctx.principal, profile, session, timeout, None, ctx.door, ctx
        )

    def explain(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        principal: Principal | str | None,
        profile: str | None,
        session: Session | str | None,
    ) -> Explanation:
        """What would happen to such a call, and why."""
        from toolcrib.pipeline.explain import explain

        host = self._host
        who, chosen, held, problem, reason = host.callers.resolve(principal, profile, session)
        if problem is not None:
            return unexplained(name, who, chosen, reason, problem)
        plan = self.plan(name, chosen, held)
        if plan is None or _veiled(plan, name, who):
            text, reason = self._unknown(name, chosen)
            return unexplained(name, who, chosen, reason, text)
        return explain(plan, who, held, arguments, host.redactor, host.settings.max_arguments)

    def plan(self, name: str, profile: str | None, session: Session | None) -> Plan | None:
        """The plan of a tool under a profile; None when there is no such tool."""
        return self._host.planner.plan(name, self._host.callers.profile(profile), session)

    def _entry(self, name: str, profile: str | None, session: Session | None) -> Entry | None:
        plan = self.plan(name, profile, session)
        return None if plan is None else plan.entry

    def replan(self, ctx: ToolContext) -> Plan | None:
        """Today's plan for a call that waited. Raises `Denial` when its profile is not there, or
        not for this caller, any more."""
        callers = self._host.callers
        session: Any = ctx.session
        name = ctx.profile.name if ctx.profile else None
        ctx.principal = callers.current(ctx.principal)
        problem = callers.problem(ctx.principal, name)
        if session is not None and session.closed:
            raise Denial("unauthenticated", f"the session {session.id} has ended")
        if problem is not None:
            raise Denial("not_in_profile", problem)
        return self.plan(ctx.tool, name, session)

    def missing(self) -> dict[str, str]:
        """The providers whose tools nobody knows, because they never came up, and what to say of
        each."""
        found: dict[str, str] = {}
        for status in self._host.sources.status():
            if status.tools or status.state in ("up", "open"):
                continue
            given: Mapping[str, Any] = self._host.config.providers.get(status.name) or {}
            place: Mapping[str, Any] = given.get("place") or {}
            source = place.get("source")
            words = f"provider {status.name} is {status.state}{f' ({source})' if source else ''}"
            why = f": {status.error}" if status.error else ""
            found[status.name] = f"{words}{why}; its tools are not listed"
        return found

    def unlisted(self) -> list[str]:
        """What to say of tools that are in nobody's list: those of providers that never came up,
        and those that a person has to look at."""
        found = list(self.missing().values())
        for status in self._host.sources.status():
            if count := len(status.quarantined):
                what = "1 tool is" if count == 1 else f"{count} tools are"
                cure = f"look at it with `toolcrib providers review {status.name}`"
                found.append(f"provider {status.name}: {what} quarantined; {cure}")
        return found

    def _unknown(self, name: str, profile: str | None) -> tuple[str, str]:
        """That there is no such tool, and the reason: where a provider is missing, perhaps the
        tool is its. That, or a name like it, is only given away where none is concealed."""
        rules = self._host.callers.profile(profile)
        plain = f"{name}: no such tool"
        if rules is not None and rules.conceal:
            return plain, "unknown_tool"
        for provider, words in self.missing().items():
            given: Mapping[str, Any] = self._host.config.providers.get(provider) or {}
            if name.startswith(f"{given.get('prefix') or provider}-"):
                return words, "tool_unavailable"
        close = self._host.catalog.suggest(name)
        return plain + (f". Did you mean {close}?" if close else ""), "unknown_tool"


def _veiled(plan: Plan, name: str, who: Principal) -> bool:
    """Whether a name stands for a tool that is concealed from this caller. Refused under its own
    name, it would be known that the two are one."""
    rules = plan.profile
    if rules is None or not rules.conceal or name == plan.name:
        return False
    return not plan.listed(who)
