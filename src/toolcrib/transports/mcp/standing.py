"""Whom a request of an MCP client is held to be, and under which profile."""

from __future__ import annotations

from toolcrib.host.callers import Caller as Standing
from toolcrib.host.host import ToolHost
from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault
from toolcrib.transports.mcp.asked import Endpoint
from toolcrib.transports.mcp.faults import McpFault
from toolcrib.transports.service import EXPIRED
from toolcrib.transports.sessions import entered


def standing(host: ToolHost, caller: Caller, endpoint: Endpoint) -> Standing:
    """The principal, the profile and the session that a call of this caller would have. Raises
    `McpFault` where it may not be held to that profile."""
    profile = endpoint.profile
    if not caller.may_use(profile):
        words = f"{caller.principal.name} may not use the profile {profile}"
        raise McpFault.of(Fault("not_permitted", words))
    try:
        held = entered(host, caller, endpoint.session, profile)
    except Fault as fault:
        raise McpFault.of(fault) from None
    chosen = profile or (caller.profile if held is None else None)
    found = host.callers.resolve(caller.principal, chosen, held)
    if found.problem is not None:
        reason = "not_found" if found.reason == "unauthenticated" else "not_permitted"
        raise McpFault.of(Fault(reason, found.problem))
    return found


def today(host: ToolHost, caller: Caller, endpoint: Endpoint) -> Standing:
    """The same for whoever listens for long: it is what the configuration says of it today. Raises
    `McpFault`."""
    if caller.badge.over:
        raise McpFault.of(Fault("unauthenticated", EXPIRED))
    caller.principal = host.callers.current(caller.principal)
    return standing(host, caller, endpoint)
