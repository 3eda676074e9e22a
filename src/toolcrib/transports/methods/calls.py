"""Calls after they were made: found, followed, stopped and explained."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from toolcrib.core.decision import Explanation
from toolcrib.core.result import ToolResult
from toolcrib.host.history import History, Wanted
from toolcrib.host.strays import unexplained
from toolcrib.transports import examining
from toolcrib.transports import models as m
from toolcrib.transports.caller import Caller
from toolcrib.transports.concealing import is_concealed, told, told_events, unknown
from toolcrib.transports.faults import Fault
from toolcrib.transports.sessions import entered

if TYPE_CHECKING:
    from toolcrib.transports.service import Service

MOST = 1000
"""Calls in one answer."""


async def tools_call(
    service: Service, caller: Caller, request: m.ToolsCall
) -> ToolResult | m.CallState:
    return await service.calls.run(caller, request)


async def calls_list(service: Service, caller: Caller, asked: m.CallsList) -> m.CallsPage:
    if not 1 <= asked.limit <= MOST:
        raise Fault("invalid_request", f"limit is {asked.limit}; it can be 1 to {MOST}")
    principal = asked.principal
    if not caller.may("audit"):
        if principal not in (None, caller.principal.name):
            caller.need("audit")
        principal = caller.principal.name
    wanted = Wanted(
        tool=asked.tool,
        principal=principal,
        status=asked.status,
        reason=asked.reason,
        since=asked.since,
        prefix=asked.prefix,
    )
    store = service.parts.store
    await store.flush()
    # What is told otherwise than it was is looked for as it is told.
    shown = partial(told, service.host, caller)
    found = await History(store).recent_calls(limit=asked.limit, wanted=wanted, shown=shown)
    known = {call.id for call in found}
    # Calls that only read are on the trail when they have ended, and not before.
    going = [call for call in service.calls.going() if call.id not in known and wanted.call(call)]
    both = sorted([*found, *going], key=lambda call: call.time)
    return m.CallsPage(calls=both[-asked.limit :])


async def calls_get(
    service: Service, caller: Caller, asked: m.CallsGet
) -> ToolResult | m.CallState:
    return await service.calls.get(caller, asked.id, asked.wait)


async def calls_cancel(service: Service, caller: Caller, asked: m.CallsCancel) -> m.Cancelled:
    flight = service.calls.flight(asked.id)
    if flight is None:
        await service.calls.summary(caller, asked.id)  # says so when there never was one
        return m.Cancelled(cancelled=False)
    if flight.principal.name != caller.principal.name and not caller.may("admin"):
        raise Fault("not_found", f"there is no call {asked.id!r}")
    return m.Cancelled(cancelled=service.calls.cancel(asked.id))


async def calls_trail(service: Service, caller: Caller, asked: m.CallsTrail) -> m.Events:
    await service.calls.summary(caller, asked.id)
    events = await service.host.trail(call_id=asked.id)
    return m.Events(events=told_events(service.host, service.parts, caller, events))


async def calls_output(service: Service, caller: Caller, asked: m.CallsOutput) -> m.Output:
    return m.Output(text=service.host.output(asked.id, principal=caller.principal))


async def explain(service: Service, caller: Caller, asked: m.Explain) -> Explanation:
    if asked.as_ is not None:
        caller.need("audit")
        return service.host.explain(
            asked.name, asked.arguments, principal=asked.as_, profile=asked.profile
        )
    if not caller.may_use(asked.profile):
        who = caller.principal.name
        raise Fault("not_permitted", f"{who} may not use the profile {asked.profile}")
    session = entered(service.host, caller, asked.session, asked.profile)
    profile = asked.profile or (caller.profile if session is None else None)
    found = service.host.callers.resolve(caller.principal, profile, session)
    if (
        found.problem is None
        and not caller.may("audit")
        and is_concealed(service.host, found.who, asked.name, found.profile, found.session)
    ):
        words = unknown(asked.name)
        return unexplained(asked.name, found.who, found.profile, "unknown_tool", words)
    return service.host.explain(
        asked.name,
        asked.arguments,
        principal=caller.principal,
        profile=profile,
        session=session,
    )


async def explain_all(service: Service, caller: Caller, asked: m.ExplainAll) -> m.Document:
    """What would become of calls of every tool; who may not look at others is told of its own."""
    if asked.as_ is not None:
        caller.need("audit")
    elif not caller.may_use(asked.profile):
        who = caller.principal.name
        raise Fault("not_permitted", f"{who} may not use the profile {asked.profile}")
    profile = asked.profile or (caller.profile if asked.as_ is None else None)
    found = examining.overview(
        service.host, asked.as_ or caller.principal, profile, every=caller.may("audit")
    )
    return m.Document(value=found)
