"""Tools as callers see them: listed by pages, found by words."""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib.core.spec import ToolSpec
from toolcrib.errors import NotFound
from toolcrib.host.host import ToolHost
from toolcrib.host.session import Session
from toolcrib.host.tool import Tool
from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault
from toolcrib.transports.models import (
    MOST_LISTED,
    Found,
    ToolsFound,
    ToolsList,
    ToolsPage,
    ToolsSearch,
    ToolView,
)
from toolcrib.transports.sessions import entered


def tool_view(
    spec: ToolSpec, unavailable: str | None = None, revision: str | None = None
) -> ToolView:
    """What a caller may know of a tool."""
    return ToolView(
        name=spec.name,
        wire_name=spec.wire_name,
        title=spec.title,
        description=spec.description,
        kind=spec.kind,
        input_schema=dict(spec.input_schema),
        output_schema=None if spec.output_schema is None else dict(spec.output_schema),
        effects=None if spec.effects is None else sorted(spec.effects),
        idempotent=spec.idempotent,
        scope=spec.scope,
        version=spec.version,
        category=spec.category,
        tags=sorted(spec.tags),
        permissions=sorted(spec.permissions),
        requires_approval=spec.requires_approval,
        timeout=spec.timeout,
        digest=spec.digest,
        unavailable=unavailable,
        revision=revision,
    )


def callable_tools(
    host: ToolHost,
    caller: Caller,
    profile: str | None,
    session: str | Session | None,
    as_: str | None = None,
) -> Sequence[Tool]:
    """The tools the caller may call, in the order of their names. Raises `Fault`."""
    if as_ is not None:
        caller.need("audit")
        chosen, held = profile, None
    else:
        chosen, held = _held(host, caller, profile, session)
    try:
        return host.tools(
            profile=chosen,
            principal=as_ or caller.principal,
            session=held,
        )
    except NotFound as error:
        raise Fault("not_found", str(error)) from None


def _held(
    host: ToolHost, caller: Caller, profile: str | None, session: str | Session | None
) -> tuple[str | None, str | Session | None]:
    """The profile and the session that the caller's wishes come to. Raises `Fault`."""
    if not caller.may_use(profile):
        raise Fault("not_permitted", f"{caller.principal.name} may not use the profile {profile}")
    held = entered(host, caller, session, profile)
    return profile or (caller.profile if held is None else None), held


def callable_tool(
    host: ToolHost, caller: Caller, name: str, profile: str | None, session: str | Session | None
) -> ToolView:
    """One tool, by its name, `name@version` or wire name. Raises `Fault`."""
    chosen, held = _held(host, caller, profile, session)
    found = host.callers.resolve(caller.principal, chosen, held)
    if found.problem is not None:
        reason = "not_found" if found.reason == "unauthenticated" else "not_permitted"
        raise Fault(reason, found.problem)
    plan = host.calling.plan(name, found.profile, found.session)
    if plan is None or not plan.listed(found.who):
        raise Fault("unknown_tool", f"{name}: no such tool, or none that may be called")
    down = None if plan.outage is None else plan.outage.message
    return tool_view(plan.spec, down, plan.revision)


def page(tools: Sequence[Tool], asked: ToolsList, missing: Sequence[str] = ()) -> ToolsPage:
    """One page of those that fit. The cursor is the last name of the page before, so that tools
    which come or go meanwhile neither repeat nor hide others."""
    if not 1 <= asked.limit <= MOST_LISTED:
        raise Fault("invalid_request", f"limit is {asked.limit}; it can be 1 to {MOST_LISTED}")
    fit = [
        tool
        for tool in tools
        if (asked.prefix is None or tool.name.startswith(asked.prefix))
        and asked.category in (None, tool.spec.category)
        and asked.kind in (None, tool.spec.kind)
        and (asked.tag is None or asked.tag in tool.spec.tags)
    ]
    after = asked.cursor
    rest = fit if after is None else [tool for tool in fit if tool.name > after]
    shown = rest[: asked.limit]
    return ToolsPage(
        tools=[tool_view(tool.spec, tool.unavailable) for tool in shown],
        total=len(fit),
        next=shown[-1].name if len(rest) > len(shown) else None,
        missing=list(missing),
    )


async def search(host: ToolHost, caller: Caller, asked: ToolsSearch) -> ToolsFound:
    """Those that fit the words best, among those that the caller may call. Raises `Fault`."""
    if not 1 <= asked.limit <= MOST_LISTED:
        raise Fault("invalid_request", f"limit is {asked.limit}; it can be 1 to {MOST_LISTED}")
    profile, session = _held(host, caller, asked.profile, asked.session)
    who = caller.principal
    try:
        await host.finding.ready(principal=who, profile=profile, session=session)
        found = host.finding.find(
            asked.query, asked.limit, principal=who, profile=profile, session=session
        )
    except ValueError as error:
        raise Fault("invalid_request", str(error)) from None
    except NotFound as error:
        raise Fault("not_found", str(error)) from None
    return ToolsFound(
        tools=[
            Found(tool=tool_view(tool.spec, tool.unavailable), score=score) for score, tool in found
        ]
    )
