"""What goes over the wire with each method: typed requests that refuse unknown members, and typed
answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from toolcrib.core.approval import ApprovalRequest, Grant, RequestState
from toolcrib.core.events import Event
from toolcrib.host.history import CallSummary

VERSION = "1"
"""The version of the list of methods; a change that breaks a client raises it."""

MOST_LISTED = 1000
"""Items on one page at most."""


class Request(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What a caller sends."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the host sends back."""


# Tools.


class ToolsList(Request, frozen=True, kw_only=True):
    profile: str | None = None
    session: str | None = None
    prefix: str | None = None
    """Only names that begin so."""
    tag: str | None = None
    category: str | None = None
    kind: str | None = None
    cursor: str | None = None
    """The `next` of the page before."""
    limit: int = 100
    as_: str | None = msgspec.field(default=None, name="as")
    """List what this principal may call; needs the right `audit`."""


class ToolView(Answer, frozen=True, kw_only=True):
    """A tool as callers see it. What its executor is told stays in the host."""

    name: str
    wire_name: str
    title: str | None
    description: str
    kind: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    effects: list[str] | None
    """None: unknown, treated as the worst case."""
    idempotent: bool
    scope: str
    version: str
    category: str | None
    tags: list[str]
    permissions: list[str]
    requires_approval: bool
    timeout: float | None
    digest: str
    unavailable: str | None = None
    """Why it cannot be called now; None when it can."""
    revision: str | None = None
    """The revision of the rules it stands under; grants are bound to it."""


class ToolsPage(Answer, frozen=True, kw_only=True):
    tools: list[ToolView]
    total: int
    next: str | None = None
    """The cursor of the next page; None on the last."""
    missing: list[str] = []
    """What is to be said of providers whose tools nobody knows yet."""


class ToolsGet(Request, frozen=True, kw_only=True):
    name: str
    profile: str | None = None
    session: str | None = None


class ToolsShow(Request, frozen=True, kw_only=True):
    name: str


class ToolsCheck(Request, frozen=True, kw_only=True):
    pass


class ToolsSearch(Request, frozen=True, kw_only=True):
    query: str
    profile: str | None = None
    session: str | None = None
    limit: int = 10


class Found(Answer, frozen=True, kw_only=True):
    tool: ToolView
    score: float


class ToolsFound(Answer, frozen=True, kw_only=True):
    """What fits best stands first."""

    tools: list[Found]


class ClientTool(Request, frozen=True, kw_only=True):
    """A tool that runs in the client that offers it."""

    name: str
    description: str = ""
    title: str | None = None
    input_schema: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None
    effects: list[str] | None = None
    idempotent: bool = False
    timeout: float | None = None
    category: str | None = None
    tags: list[str] = []
    requires_approval: bool = False


class ToolsRegister(Request, frozen=True, kw_only=True):
    tools: list[ClientTool]
    replace: bool = False
    session: str | None = None
    """The caller's own session that gets them; unset: that of the connection."""


class ToolsUnregister(Request, frozen=True, kw_only=True):
    names: list[str]
    session: str | None = None
    """As with `tools.register`."""


class Names(Answer, frozen=True, kw_only=True):
    names: list[str]


# Calls.


class ToolsCall(Request, frozen=True, kw_only=True):
    name: str
    arguments: dict[str, Any] | None = None
    session: str | None = None
    profile: str | None = None
    timeout: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Seconds for the tool's own work."""
    wait: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """Seconds until the state of the call is answered instead of its result; None waits for the
    result."""
    key: str | None = None
    """Calls of one principal with the same key run once; later ones get the first one's result."""


class CallState(Answer, frozen=True, kw_only=True):
    """A call that has not ended: it runs, or waits for a person."""

    call_id: str
    state: Literal["running", "awaiting_approval"]
    tool: str
    since: float
    """Seconds since 1970, when the call arrived."""
    approval: str | None = None
    """The request that has to be answered."""


class CallsGet(Request, frozen=True, kw_only=True):
    id: str
    wait: float | None = 0.0
    """Seconds to wait for the ending; None waits for as long as it takes."""


class CallsList(Request, frozen=True, kw_only=True):
    prefix: str | None = None
    """Only calls whose id begins so."""
    tool: str | None = None
    principal: str | None = None
    status: str | None = None
    reason: str | None = None
    since: float | None = None
    limit: int = 20


class CallsPage(Answer, frozen=True, kw_only=True):
    """The newest calls, oldest first."""

    calls: list[CallSummary]


class CallsCancel(Request, frozen=True, kw_only=True):
    id: str


class Cancelled(Answer, frozen=True, kw_only=True):
    cancelled: bool


class CallsTrail(Request, frozen=True, kw_only=True):
    id: str


class Events(Answer, frozen=True, kw_only=True):
    events: list[Event]


class CallsOutput(Request, frozen=True, kw_only=True):
    id: str


class Output(Answer, frozen=True, kw_only=True):
    """The whole output of a call whose result was cut."""

    text: str


class Explain(Request, frozen=True, kw_only=True):
    name: str
    arguments: dict[str, Any] | None = None
    profile: str | None = None
    session: str | None = None
    as_: str | None = msgspec.field(default=None, name="as")
    """Explain it for this principal; needs the right `audit`."""


class ExplainAll(Request, frozen=True, kw_only=True):
    profile: str | None = None
    as_: str | None = msgspec.field(default=None, name="as")
    """For this principal; needs the right `audit`."""


# People.


class ApprovalsList(Request, frozen=True, kw_only=True):
    state: RequestState | Literal["any"] = "pending"


class ApprovalsPage(Answer, frozen=True, kw_only=True):
    """What expires first stands in front."""

    approvals: list[ApprovalRequest]


class ApprovalsGet(Request, frozen=True, kw_only=True):
    id: str


class ApprovalsDecide(Request, frozen=True, kw_only=True):
    id: str
    allow: bool
    note: str | None = None
    reach: str = "once"
    arguments: dict[str, Any] | None = None
    """Changed arguments, where the profile permits."""


class GrantsList(Request, frozen=True, kw_only=True):
    live: bool = True


class GrantsPage(Answer, frozen=True, kw_only=True):
    grants: list[Grant]


class GrantsRevoke(Request, frozen=True, kw_only=True):
    id: str


class Revoked(Answer, frozen=True, kw_only=True):
    revoked: bool


# Sessions.


class SessionsOpen(Request, frozen=True, kw_only=True):
    profile: str | None = None
    cwd: str | None = None
    """A folder at or below the host's own."""
    metadata: dict[str, Any] = {}


class SessionsGet(Request, frozen=True, kw_only=True):
    id: str


class SessionsClose(Request, frozen=True, kw_only=True):
    id: str


class SessionsList(Request, frozen=True, kw_only=True):
    pass


class SessionView(Answer, frozen=True, kw_only=True):
    id: str
    principal: str
    profile: str | None
    door: str
    cwd: str
    metadata: dict[str, Any]
    created: float
    expires: float | None
    """When it ends if it is not used before, in seconds since 1970."""


class SessionsPage(Answer, frozen=True, kw_only=True):
    sessions: list[SessionView]


class Closed(Answer, frozen=True, kw_only=True):
    closed: bool


# Events.


class EventsSubscribe(Request, frozen=True, kw_only=True):
    types: list[str] | None = None
    """Only these; `call.*` means all that begin so."""
    call_id: str | None = None
    after: str | None = None
    """First those on the trail behind this event id; an empty text means from the beginning."""


class Subscribed(Answer, frozen=True, kw_only=True):
    subscription: str
    after: str | None = None
    """Where it begins: what to subscribe behind when the connection breaks before the first event.
    None for one call without `after`."""


class EventsUnsubscribe(Request, frozen=True, kw_only=True):
    subscription: str


# The host.


class HostInfo(Request, frozen=True, kw_only=True):
    pass


class Info(Answer, frozen=True, kw_only=True):
    """Who answers, what it can do, and who the caller is to it."""

    name: Literal["toolcrib"] = "toolcrib"
    version: str
    wire: str = VERSION
    methods: list[str]
    """What this door offers."""
    capabilities: dict[str, bool]
    door: str
    principal: str
    roles: list[str]
    permissions: list[str]
    rights: list[str]
    profile: str | None
    profiles: list[str]
    """Those the caller may choose from."""
    session: str | None
    tools: int
    """How many the caller may call."""


class HostHealth(Request, frozen=True, kw_only=True):
    pass


class Check(Answer, frozen=True, kw_only=True):
    name: str
    state: Literal["ok", "down"]
    message: str | None = None


class Health(Answer, frozen=True, kw_only=True):
    status: Literal["ok", "degraded", "stopping"]
    checks: list[Check]


class HostReload(Request, frozen=True, kw_only=True):
    pass


class Reloaded(Answer, frozen=True, kw_only=True):
    tools: int
    files: list[str]


class ProvidersList(Request, frozen=True, kw_only=True):
    pass


class ProvidersRestart(Request, frozen=True, kw_only=True):
    name: str


class ProvidersReview(Request, frozen=True, kw_only=True):
    name: str


class ProvidersDecide(Request, frozen=True, kw_only=True):
    name: str
    tools: dict[str, str | None]
    """By name, the digest that the review showed; null for a tool that is gone."""
    accept: bool


class Things(Answer, frozen=True, kw_only=True):
    """Rows as the command line prints them with `--json`."""

    items: list[dict[str, Any]]


class PluginsList(Request, frozen=True, kw_only=True):
    pass


class HostDoctor(Request, frozen=True, kw_only=True):
    pass


class AuditSearch(Request, frozen=True, kw_only=True):
    tool: str | None = None
    principal: str | None = None
    status: str | None = None
    reason: str | None = None
    since: float | None = None
    text: str | None = None
    call_id: str | None = None
    type: str | None = None
    after: str | None = None
    """Only events behind this id, oldest first; without it the newest ones."""
    limit: int = 100


class AuditVerify(Request, frozen=True, kw_only=True):
    pass


class ConfigShow(Request, frozen=True, kw_only=True):
    pass


class ConfigCheck(Request, frozen=True, kw_only=True):
    pass


class Document(Answer, frozen=True, kw_only=True):
    """Something the command line prints as it stands."""

    value: Any


class PolicyVerify(Request, frozen=True, kw_only=True):
    pass


class ClientCall(Answer, frozen=True, kw_only=True):
    """What the host asks of a client whose tool is called: the request `client.call`."""

    call_id: str
    tool: str
    arguments: dict[str, Any]
    timeout: float | None = None
    session: str | None = None
    """The session that was named when the tool was offered."""


class ClientAnswer(Request, frozen=True, kw_only=True):
    """What a client's tool gave: an output, or an error in words for the model."""

    output: Any = None
    error: str | None = None
    reason: str | None = None
    content: list[dict[str, Any]] | None = None


class ClientProgress(Request, frozen=True, kw_only=True):
    """The notification `client.progress`: how far a client's tool is."""

    call_id: str
    fraction: float | None = None
    message: str | None = None
