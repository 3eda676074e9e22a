"""The host itself: how it is, what it kept, what it goes by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib.core.events import Event
from toolcrib.core.version import __version__
from toolcrib.errors import ConfigError, ToolcribError
from toolcrib.host.history import History, Wanted
from toolcrib.transports import examining
from toolcrib.transports import models as m
from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault
from toolcrib.transports.toolviews import callable_tools
from toolcrib.transports.wire import METHODS

if TYPE_CHECKING:
    from toolcrib.transports.service import Service

MOST = 1000
"""Events in one answer."""


async def audit_search(service: Service, _: Caller, asked: m.AuditSearch) -> m.Events:
    if not 1 <= asked.limit <= MOST:
        raise Fault("invalid_request", f"limit is {asked.limit}; it can be 1 to {MOST}")
    given = {
        field: getattr(asked, field)
        for field in ("tool", "principal", "status", "reason", "since", "text", "call_id")
    }
    wanted = Wanted(type=asked.type, **given)
    if asked.after is None:
        await service.parts.store.flush()
        return m.Events(events=await History(service.parts.store).search(wanted, limit=asked.limit))
    found: list[Event] = []
    async for event in service.parts.replay(asked.after):
        if wanted.event(event):
            found.append(event)
            if len(found) >= asked.limit:
                break
    return m.Events(events=found)


async def audit_verify(service: Service, _caller: Caller, _: m.AuditVerify) -> m.Document:
    return m.Document(value=await examining.verified(service.host, service.parts))


async def providers_list(service: Service, _caller: Caller, _: m.ProvidersList) -> m.Things:
    return m.Things(items=examining.providers(service.host))


async def providers_restart(service: Service, _: Caller, asked: m.ProvidersRestart) -> m.Things:
    await service.host.sources.restart(asked.name)
    return m.Things(
        items=[row for row in examining.providers(service.host) if row["name"] == asked.name]
    )


async def providers_review(
    service: Service, _caller: Caller, asked: m.ProvidersReview
) -> m.Document:
    return m.Document(value=service.host.sources.review(asked.name))


async def providers_decide(
    service: Service, caller: Caller, asked: m.ProvidersDecide
) -> m.Document:
    host = service.host
    if host.settings.lock == "frozen":
        raise Fault(
            "not_permitted",
            "the lock of this host is frozen: review the tools where toolcrib.lock is kept, "
            "and bring the file here",
        )
    found = host.sources.decide(asked.name, asked.tools, caller.principal.name, accept=asked.accept)
    return m.Document(value=found)


async def plugins_list(service: Service, _caller: Caller, _: m.PluginsList) -> m.Things:
    return m.Things(items=await examining.plugins(service.host))


async def config_show(service: Service, _caller: Caller, _: m.ConfigShow) -> m.Document:
    return m.Document(value=examining.configuration(service.host))


async def config_check(service: Service, _caller: Caller, _: m.ConfigCheck) -> m.Document:
    return m.Document(value=await examining.check_configuration(service.host))


async def policy_verify(service: Service, _caller: Caller, _: m.PolicyVerify) -> m.Document:
    return m.Document(value=await examining.proved(service.host))


async def info(service: Service, caller: Caller, _: m.HostInfo) -> m.Info:
    config = service.host.config
    chosen = caller.profile or service.host.callers.default
    names = list(config.profiles)
    if caller.profiles is not None:
        names = [name for name in names if name == chosen or name in caller.profiles]
    connected = caller.door in ("stdio", "websocket")
    methods = [row.name for row in METHODS.values() if connected or row.http is not None]
    try:
        count = len(callable_tools(service.host, caller, None, None))
    except Fault:
        count = 0
    return m.Info(
        version=__version__,
        methods=[name for name in methods if _holds(caller, name)],
        capabilities={
            "client_tools": connected,
            "events": True,
            "approvals": True,
            "sessions": True,
            "durable": service.parts.store.durable,
        },
        door=caller.door,
        principal=caller.principal.name,
        roles=sorted(caller.principal.roles),
        permissions=sorted(caller.principal.permissions),
        rights=caller.rights,
        profile=chosen,
        profiles=names,
        session=None if caller.session is None else caller.session.id,
        tools=count,
    )


async def host_health(service: Service, caller: Caller, _: m.HostHealth) -> m.Health:
    found = health(service)
    # Which providers there are, and what they say of themselves, is not for everybody.
    return found if caller.may("audit") else m.Health(status=found.status, checks=[])


async def doctor(service: Service, _caller: Caller, _: m.HostDoctor) -> m.Things:
    return m.Things(items=await examining.diagnosis(service.host, service.parts))


async def reload(service: Service, _caller: Caller, _: m.HostReload) -> m.Reloaded:
    try:
        await service.host.reload()
    except ConfigError as error:
        words = [str(mistake) for mistake in error.all()]
        raise Fault("config_rejected", words[0], problems=words) from None
    except ToolcribError as error:
        raise Fault("config_rejected", str(error)) from None
    return m.Reloaded(tools=len(service.host.catalog), files=list(service.host.config.sources))


def health(service: Service) -> m.Health:
    """How the host is: its trail, its providers, and whether it still takes calls."""
    checks: list[m.Check] = []
    broken = service.parts.trail.broken
    checks.append(
        m.Check(
            name="trail",
            state="ok" if broken is None else "down",
            message=None if broken is None else str(broken),
        )
    )
    checks += [
        m.Check(
            name=f"provider {status.name}",
            state="ok" if status.state == "up" else "down",
            message=None if status.state == "up" else status.error or status.state,
        )
        for status in service.host.sources.status()
    ]
    if service.stopping or service.parts.pipeline.stopping:
        return m.Health(status="stopping", checks=checks)
    well = all(check.state == "ok" for check in checks)
    return m.Health(status="ok" if well else "degraded", checks=checks)


def _holds(caller: Caller, method: str) -> bool:
    right = METHODS[method].right
    return right is None or caller.may(right)
