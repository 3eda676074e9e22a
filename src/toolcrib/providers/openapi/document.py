"""An OpenAPI document, read, and the parts that its references mean."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event
from typing import Any, cast
from urllib.parse import unquote

from toolcrib.core.jsontext import lookup, parse, shown
from toolcrib.errors import ConfigError, JsonError
from toolcrib.providers.openapi.yamltext import yaml_value

MAX_BYTES = 64 * 1024 * 1024
_MAX_DEPTH = 200
_LONGEST_CHAIN = 20

Node = Mapping[str, Any]


class Unusable(Exception):
    """An operation, or a part of it, that cannot become a tool; says why."""


class Stopped(Exception):
    """Nobody waits for the tools any more."""


class Document:
    """The document as plain values."""

    def __init__(self, root: Node, where: str, stop: Event | None = None) -> None:
        self.root = root
        self.where = where
        """The file or URL, as messages name it."""
        self._stop = stop
        version = root.get("openapi")
        if version is None and "swagger" not in root:
            raise ConfigError(
                f"{where} is not an OpenAPI document: it has no 'openapi: 3.…'",
                key="spec",
                cure="Is it the right file?",
            )
        if "swagger" in root:
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

    def go_on(self) -> None:
        """Raise `Stopped` when nobody waits for the tools any more."""
        if self._stop is not None and self._stop.is_set():
            raise Stopped

    def follow(self, node: Any) -> Node:
        """A part, behind its reference if it is one."""
        self.go_on()
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


def read_document(data: bytes, where: str, stop: Event | None = None) -> Document:
    """The document in a JSON or YAML text."""
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{where} has more than {MAX_BYTES} bytes", key="spec")
    try:
        if looks_like_json(data):
            root: Any = parse(data, max_bytes=MAX_BYTES, max_depth=_MAX_DEPTH)
        else:
            root = yaml_value(data, where)
    except JsonError as error:
        raise ConfigError(f"{where} cannot be read: {error}", key="spec") from None
    if not isinstance(root, Mapping):
        raise ConfigError(
            f"{where} is not an OpenAPI document: it has no 'openapi: 3.…'",
            key="spec",
            cure="Is it the right file?",
        )
    return Document(cast("Node", root), where, stop)


def looks_like_json(data: bytes) -> bool:
    """Whether a text is read as JSON; any other is YAML."""
    return data.lstrip()[:1] == b"{"
