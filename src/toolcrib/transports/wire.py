"""The one list of methods.

Every door offers these and no others: JSON-RPC on stdio and WebSocket by name, HTTP by the route
beside it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from toolcrib.core.approval import ApprovalRequest
from toolcrib.core.decision import Explanation
from toolcrib.core.result import ToolResult
from toolcrib.transports import models as m
from toolcrib.transports.caller import Right


class Method(msgspec.Struct, frozen=True):
    """One row: what a method takes, gives and needs."""

    name: str
    request: type[m.Request]
    answer: Any
    http: tuple[str, str] | None
    """Verb and route; None where only a connection can do it."""
    doc: str
    right: Right | None = None
    """What a caller must hold for it, whatever it asks for."""


def _rows(*rows: Method) -> dict[str, Method]:
    return {row.name: row for row in rows}


M = Method
METHODS: dict[str, Method] = _rows(
    M("tools.list", m.ToolsList, m.ToolsPage, ("GET", "/v1/tools"),
      "The tools the caller may call."),
    M("tools.search", m.ToolsSearch, m.ToolsFound, ("GET", "/v1/search"),
      "The tools that fit some words best, among those the caller may call."),
    M("tools.get", m.ToolsGet, m.ToolView, ("GET", "/v1/tools/{name}"), "One tool."),
    M("tools.show", m.ToolsShow, m.Document, ("GET", "/v1/tools/{name}/details"),
      "Everything about one tool, its settings too.", "audit"),
    M("tools.check", m.ToolsCheck, m.Things, ("GET", "/v1/check/tools"),
      "Whether every tool of the configuration can be used.", "admin"),
    M("tools.call", m.ToolsCall, ToolResult | m.CallState, ("POST", "/v1/tools/{name}/call"),
      "Call a tool."),
    M("tools.register", m.ToolsRegister, m.Names, None,
      "Offer tools that run in this client, for as long as it is connected, to its own session "
      "or to another one of the caller's."),
    M("tools.unregister", m.ToolsUnregister, m.Names, None, "Take such tools back."),
    M("calls.list", m.CallsList, m.CallsPage, ("GET", "/v1/calls"), "Recent calls."),
    M("calls.get", m.CallsGet, ToolResult | m.CallState, ("GET", "/v1/calls/{id}"),
      "How a call ended, or that it has not."),
    M("calls.cancel", m.CallsCancel, m.Cancelled, ("DELETE", "/v1/calls/{id}"),
      "Stop a call that runs or waits."),
    M("calls.trail", m.CallsTrail, m.Events, ("GET", "/v1/calls/{id}/trail"),
      "The events of one call."),
    M("calls.output", m.CallsOutput, m.Output, ("GET", "/v1/calls/{id}/output"),
      "The whole output of a call whose result was cut."),
    M("explain", m.Explain, Explanation, ("POST", "/v1/explain"),
      "What would happen to a call, and why. Nothing runs."),
    M("explain.all", m.ExplainAll, m.Document, ("GET", "/v1/explain"),
      "What would become of calls of every tool."),
    M("approvals.list", m.ApprovalsList, m.ApprovalsPage, ("GET", "/v1/approvals"),
      "What waits for a person: the caller's own, or everybody's with the right `approve`."),
    M("approvals.get", m.ApprovalsGet, ApprovalRequest, ("GET", "/v1/approvals/{id}"),
      "One request."),
    M("approvals.decide", m.ApprovalsDecide, ApprovalRequest, ("POST", "/v1/approvals/{id}"),
      "Answer a request."),
    M("grants.list", m.GrantsList, m.GrantsPage, ("GET", "/v1/grants"), "Remembered approvals."),
    M("grants.revoke", m.GrantsRevoke, m.Revoked, ("DELETE", "/v1/grants/{id}"),
      "Take a remembered approval back."),
    M("sessions.open", m.SessionsOpen, m.SessionView, ("POST", "/v1/sessions"), "Begin a session."),
    M("sessions.list", m.SessionsList, m.SessionsPage, ("GET", "/v1/sessions"),
      "The caller's open sessions."),
    M("sessions.get", m.SessionsGet, m.SessionView, ("GET", "/v1/sessions/{id}"), "One session."),
    M("sessions.close", m.SessionsClose, m.Closed, ("DELETE", "/v1/sessions/{id}"),
      "End a session."),
    M("events.subscribe", m.EventsSubscribe, m.Subscribed, None,
      "Be told of events as they happen; on HTTP it is `GET /v1/events`."),
    M("events.unsubscribe", m.EventsUnsubscribe, m.Closed, None, "Be told no more."),
    M("audit.search", m.AuditSearch, m.Events, ("GET", "/v1/audit"),
      "Events on the trail.", "audit"),
    M("audit.verify", m.AuditVerify, m.Document, ("GET", "/v1/audit/verify"),
      "Whether the trail is what was written.", "audit"),
    M("providers.list", m.ProvidersList, m.Things, ("GET", "/v1/providers"),
      "The live sources of tools, and how each is.", "audit"),
    M("providers.restart", m.ProvidersRestart, m.Things, ("POST", "/v1/providers/{name}/restart"),
      "Start a provider anew.", "admin"),
    M("providers.review", m.ProvidersReview, m.Document, ("GET", "/v1/providers/{name}/review"),
      "What a provider lists that is not what was accepted.", "audit"),
    M("providers.decide", m.ProvidersDecide, m.Document, ("POST", "/v1/providers/{name}/review"),
      "Accept or reject tools of a provider as the review showed them.", "admin"),
    M("plugins.list", m.PluginsList, m.Things, ("GET", "/v1/plugins"),
      "What is installed, and what it offers.", "audit"),
    M("config.show", m.ConfigShow, m.Document, ("GET", "/v1/config"),
      "The configuration in force, secrets masked.", "audit"),
    M("config.check", m.ConfigCheck, m.Document, ("GET", "/v1/check/config"),
      "Whether the configuration file as it is now could be put in force.", "admin"),
    M("policy.verify", m.PolicyVerify, m.Document, ("GET", "/v1/policy/verify"),
      "What the rules let happen that they should not.", "audit"),
    M("host.info", m.HostInfo, m.Info, ("GET", "/v1/info"),
      "Who answers, what it can do, and who the caller is to it."),
    M("host.health", m.HostHealth, m.Health, ("GET", "/v1/health"), "How the host is."),
    M("host.doctor", m.HostDoctor, m.Things, ("GET", "/v1/doctor"),
      "What is well and what is not, each with a cure.", "audit"),
    M("host.reload", m.HostReload, m.Reloaded, ("POST", "/v1/reload"),
      "Read the configuration again; a wrong one changes nothing.", "admin"),
)  # fmt: skip
"""Every method, in the order of the documentation."""
