"""`${VAR}` and `${VAR:-default}` in values; what comes from the environment is a secret."""

from __future__ import annotations

import re

from msgspec.structs import replace

from toolcrib.host.config.node import Entry, Node
from toolcrib.host.config.reading import Reading, joined

VARIABLE = r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}"
"""How a variable is written, as the JSON Schema says it."""

_USE = r"\$\$\{|\$\{([^}]*)\}|\$\{"
_INSIDE = r"(?s)([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?"
# Shorter values would hide half of every message they happen to occur in.
_SHORTEST_SECRET = 4


def expand(node: Node, reading: Reading, key: str = "") -> Node:
    """`node` with the variables in its text replaced; an unset one is a mistake."""
    if isinstance(node.value, str):
        return _expand_text(node, node.value, reading, key) if "${" in node.value else node
    if node.items is not None:
        items = (expand(item, reading, f"{key}[{i}]") for i, item in enumerate(node.items))
        return replace(node, value=tuple(items))
    if node.entries is not None:
        entries = {
            name: Entry(entry.key, expand(entry.node, reading, joined(key, name)))
            for name, entry in node.entries.items()
        }
        return replace(node, value=entries)
    return node


def _expand_text(node: Node, text: str, reading: Reading, key: str) -> Node:
    used: list[str] = []

    def put(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        inside = re.fullmatch(_INSIDE, match[1]) if match[1] is not None else None
        if inside is None:
            reading.spoil(
                node,
                key,
                f"{key} has a '${{' that is no variable",
                "Write ${NAME} or ${NAME:-default}, or $${ for the two characters themselves",
            )
            return ""
        name, default = inside[1], inside[2]
        value = reading.env.get(name)
        if value is None and default is None:
            reading.spoil(
                node,
                key,
                f"{key} needs the environment variable {name}, which is not set",
                f"Set {name}, or give a default: ${{{name}:-…}}",
            )
            return ""
        used.append(name)
        if value is None:
            return default
        if len(value) >= _SHORTEST_SECRET:
            reading.secrets.add(value)
        return value

    expanded = re.sub(_USE, put, text)
    return replace(node, value=expanded, variable=used[0] if used else None)
