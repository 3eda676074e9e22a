"""Reading invariants and tables: YAML or JSON files whose mistakes are told with file and line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolcrib.errors import ConfigError
from toolcrib.host.config.node import Node, Origin, node_of
from toolcrib.host.config.yamltext import parse_yaml

MAX_BYTES = 4 * 1024 * 1024


def read_node(source: str | Path | Mapping[str, Any] | list[Any], what: str) -> Node:
    """The value of a file, or of data with a file's content, with places."""
    if isinstance(source, Mapping | list):
        origin = Origin(what, what, Path())
        try:
            return node_of(source, origin)
        except ValueError as error:
            raise ConfigError(f"the {what} {error}", cure="Use plain data") from None
    path = Path(source)
    cure = f"Name the file with the {what}"
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"{path} cannot be read: {reason}", cure=cure) from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path} is larger than 4 MiB", cure="Split it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            "the file is not UTF-8 text", file=str(path), line=line, cure="Save it as UTF-8"
        ) from None
    origin = Origin(str(path), str(path), path.parent)
    node = parse_yaml(text, origin)
    if node is None or node.value is None:
        raise ConfigError(f"{path} is empty", file=str(path), cure=f"Write the {what} into it")
    return node
