"""What the HTTP headers of an MCP request say, held against its body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec

from toolcrib.core.jsontext import is_plain, is_whole
from toolcrib.core.principal import Principal
from toolcrib.pipeline.plan import Plan
from toolcrib.protocol.jsonrpc import Request
from toolcrib.protocol.mcp import codes, keys
from toolcrib.protocol.mcp.headers import Mirror, mirrors, wrong_params, wrong_request
from toolcrib.protocol.mcp.versions import HANDSHAKE, LATEST, MODERN
from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault
from toolcrib.transports.mcp.asked import (
    Asked,
    Endpoint,
    asked_modern,
    stands_alone,
    unsupported,
)
from toolcrib.transports.mcp.faults import McpFault
from toolcrib.transports.mcp.line import encode
from toolcrib.transports.service import Service

BOTH = b"application/json, text/event-stream"
"""What nearly every client accepts, letter by letter."""
_VERSION = b"mcp-protocol-version"
_LATEST = LATEST.encode()
_MODERN = frozenset(version.encode() for version in MODERN)
_MOST_SCHEMAS = 4096
LONGEST_NAME = 256
"""Of a tool, in a call."""


def check_accept(head: Mapping[bytes, bytes], *kinds: bytes) -> None:
    """Refuse a client that could not read the answer. Raises `Fault`."""
    accept = head.get(b"accept")
    if accept is None or accept == BOTH:
        return
    given = [part.partition(b";")[0].strip().lower() for part in accept.split(b",")]
    for kind in kinds:
        wide = kind.partition(b"/")[0] + b"/*"
        if not (kind in given or wide in given or b"*/*" in given):
            text = " and ".join(each.decode() for each in kinds)
            raise Fault("not_acceptable", f"send `Accept` with {text}")


def is_modern(head: Mapping[bytes, bytes], params: Any) -> bool:
    """Whether a message stands alone: it says so itself, or in its header."""
    return head.get(_VERSION) in _MODERN or stands_alone(params)


def check_version(head: Mapping[bytes, bytes]) -> None:
    """Refuse a revision that no client of the handshake era can speak. Raises `McpFault`."""
    given = head.get(_VERSION)
    if given is None:
        return
    version = given.decode("latin-1").strip()
    if version not in HANDSHAKE:
        raise unsupported(version[:64])


def read_modern(head: Mapping[bytes, bytes], read: Request) -> Asked:
    """A request that stands alone, whose headers fit its body. Raises `McpFault`."""
    params: Any = read.params
    meta: Any = cast("dict[str, Any]", params).get("_meta") if type(params) is dict else None
    said = head.get(_VERSION)
    if type(meta) is dict:
        version = cast("dict[str, Any]", meta).get(keys.VERSION)
        if type(version) is str:
            if said is None:
                raise _mismatch(f"the header MCP-Protocol-Version is missing. Send {version[:64]}")
            if said.decode("latin-1").strip() != version:
                raise _mismatch("the header MCP-Protocol-Version does not repeat the body's")
    asked = asked_modern(read.id, read.method, params)
    wrong = wrong_request(head, asked.method, asked.params)
    if wrong is not None:
        raise _mismatch(wrong)
    return asked


class _Meta(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """`_meta` as nearly every client writes it; anything else is looked at closely."""

    version: str = msgspec.field(name=keys.VERSION)
    capabilities: dict[str, Any] = msgspec.field(name=keys.CAPABILITIES)
    client: dict[str, Any] | None = msgspec.field(name=keys.CLIENT, default=None)


class _Params(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    name: str
    arguments: dict[str, Any]
    meta: _Meta = msgspec.field(name="_meta")


class _Call(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    jsonrpc: Literal["2.0"]
    id: int | str
    method: Literal["tools/call"]
    params: _Params


_decode_call = msgspec.json.Decoder(_Call).decode


def named(head: Mapping[bytes, bytes]) -> bytes | None:
    """The tool that the headers of a modern call name, as nearly every client writes them; None
    for any others."""
    name = head.get(b"mcp-name")
    if (
        name is None
        or head.get(_VERSION) != _LATEST
        or head.get(b"mcp-method") != b"tools/call"
        or head.get(b"accept") != BOTH
        or not name.isascii()
        or name.startswith(b"=?")
    ):
        return None
    return name


def usual_call(name: bytes, body: bytes) -> Asked | None:
    """A modern call of this tool as nearly every client writes it; None for any other shape, which
    `read_modern` looks at closely. Why the text is then strict JSON, `parse_quickly` says."""
    if not is_plain(body):
        return None
    try:
        call = _decode_call(body)
        if not is_whole(body, encode(call)):
            return None
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return None
    params = call.params
    meta = params.meta
    if meta.version != LATEST or params.name.encode() != name or len(name) > LONGEST_NAME:
        return None
    return Asked(
        call.id,
        "tools/call",
        {"name": params.name, "arguments": params.arguments},
        era="modern",
        version=LATEST,
        capabilities=meta.capabilities,
        client=meta.client,
    )


class Params:
    """Holds the headers that repeat arguments against these."""

    def __init__(self, service: Service) -> None:
        self._host = service.host
        self._known: dict[int, tuple[Mapping[str, Any], tuple[Mirror, ...]]] = {}
        """By the identity of a tool's schema, which is kept so that no other can have it."""

    def unmarked(self, caller: Caller, name: str) -> Plan | None:
        """The plan of a tool whose arguments no header repeats, if it is known to a caller without
        a session."""
        if caller.session is not None or caller.books is not self._host.planner.books:
            return None
        plan = None if caller.plans is None else caller.plans.get(name)
        if plan is None:
            return None
        schema = plan.spec.input_schema
        held = self._known.get(id(schema))
        return None if (held[1] if held is not None else self._learn(schema)) else plan

    def check(
        self, head: Mapping[bytes, bytes], caller: Caller, endpoint: Endpoint, asked: Asked
    ) -> None:
        """Raise `McpFault` where a header does not repeat the argument that it stands for."""
        name = asked.params.get("name")
        if type(name) is not str:
            return
        plan, who = self._plan(caller, endpoint, name)
        if plan is None:
            return
        schema = plan.spec.input_schema
        held = self._known.get(id(schema))
        marked = held[1] if held is not None else self._learn(schema)
        if not marked:
            return
        given = asked.params.get("arguments")
        arguments = cast("dict[str, Any]", given) if type(given) is dict else {}
        wrong = wrong_params(head, marked, arguments)
        if wrong is not None and plan.listed(who):  # of tools that it may not call nothing is told
            raise _mismatch(wrong)

    def _plan(self, caller: Caller, endpoint: Endpoint, name: str) -> tuple[Plan | None, Principal]:
        host = self._host
        plain = endpoint.session is None and caller.session is None
        if plain and caller.plans is not None and caller.books is host.planner.books:
            plan = caller.plans.get(name)
            if plan is not None:
                return plan, caller.principal
        session = endpoint.session or caller.session
        profile = caller.profile if session is None else None
        found = host.callers.resolve(caller.principal, profile, session)
        if found.problem is not None:
            return None, found.who
        return host.calling.plan(name, found.profile, found.session), found.who

    def _learn(self, schema: Mapping[str, Any]) -> tuple[Mirror, ...]:
        try:
            marked = mirrors(schema)
        except ValueError:
            marked = ()  # a mark that means nothing
        if len(self._known) >= _MOST_SCHEMAS:
            self._known.clear()
        self._known[id(schema)] = schema, marked
        return marked


def _mismatch(message: str) -> McpFault:
    return McpFault(codes.HEADER_MISMATCH, message)
