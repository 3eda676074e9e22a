"""Parameters of an operation: where they go, and how their values are written there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from toolcrib.core.jsontext import shown
from toolcrib.net.encoding import (
    HEADER_NAME,
    MANAGED,
    Pairs,
    header_value,
    query_text,
    scalar,
    segment,
    segments,
)
from toolcrib.providers.openapi.document import Document, Node, Unusable

_STYLES = {
    "path": ("simple",),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
_BETWEEN = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}
# OpenAPI leaves these to the request body and the credentials.
_ELSEWHERE = frozenset({"accept", "content-type", "authorization"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """One parameter."""

    name: str
    argument: str
    """The tool's argument; the name, in letters that models can be given."""
    place: str
    style: str
    explode: bool
    as_json: bool = False
    many: bool = False
    """A path parameter whose slashes part segments."""
    required: bool = False
    schema: Any = True
    about: Node = field(default_factory=dict[str, Any])

    def described(self) -> dict[str, Any]:
        """Where its value goes and how it is written there."""
        return {
            "name": self.name,
            "argument": self.argument,
            "in": self.place,
            "style": self.style,
            "explode": self.explode,
            "json": self.as_json,
            "many": self.many,
        }


class Target:
    """Where the values of one call are collected."""

    def __init__(self) -> None:
        self.path: dict[str, str] = {}
        self.query: list[str] = []
        self.headers: dict[str, str] = {}
        self.cookies: list[str] = []

    def put(self, parameter: Parameter, value: Any) -> None:
        """Write a value where its parameter belongs."""
        if parameter.as_json:
            value = msgspec.json.encode(value).decode()
        name = parameter.name
        if parameter.place == "path":
            self.path[name] = _in_path(parameter, value)
        elif parameter.place == "query":
            if text := _in_query(parameter, value):
                self.query.append(text)
        elif parameter.place == "header":
            self.headers[name] = header_value(name, _simple(value, parameter.explode))
        elif text := _in_query(parameter, value):
            self.cookies.append(text.replace("&", "; "))


def read_parameter(document: Document, node: Node, taken: set[str]) -> Parameter | None:
    """A parameter of the document; None for one that is set elsewhere."""
    name, place = node.get("name"), node.get("in")
    if not isinstance(name, str) or not name or place not in _STYLES:
        raise Unusable(f"it has a parameter {shown(name)} in {shown(place)}")
    if place == "header":
        if name.lower() in _ELSEWHERE:
            return None
        if name.lower() in MANAGED or not HEADER_NAME(name):
            raise Unusable(f"its header {shown(name)} cannot be set")
    style = node.get("style") or _STYLES[place][0]
    if style not in _STYLES[place]:
        raise Unusable(f"its parameter {shown(name)} is written in the style {shown(style)}")
    schema, as_json = node.get("schema"), False
    content = node.get("content")
    if isinstance(content, Mapping) and content:
        kind, media = next(iter(cast("Node", content).items()))
        if "json" not in kind:
            raise Unusable(f"its parameter {shown(name)} is written as {shown(kind)}")
        schema, as_json = document.follow(media).get("schema"), True
    return Parameter(
        name=name,
        argument=argument_name(name, str(place), taken),
        place=str(place),
        style=str(style),
        explode=bool(node.get("explode", style in ("form", "deepObject"))),
        as_json=as_json,
        many=node.get("x-multi-segment") is True,
        required=node.get("required") is True or place == "path",
        schema=True if schema is None else schema,
        about=node,
    )


def argument_name(name: str, place: str, taken: set[str]) -> str:
    """A name for an argument, of letters, digits, `_`, `.` and `-`, that is not taken yet."""
    stem = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in name)
    stem = stem[:56].strip("_") or "value"
    made, count = stem, 1
    while made in taken:
        made = f"{stem}_{place}" if count == 1 else f"{stem}_{count}"
        count += 1
    taken.add(made)
    return made


def _in_path(parameter: Parameter, value: Any) -> str:
    name = parameter.argument
    if parameter.many and isinstance(value, str):
        return segments(name, value)
    if isinstance(value, list):
        return ",".join(segment(name, item) for item in cast("list[Any]", value))
    if isinstance(value, Mapping):
        joint = "=" if parameter.explode else ","
        pairs = cast("Node", value).items()
        return ",".join(f"{segment(name, k)}{joint}{segment(name, v)}" for k, v in pairs)
    return segment(name, value)


def _in_query(parameter: Parameter, value: Any) -> str:
    name = parameter.name
    if value is None:
        return ""
    if isinstance(value, Mapping):
        pairs = cast("Node", value).items()
        if parameter.style == "deepObject":
            return query_text(_deep(name, cast("Node", value)))
        if parameter.explode:
            return query_text([p for k, v in pairs for p in _repeated(k, v)])
        return _joined(name, [x for k, v in pairs for x in (k, v)], parameter.style)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        if parameter.explode:
            return query_text(_repeated(name, items))
        return _joined(name, items, parameter.style)
    return query_text([(name, scalar(value))])


def _repeated(name: str, value: Any) -> Pairs:
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [(name, scalar(item)) for item in items if item is not None]


def _deep(name: str, value: Node) -> Pairs:
    pairs: Pairs = []
    for key, item in value.items():
        inner = f"{name}[{key}]"
        if isinstance(item, Mapping):
            pairs += _deep(inner, cast("Node", item))
        else:
            pairs += _repeated(inner, item)
    return pairs


def _joined(name: str, items: list[Any], style: str) -> str:
    if not items:
        return ""
    values = [query_text([("", scalar(item))])[1:] for item in items]
    return f"{query_text([(name, '')])}{_BETWEEN.get(style, ',').join(values)}"


def _simple(value: Any, explode: bool) -> str:
    if isinstance(value, list):
        return ",".join(scalar(item) for item in cast("list[Any]", value))
    if isinstance(value, Mapping):
        joint = "=" if explode else ","
        return ",".join(f"{k}{joint}{scalar(v)}" for k, v in cast("Node", value).items())
    return scalar(value)
