"""Looking into a foreign document: what is missing or unknown is said where it stands."""

from __future__ import annotations

from collections.abc import Iterable

from toolcrib.host.config.node import Entry, Node
from toolcrib.host.config.reading import nearest


class Foreign(Exception):
    """An entry of another form that has no counterpart here."""

    def __init__(self, message: str, cure: str, node: Node | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.cure = cure
        self.node = node
        """Where it stands, if not with the entry as a whole."""


def mapping(node: Node, what: str) -> dict[str, Entry]:
    """The entries of a mapping."""
    if node.entries is None:
        raise Foreign(f"{what} must be a mapping, not {node.shown}", "Write {…}", node)
    return node.entries


def text(node: Node | None, what: str, default: str | None = None) -> str:
    """The text of a value; `default` where it is missing."""
    if node is None or node.value is None:
        if default is None:
            raise Foreign(f"{what} is missing", f"Add {what}")
        return default
    if not isinstance(node.value, str):
        raise Foreign(f"{what} must be text, not {node.shown}", "Put it in quotes", node)
    return node.value


def texts(node: Node | None, what: str) -> tuple[Node, ...]:
    """The members of a list of text; none where it is missing."""
    if node is None or node.value is None:
        return ()
    if node.items is None or any(not isinstance(item.value, str) for item in node.items):
        raise Foreign(f"{what} must be a list of text", f'Write {what}: ["…"]', node)
    return node.items


def flag(node: Node | None, what: str, default: bool) -> bool:
    """A boolean; `default` where it is missing."""
    if node is None or node.value is None:
        return default
    if not isinstance(node.value, bool):
        raise Foreign(f"{what} must be true or false, not {node.shown}", "Correct it", node)
    return node.value


def only(entries: dict[str, Entry], known: Iterable[str], what: str) -> None:
    """Refuse keys that are not `known`."""
    names = list(known)
    for name, entry in entries.items():
        if name not in names:
            cure = nearest(name, names, "setting")
            raise Foreign(f"{what} has no setting {name!r}", cure, entry.key)


def put(place: Node, **values: Node | None) -> Node:
    """A mapping of the given values, at a place; what is None is left out."""
    return place.holding(
        {name: Entry(node.holding(name), node) for name, node in values.items() if node is not None}
    )


def named(place: Node, values: dict[str, Node]) -> Node:
    """A mapping with any names."""
    return put(place, **values)
