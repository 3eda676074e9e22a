"""What each method does. Each takes the service, who asks, and the request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from toolcrib.transports.methods import calls, host, people, sessions, tools

HANDLERS: dict[str, Callable[[Any, Any, Any], Awaitable[Any]]] = {
    "tools.list": tools.tools_list,
    "tools.search": tools.tools_search,
    "tools.get": tools.tools_get,
    "tools.show": tools.tools_show,
    "tools.check": tools.tools_check,
    "tools.call": calls.tools_call,
    "calls.list": calls.calls_list,
    "calls.get": calls.calls_get,
    "calls.cancel": calls.calls_cancel,
    "calls.trail": calls.calls_trail,
    "calls.output": calls.calls_output,
    "explain": calls.explain,
    "explain.all": calls.explain_all,
    "approvals.list": people.approvals_list,
    "approvals.get": people.approvals_get,
    "approvals.decide": people.approvals_decide,
    "grants.list": people.grants_list,
    "grants.revoke": people.grants_revoke,
    "sessions.open": sessions.sessions_open,
    "sessions.list": sessions.sessions_list,
    "sessions.get": sessions.sessions_get,
    "sessions.close": sessions.sessions_close,
    "audit.search": host.audit_search,
    "audit.verify": host.audit_verify,
    "providers.list": host.providers_list,
    "providers.restart": host.providers_restart,
    "providers.review": host.providers_review,
    "providers.decide": host.providers_decide,
    "plugins.list": host.plugins_list,
    "config.show": host.config_show,
    "config.check": host.config_check,
    "policy.verify": host.policy_verify,
    "host.info": host.info,
    "host.health": host.host_health,
    "host.doctor": host.doctor,
    "host.reload": host.reload,
}
"""By name. What only a connection can do stands with the connection."""
