"""From an operation to a tool: its spec, and how its requests are made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

import msgspec

from toolcrib.core.jsontext import shown
from toolcrib.core.schema import admit
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import Denial, SchemaError, ToolFailure
from toolcrib.net.encoding import query_pairs, query_text, scalar
from toolcrib.net.exchange import SAFE, Request, effects_of
from toolcrib.net.url import LONGEST, Url
from toolcrib.providers.openapi.document import Document, Node, Unusable
from toolcrib.providers.openapi.operations import Operation
from toolcrib.providers.openapi.ours import NOTHING, Ours
from toolcrib.providers.openapi.parameters import Parameter, Target, argument_name, read_parameter
from toolcrib.providers.openapi.schemas import SchemaWriter, said

KIND = "openapi"
_SLOT = re.compile(r"\{([^{}]*)\}")
_LONGEST = 2000
_OURS = "the configuration sets it"
# From all that the document says to less and less, until it fits the budget for schemas.
_STEPS: tuple[tuple[bool, int | None], ...] = (
    (True, None), (False, None), (False, 4), (False, 2), (False, 1), (False, 0),
)  # fmt: skip
_IDEMPOTENT = SAFE | {"PUT", "DELETE"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Body:
    """What an operation takes as its body."""

    argument: str
    kind: str
    required: bool
    schema: Any
    about: Node


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """How an operation is asked for."""

    method: str
    server: Url
    """Its target is the part of the path that all operations share."""
    path: tuple[str, ...]
    """Texts and names of parameters by turns, a text first."""
    parameters: tuple[Parameter, ...]
    body: Body | None
    ours: Ours

    def request(self, arguments: Mapping[str, Any], headers: Mapping[str, str]) -> Request:
        """The request for some arguments."""
        target = Target()
        for parameter in self.parameters:
            if parameter.argument in arguments:
                target.put(parameter, arguments[parameter.argument])
        self.ours.check(target.query)
        said = {**target.headers, **headers}
        if target.cookies:
            said["Cookie"] = "; ".join(target.cookies)
        data = None
        if self.body is not None and self.body.argument in arguments:
            data = _written(self.body.kind, arguments[self.body.argument])
            if "content-type" not in self.ours.headers:
                said["Content-Type"] = self.body.kind
        text = self.server.target.rstrip("/")
        for number, part in enumerate(self.path):
            text += target.path[part] if number % 2 else part
        if target.query:
            text += "?" + "&".join(target.query)
        if len(text) > LONGEST:
            raise Denial("url_not_allowed", f"the URL would be longer than {LONGEST} characters")
        return Request(
            method=self.method,
            url=self.server._replace(target=text),
            headers=said,
            body=data,
            repeatable=self.method in _IDEMPOTENT,
        )

    def described(self) -> dict[str, Any]:
        """All that decides what is sent where, as data: a digest over it changes with any of it."""
        made: dict[str, Any] = {
            "method": self.method,
            "url": str(self.server).rstrip("/") + _spelled(self.path),
            "parameters": [parameter.described() for parameter in self.parameters],
        }
        if self.body is not None:
            made["body"] = {"argument": self.body.argument, "kind": self.body.kind}
        return made


def build_call(
    document: Document, operation: Operation, server: Url, ours: Ours = NOTHING
) -> tuple[Call, list[str]]:
    """Read what an operation takes, and what of it is left out because it is `ours` to set."""
    if operation.method == "TRACE":
        raise Unusable("the method TRACE is not used")
    taken: set[str] = set()
    found: dict[tuple[Any, Any], Node] = {}
    for holder in (operation.item, operation.node):
        given: Any = holder.get("parameters") or []
        for node in cast("list[Any]", given) if isinstance(given, list) else []:
            one = document.follow(node)
            found[one.get("in"), one.get("name")] = one
    parameters: list[Parameter] = []
    left_out: list[str] = []
    for node in found.values():
        if ours.sets(node.get("in"), node.get("name")):
            left_out.append(
                f"its {node['in']} parameter {shown(node['name'])} is left out: {_OURS}"
            )
        elif (parameter := read_parameter(document, node, taken)) is not None:
            parameters.append(parameter)
    path = _SLOT.split(operation.path)
    known = {p.name for p in parameters if p.place == "path"}
    for name in path[1::2]:
        if name not in known:
            raise Unusable(f"its path has {{{name}}}, and no parameter says what that is")
    call = Call(
        method=operation.method,
        server=server,
        path=tuple(
            part if number % 2 else quote(part, safe="/-._~!$&'()*+,;=:@%")
            for number, part in enumerate(path)
        ),
        parameters=tuple(p for p in parameters if p.place != "path" or p.name in path[1::2]),
        body=_body(document, operation, taken),
        ours=ours,
    )
    return call, left_out


def build_spec(document: Document, operation: Operation, call: Call, name: str) -> ToolSpec:
    """The tool's spec; its schema says as much as the budget admits."""
    problem: SchemaError | None = None
    for number, (words, levels) in enumerate(_STEPS):
        try:
            schema = _input_schema(SchemaWriter(document, words=words, levels=levels), call)
            admit(schema)
        except SchemaError as error:
            problem = error
            continue
        return ToolSpec(
            name=name,
            title=_line(operation.node.get("summary")),
            description=_description(operation),
            kind=KIND,
            input_schema=schema,
            config=call.described(),
            effects=effects_of(call.method),
            idempotent=call.method in _IDEMPOTENT,
            tags=frozenset(operation.tags),
            annotations={"schema": "shortened"} if number else {},
        )
    raise Unusable(f"its schema cannot be used: {problem}")


def _spelled(path: tuple[str, ...]) -> str:
    return "".join(f"{{{part}}}" if n % 2 else part for n, part in enumerate(path))


def _input_schema(writer: SchemaWriter, call: Call) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required: list[str] = []
    parts: list[Parameter | Body] = [*call.parameters]
    if call.body is not None:
        parts.append(call.body)
    for part in parts:
        schema = writer.write(part.schema)
        about = said(part.about)
        if about and isinstance(schema, Mapping):
            schema = {**cast("Node", schema), "description": about}
        properties[part.argument] = schema
        if part.required:
            required.append(part.argument)
    made: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return {**made, "$defs": writer.definitions} if writer.definitions else made


def _body(document: Document, operation: Operation, taken: set[str]) -> Body | None:
    given = operation.node.get("requestBody")
    if given is None:
        return None
    node = document.follow(given)
    content = cast("Node", node.get("content") or {})
    required = node.get("required") is True
    for wanted in ("json", "application/x-www-form-urlencoded", "text/"):
        for kind, media in content.items():
            plain = kind.partition(";")[0].strip().lower()
            fits = plain.startswith(wanted) or (
                wanted == "json" and (plain == "application/json" or plain.endswith("+json"))
            )
            if not fits:
                continue
            argument = argument_name("body", "request", taken)
            schema = document.follow(media).get("schema", True)
            if wanted == "text/":
                schema = {"type": "string"}
            return Body(argument=argument, kind=kind, required=required, schema=schema, about=node)
    if not required and (not content or operation.method in SAFE):
        return None
    kinds = ", ".join(map(shown, content)) or "nothing"
    raise Unusable(f"its body is written as {kinds}; JSON, a form or text is needed")


def _written(kind: str, value: Any) -> bytes:
    plain = kind.partition(";")[0].strip().lower()
    if plain == "application/x-www-form-urlencoded":
        if not isinstance(value, Mapping):
            raise ToolFailure("the body is a form: give an object", reason="invalid_arguments")
        fields = cast("Node", value).items()
        return query_text([p for k, v in fields for p in query_pairs(k, v)]).encode()
    if plain.startswith("text/"):
        return scalar(value).encode()
    return msgspec.json.encode(value)


def _description(operation: Operation) -> str:
    node = operation.node
    words = [str(node.get(key) or "").strip() for key in ("summary", "description")]
    text = "\n\n".join(dict.fromkeys(word for word in words if word)) or operation.words
    if node.get("deprecated") is True:
        text = f"Deprecated. {text}"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _line(text: Any) -> str | None:
    return text.strip()[:100] or None if isinstance(text, str) else None
