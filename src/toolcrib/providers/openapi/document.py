"""An OpenAPI document, read, and the parts that its references mean."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import unquote

from toolcrib.core.jsontext import lookup, parse, shown
from toolcrib.errors import ConfigError, JsonError

MAX_BYTES = 64 * 1024 * 1024
_MAX_DEPTH = 200
_LONGEST_CHAIN = 20

Node = Mapping[str, Any]


class Unusable(Exception):
    """An operation, or a part of it, that cannot become a tool; says why."""


class Document:
    """The document as plain values."""

    def __init__(self, root: Node, where: str) -> None:
        self.root = root
        self.where = where
        """The file or URL, as messages name it."""
        version = root.get("openapi")
        if "swagger" in root or version is None:
            raise ConfigError(
                f"{where} is not an OpenAPI 3 document",
                key="spec",
                cure="Convert it to OpenAPI 3.0 or 3.1",
            )
        if not str(version).startswith(("3.0", "3.1")):
            raise ConfigError(
                f"{where} is written in OpenAPI {shown(version)}", key="spec", cure="Use 3.0 or 3.1"
            )
        self.old = str(version).startswith("3.0")
        """Whether schemas are in the dialect of 3.0, which is not JSON Schema."""

    def follow(self, node: Any) -> Node:
        """A part, behind its reference if it is one."""
        for _ in range(_LONGEST_CHAIN):
            if not isinstance(node, Mapping):
                raise Unusable(f"{shown(node)} stands where an object is expected")
            part = cast("Node", node)
            if "$ref" not in part:
                return part
            node = self.target(part["$ref"])
        raise Unusable("its references lead in circles")

    def target(self, reference: Any) -> Any:
        """What a reference within the document means. Nothing else is read or fetched."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise Unusable(f"it refers to {shown(reference)}, outside of the document")
        try:
            return lookup(self.root, unquote(reference[1:]))
        except LookupError:
            raise Unusable(f"its reference {shown(reference)} points at nothing") from None


def read_document(data: bytes, where: str) -> Document:
    """The document in a JSON or YAML text."""
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{where} has more than {MAX_BYTES} bytes", key="spec")
    try:
        if data.lstrip()[:1] == b"{":
            root: Any = parse(data, max_bytes=MAX_BYTES, max_depth=_MAX_DEPTH)
        else:
            root = _yaml(data)
    except (JsonError, ValueError) as error:
        raise ConfigError(f"{where} cannot be read: {error}", key="spec") from None
    if not isinstance(root, Mapping):
        raise ConfigError(f"{where} is not an OpenAPI document", key="spec")
    return Document(cast("Node", root), where)


def _yaml(data: bytes) -> Any:
    from ruamel.yaml import YAML, YAMLError

    try:
        value: Any = YAML(typ="safe").load(io.BytesIO(data))  # pyright: ignore[reportUnknownMemberType]
    except YAMLError as error:
        raise ValueError(str(error).partition("\n")[0]) from None
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    return _plain(value, {}, 0)


def _plain(value: Any, known: dict[int, Any], depth: int) -> Any:
    """JSON values: keys become text (`200:` is a number in YAML), dates too. A part that many
    aliases name stays one part."""
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if not isinstance(value, Mapping | list):
        return str(value)
    if depth > _MAX_DEPTH:
        raise ValueError("it is nested too deep, or contains itself")
    if id(cast("Any", value)) in known:
        return known[id(cast("Any", value))]
    if isinstance(value, list):
        items = cast("list[Any]", value)
        made: Any = [_plain(item, known, depth + 1) for item in items]
    else:
        pairs = cast("Node", value).items()
        made = {str(key): _plain(item, known, depth + 1) for key, item in pairs}
    known[id(cast("Any", value))] = made
    return made
