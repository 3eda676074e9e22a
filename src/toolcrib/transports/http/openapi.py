"""The OpenAPI 3.1 description, made from the list of methods and their models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Any, get_args

import msgspec

from toolcrib.core.result import ToolResult
from toolcrib.core.version import __version__
from toolcrib.reasons import REASONS, Reason
from toolcrib.transports.http.examples import ANSWERS, REQUESTS
from toolcrib.transports.models import VERSION, CallState
from toolcrib.transports.wire import METHODS, Method

_REF = "#/components/schemas/{name}"
_ELSEWHERE = {"tools.call": ("wait", "key")}
"""Members of a request that HTTP says otherwise: in the query, or in a header."""
_ALWAYS = (
    "not_a_request", "unauthenticated", "not_permitted", "origin_refused", "host_refused",
    "unknown_method", "method_not_allowed", "not_found", "invalid_request", "request_timeout",
    "head_too_large", "unexpected_failure", "host_stopping", "audit_unavailable",
    "too_many_connections",
)  # fmt: skip
"""What any request may be answered with."""
_ANYBODY = tuple(
    name
    for name in _ALWAYS
    if name not in ("unauthenticated", "not_permitted", "unknown_method", "not_found")
)
"""The same where nobody is asked who they are."""
_WITH_BODY = ("not_json", "request_too_large", "unsupported_media")
_OWN: dict[str, tuple[str, ...]] = {
    "tools.get": ("unknown_tool",),
    "tools.show": ("unknown_tool",),
    "tools.call": tuple(REASONS),
    "calls.get": tuple(REASONS),
    "approvals.decide": ("answer_refused",),
    "sessions.open": ("too_many_sessions",),
    "host.reload": ("config_rejected",),
    "tools.check": ("config_rejected",),
    "config.check": ("config_rejected",),
    "events": ("too_many_viewers",),
}
_CALLS = ("tools.call", "calls.get")
"""What may be answered before it has an answer."""
_TOOL_RESULT = {"$ref": "#/components/schemas/ToolResult"}
_CALL_STATE = {"$ref": "#/components/schemas/CallState"}


def describe() -> dict[str, Any]:
    """The whole description."""
    rows = [row for row in METHODS.values() if row.http is not None]
    types: list[Any] = [ToolResult, CallState]
    for row in rows:
        types += [row.request, *_members(row.answer)]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    made = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for row in rows:
        verb, path = row.http or ("", "")
        operation = _operation(row, verb, path, made, components)
        paths.setdefault(path, {})[verb.lower()] = operation
    paths |= _beside()
    requests = {row.request.__name__ for row in rows}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Toolcrib HTTP API",
            "version": VERSION,
            "description": (
                f"Toolcrib {__version__}. Every answer about a call is a ToolResult, and anything "
                "wrong with a request has the same shape with its reason in `error.reason`."
            ),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}, {}],
        "paths": paths,
        "components": {
            "schemas": {
                name: schema for name, schema in sorted(components.items()) if name not in requests
            },
            "responses": {f"status{status}": _fault(rows) for status, rows in _by_status(REASONS)},
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of the configuration, or a JWT of a trusted issuer.",
                }
            },
        },
    }


def _operation(
    row: Method,
    verb: str,
    path: str,
    made: Mapping[Any, Mapping[str, Any]],
    components: Mapping[str, Any],
) -> dict[str, Any]:
    asked = _resolved(made[row.request], components)
    filled = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    members = {
        name: schema
        for name, schema in asked.get("properties", {}).items()
        if name not in filled and name not in _ELSEWHERE.get(row.name, ())
    }
    required = [name for name in asked.get("required", ()) if name in members]
    operation: dict[str, Any] = {
        "operationId": row.name,
        "tags": [row.name.partition(".")[0]],
        "summary": row.doc,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in filled
        ],
    }
    if row.right is not None:
        operation["x-toolcrib-right"] = row.right
    if verb == "POST":
        if members:
            operation["requestBody"] = _body(row, members, required)
    else:
        operation["parameters"] += [
            {"name": name, "in": "query", "required": name in required, "schema": _text(schema)}
            for name, schema in members.items()
        ]
    if row.name in _CALLS:
        operation["parameters"] += _waiting(row.name)
        if row.name == "calls.get":
            operation["parameters"] = [
                each for each in operation["parameters"] if each["name"] != "wait"
            ] + [_WAIT]
    answer = _json(made[_members(row.answer)[0]])
    good: dict[str, Any] = {"description": "It went well.", "content": answer}
    if row.name in _CALLS:
        good["description"] = _CALL_DONE
    if row.name in ANSWERS:
        good["content"]["application/json"]["example"] = ANSWERS[row.name]
    operation["responses"] = {"200": good}
    if row.name in _CALLS:
        operation["responses"]["202"] = {
            "description": "The call has not ended: it runs, or waits for a person.",
            "headers": {
                "Location": {"description": "Where to ask.", "schema": {"type": "string"}},
                "Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}},
            },
            "content": _json(_CALL_STATE),
        }
    elif verb == "GET":
        operation["parameters"].append(_IF_NONE_MATCH)
        operation["responses"]["304"] = {"description": "It is as it was."}
    more = (*_ALWAYS, *(_WITH_BODY if verb == "POST" else ()), *_OWN.get(row.name, ()))
    operation["responses"] |= _refusals(more)
    return operation


_CALL_DONE = "The call ended: well, or with a failure that the tool reported itself."
_WAIT = {
    "name": "wait",
    "in": "query",
    "description": "Seconds until a call that has not ended is answered by 202.",
    "schema": {"type": "number", "minimum": 0, "maximum": 300},
}
_PREFER = {
    "name": "Prefer",
    "in": "header",
    "description": "`wait=SECONDS`, the same as a wish.",
    "schema": {"type": "string"},
}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Calls of one principal with the same key run once.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 256},
}
_IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "description": "The ETag of an earlier answer.",
    "schema": {"type": "string"},
}


def _waiting(name: str) -> list[dict[str, Any]]:
    return [_WAIT, _PREFER, _KEY] if name == "tools.call" else [_PREFER]


def _body(row: Method, members: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": members,
        "additionalProperties": False,
    }
    if required:
        schema["required"] = required
    content: dict[str, Any] = {"schema": schema}
    if row.name in REQUESTS:
        content["example"] = REQUESTS[row.name]
    return {"required": bool(required), "content": {"application/json": content}}


def _beside() -> dict[str, dict[str, Any]]:
    """The addresses that are no methods."""
    stream = {
        "description": "Events as they happen, until the connection is closed.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
    types = {
        "name": "types",
        "in": "query",
        "description": "Only these, with commas; `call.*` means all that begin so.",
        "schema": {"type": "string"},
    }
    after = {
        "name": "after",
        "in": "query",
        "description": "First those behind this event id; `Last-Event-ID` says the same.",
        "schema": {"type": "string"},
    }
    last = {"name": "Last-Event-ID", "in": "header", "schema": {"type": "string"}}
    call = {"name": "call_id", "in": "query", "schema": {"type": "string"}}
    id_ = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    refusals = _refusals((*_ALWAYS, *_OWN["events"]))
    status = {"type": "object", "properties": {"status": {"type": "string"}}}

    def public(name: str, text: str, **answers: Any) -> dict[str, Any]:
        return {
            "get": {
                "operationId": name,
                "tags": ["host"],
                "summary": text,
                "security": [],
                "responses": _refusals(_ANYBODY) | answers,
            }
        }

    def events(name: str, text: str, parameters: list[Any]) -> dict[str, Any]:
        return {
            "get": {
                "operationId": name,
                "tags": ["events"],
                "summary": text,
                "parameters": parameters,
                "responses": {"200": stream, **refusals},
            }
        }

    well = {"description": "It is.", "content": _json(status)}
    not_ready = {"description": "Not now.", "content": _json(status)}
    numbers = {
        "description": "Prometheus text.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
    metrics = public("metrics", "The host's numbers.", **{"200": numbers, **_refusals(_ALWAYS)})
    del metrics["get"]["security"]
    metrics["get"]["x-toolcrib-right"] = "audit"
    return {
        "/v1/events": events("events", "Events as they happen.", [types, call, after, last]),
        "/v1/calls/{id}/events": events(
            "calls.events", "The events of one call.", [id_, types, after, last]
        ),
        "/healthz": public("healthz", "Whether the host is alive.", **{"200": well}),
        "/readyz": public("readyz", "Whether it takes calls.", **{"200": well, "503": not_ready}),
        "/metrics": metrics,
    }


def _refusals(reasons: Iterable[str]) -> dict[str, Any]:
    found = {REASONS[name].http for name in reasons} - {200}
    return {
        str(status): {"$ref": f"#/components/responses/status{status}"} for status in sorted(found)
    }


def _by_status(reasons: Mapping[str, Reason]) -> list[tuple[int, list[Reason]]]:
    found: dict[int, list[Reason]] = {}
    for row in reasons.values():
        if row.http != 200:
            found.setdefault(row.http, []).append(row)
    return sorted(found.items())


def _fault(rows: Iterable[Reason]) -> dict[str, Any]:
    text = " ".join(f"`{row.code}`: {row.meaning}" for row in rows)
    return {"description": text, "content": _json(_TOOL_RESULT)}


def _json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _resolved(schema: Mapping[str, Any], components: Mapping[str, Any]) -> Mapping[str, Any]:
    reference: str | None = schema.get("$ref")
    return schema if reference is None else components[reference.rpartition("/")[2]]


def _text(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A member's schema where it stands in a query: there is no null in text."""
    choices = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(choices) == 1:
        found = dict(choices[0])
    elif choices:
        found = {"anyOf": choices}
    else:
        found = dict(schema)
    if schema.get("default") is not None:
        found["default"] = schema["default"]
    else:
        found.pop("default", None)
    return found


def _members(kind: Any) -> tuple[Any, ...]:
    """The kinds of answers, the usual one first."""
    return get_args(kind) if isinstance(kind, UnionType) else (kind,)
