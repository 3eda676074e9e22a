"""What the HTTP headers of an MCP request say, held against its body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

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
from toolcrib.transports.service import Service

BOTH = b"application/json, text/event-stream"
"""What nearly every client accepts, letter by letter."""
_VERSION = b"mcp-protocol-version"
_LATEST = LATEST.encode()
_MODERN = frozenset(version.encode() for version in MODERN)
_MOST_SCHEMAS = 4096


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


def usual_call(head: Mapping[bytes, bytes], value: dict[str, Any]) -> Asked | None:
    """A modern `tools/call` as nearly every client writes it, whose headers fit its body; None for
    any other shape, which `read_modern` looks at closely."""
    name_of_it, params = value.get("id"), value.get("params")
    if len(value) != 4 or value.get("jsonrpc") != "2.0" or type(params) is not dict:
        return None
    given = cast("dict[str, Any]", params)
    meta, name = given.get("_meta"), given.get("name")
    if type(meta) is not dict or type(name) is not str or type(name_of_it) not in (int, str):
        return None
    said = cast("dict[str, Any]", meta)
    capabilities, client = said.get(keys.CAPABILITIES), said.get(keys.CLIENT)
    fits = (
        head.get(_VERSION) == _LATEST
        and said.get(keys.VERSION) == LATEST
        and head.get(b"mcp-method") == b"tools/call"
        and head.get(b"mcp-name") == name.encode()
        and name.isascii()
        and not name.startswith("=?")
        and type(capabilities) is dict
        and (client is None or type(client) is dict)
        and len(said) == (2 if client is None else 3)
    )
    if not fits:
        return None
    return Asked(
        name_of_it,
        "tools/call",
        given,
        era="modern",
        version=LATEST,
        capabilities=cast("dict[str, Any]", capabilities),
        client=cast("dict[str, Any] | None", client),
    )


class Params:
    """Holds the headers that repeat arguments against these."""

    def __init__(self, service: Service) -> None:
        self._host = service.host
        self._known: dict[int, tuple[Mapping[str, Any], tuple[Mirror, ...]]] = {}
        """By the identity of a tool's schema, which is kept so that no other can have it."""

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
