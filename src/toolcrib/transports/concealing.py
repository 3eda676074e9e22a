"""What callers may know of tools that their profile conceals: as much as of tools that are not.

The trail keeps the truth, and those with the right `audit` see it.
"""

from __future__ import annotations

import msgspec

from toolcrib.core.events import Event
from toolcrib.core.principal import Principal
from toolcrib.host.history import CallSummary
from toolcrib.host.host import ToolHost
from toolcrib.host.parts import Parts
from toolcrib.host.session import Session
from toolcrib.transports.caller import Caller
from toolcrib.transports.viewing import Sight


def is_concealed(
    host: ToolHost, who: Principal, tool: str, profile: str | None, session: Session | None
) -> bool:
    """Whether the profile keeps from this caller that there is such a tool."""
    rules = host.callers.profile(profile)
    # Of a profile that is gone nobody knows any more what it kept secret.
    if profile is None or (rules is not None and not rules.conceal):
        return False
    plan = None if rules is None else host.calling.plan(tool, profile, session)
    return plan is None or not plan.listed(who)


def unknown(tool: str) -> str:
    """What is said of a tool that does not exist."""
    return f"{tool}: no such tool"


def told(host: ToolHost, caller: Caller, call: CallSummary) -> CallSummary:
    """A call as its caller may know it."""
    if caller.may("audit") or call.status != "denied":
        return call
    session = host.callers.sessions.get(call.session or "")
    if not is_concealed(host, caller.principal, call.tool, call.profile, session):
        return call
    return msgspec.structs.replace(
        call,
        profile=None,
        status="error",
        reason="unknown_tool",
        message=unknown(call.tool),
        seconds=0.0,
    )


def told_events(host: ToolHost, parts: Parts, caller: Caller, events: list[Event]) -> list[Event]:
    """The events of a call as its caller may know them."""
    sight = Sight(host, parts)
    forms = [sight.look(event).form_for(event, caller) for event in events]
    return [form for form in forms if form is not None]
