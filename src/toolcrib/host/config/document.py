"""A file's text to nodes: YAML, JSON or TOML, told apart by the file's ending."""

from __future__ import annotations

import re
from typing import NoReturn

from msgspec.structs import replace

from toolcrib.core.jsontext import shown
from toolcrib.errors import ConfigError
from toolcrib.host.config.node import MAX_NODES, Entry, Node, Origin, node_of
from toolcrib.host.config.yamltext import parse_yaml

_MOST_LINES = 2000


def parse_document(text: str, origin: Origin, *, most: int = MAX_NODES) -> Node | None:
    """The file's value with places; None when it is empty. ConfigError says what is wrong."""
    ending = origin.label.rpartition(".")[2].lower()
    if ending == "json":
        root = parse_json(text, origin, most=most)
    elif ending == "toml":
        root = _parse_toml(text, origin)
    else:
        root = parse_yaml(text, origin, most=most)
    if root is None or root.value is None:
        return None
    if root.entries is None:
        raise ConfigError(
            f"the file must be a mapping of settings, not {root.shown}",
            file=origin.file,
            line=root.line,
            column=root.column,
            cure="Begin it with a setting such as 'tools:'",
        )
    return root


def parse_json(text: str, origin: Origin, *, most: int = MAX_NODES) -> Node | None:
    """The value of a JSON text with places; None when it is empty."""
    import json

    if not text.strip():
        return None
    try:
        json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"this is not JSON: {error.msg[0].lower()}{error.msg[1:]}",
            file=origin.file,
            line=error.lineno,
            column=error.colno,
            cure="Check commas, quotes and brackets around this place",
        ) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"this is not JSON: {str(error)[:80]}", file=origin.file) from None
    # JSON is YAML apart from tabs between values; a tab inside a JSON string is an escape.
    return parse_yaml(text.replace("\t", " "), origin, most=most)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number")


def _parse_toml(text: str, origin: Origin) -> Node:
    import tomllib  # most configurations are YAML, and start sooner without it

    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found = re.search(r"^(.*?) \(at line (\d+), column (\d+)\)$", str(error))
        raise ConfigError(
            f"this is not TOML: {found[1] if found else shown(str(error))}",
            file=origin.file,
            line=int(found[2]) if found else None,
            column=int(found[3]) if found else None,
            cure="Check quotes, brackets and table headings",
        ) from None
    try:
        root = node_of(data, origin)
    except ValueError as error:
        raise ConfigError(
            f"the file {error}", file=origin.file, cure="Put dates and times in quotes"
        ) from None
    lines = text.splitlines()
    # Each key is searched for from the top of its table, which long files cannot afford.
    return _placed(root, lines, 0)[0] if len(lines) <= _MOST_LINES else root


def _placed(node: Node, lines: list[str], after: int) -> tuple[Node, int]:
    """Lines for TOML, whose parser tells none: keys are looked for in the order they came."""
    if node.entries is not None:
        entries: dict[str, Entry] = {}
        for name, entry in node.entries.items():
            line = _find(name, lines, after)
            value, _ = _placed(entry.node, lines, line or after)
            if line is not None:
                column = lines[line].find(name) + 1
                value = _at(value, line + 1, column)
                key = replace(entry.key, line=line + 1, column=column)
            else:
                key = entry.key
            entries[name] = Entry(key, value)
        return replace(node, value=entries), after
    if node.items is not None:
        items: list[Node] = []
        for item in node.items:
            placed, after = _placed(item, lines, after)
            first = next(iter(placed.entries.values()), None) if placed.entries else None
            if first is not None and first.key.line is not None:
                placed = _at(placed, first.key.line, first.key.column)
                after = max(after, first.key.line)
            items.append(placed)
        return replace(node, value=tuple(items)), after
    return node, after


def _at(node: Node, line: int, column: int | None) -> Node:
    return node if node.line is not None else replace(node, line=line, column=column)


def _find(name: str, lines: list[str], after: int) -> int | None:
    quoted = re.escape(name)
    pattern = re.compile(rf"""^[\s\[]*(?:.*[.{{,]\s*)?["']?{quoted}["']?\s*(?:[=.\]])""")
    for index in range(after, len(lines)):
        if pattern.match(lines[index]):
            return index
    return next((i for i, text in enumerate(lines) if pattern.match(text)), None)
