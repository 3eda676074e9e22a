"""Parser events to nodes: aliases, merge keys, YAML 1.2 values, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from toolcrib.core.jsontext import shown
from toolcrib.errors import ConfigError
from toolcrib.host.config.node import MAX_DEPTH, Entry, Node, Origin, Scalar, plain_scalar

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {w: w[0] in "tT" for w in ("true", "True", "TRUE", "false", "False", "FALSE")}
_OF_NUMBERS = frozenset("+-.0123456789abcdefABCDEFox")
_BASED = r"0o[0-7]+|0x[0-9a-fA-F]+"
_FLOAT = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
_STRANGE = frozenset(
    (*(f"{sign}.{word}" for sign in ("", "-", "+") for word in ("inf", "Inf", "INF")),
     ".nan", ".NaN", ".NAN")
)  # fmt: skip
_NOT_ONLY_TEXT = frozenset(["", *"~nNtTfF+-.0123456789"])
"""How unquoted text begins that may be something else."""
_TEXT_TAG = "tag:yaml.org,2002:str"
_MERGE = ()
"""The value of the key `<<`, which no other key can have."""


class _Open:
    """A list or mapping whose end has not come yet."""

    __slots__ = ("anchor", "column", "entries", "items", "key", "line", "mapping", "merges", "size")

    def __init__(self, anchor: str | None, mapping: bool, line: int, column: int) -> None:
        self.anchor = anchor
        self.mapping = mapping
        self.line = line
        self.column = column
        self.items: list[Node] = []
        self.entries: dict[str, Entry] = {}
        self.key: Node | None = None
        self.merges: tuple[Node, ...] = ()
        self.size = 1


class Composer:
    """Puts parser events together; a stack of our own, so that no depth of text can hurt.

    Events of either YAML library will do: their classes have the same names and attributes.
    """

    def __init__(self, origin: Origin, most: int) -> None:
        self.origin = origin
        self.most = most
        self.anchors: dict[str, Node | None] = {}
        self.stack: list[_Open] = []
        self.root: Node | None = None
        self.documents = 0

    def compose(self, events: Iterator[Any]) -> Node | None:
        """The one document of the events."""
        named: dict[str, Callable[[Any], None]] = {
            "DocumentStartEvent": self.document,
            "AliasEvent": self.alias,
            "ScalarEvent": self.scalar,
            "SequenceStartEvent": self.open_list,
            "MappingStartEvent": self.open_mapping,
            "SequenceEndEvent": self.close,
            "MappingEndEvent": self.close,
        }
        known: dict[type, Callable[[Any], None] | None] = {}
        for event in events:
            kind: type = event.__class__
            if kind not in known:
                known[kind] = named.get(kind.__name__)
            handle = known[kind]
            if handle is not None:
                handle(event)
        return self.root

    def document(self, event: Any) -> None:
        self.documents += 1
        if self.documents > 1:
            raise self.wrong(
                event,
                "a second document begins here",
                "Keep one document in a file; use include for more",
            )

    def wrong(self, event: Any, message: str, cure: str) -> ConfigError:
        mark = event.start_mark
        return ConfigError(
            message, file=self.origin.file, line=mark.line + 1, column=mark.column + 1, cure=cure
        )

    def alias(self, event: Any) -> None:
        if event.anchor not in self.anchors:
            raise self.wrong(
                event,
                f"the alias *{event.anchor} has no anchor above it",
                "Mark the value meant with &, or put the text in quotes",
            )
        node = self.anchors[event.anchor]
        if node is None:
            raise self.wrong(event, f"*{event.anchor} contains itself", "Write the value out")
        self.place(node)

    def scalar(self, event: Any) -> None:
        tag, text, mark = event.tag, event.value, event.start_mark
        if tag is not None and str(tag) not in ("!", _TEXT_TAG):
            raise self.tagged(event, tag)
        unquoted = tag is None and not event.style and event.implicit[0]
        value: Scalar = text
        try:
            if unquoted and text[:1] in _NOT_ONLY_TEXT:
                value = _resolve(text)
            elif not text.isascii():
                value = plain_scalar(text)
        except ValueError as error:
            raise self.wrong(event, f"this value {error}", "Write another value") from None
        top = self.stack[-1] if self.stack else None
        line, column = mark.line + 1, mark.column + 1
        if top is not None and top.mapping and top.key is None:
            if unquoted and text == "<<":
                top.key = Node(_MERGE, self.origin, line, column)
                return
            # Keys are text however they look: `404: …` is the key "404".
            node = Node(value if value.__class__ is str else text, self.origin, line, column)
        elif value.__class__ is str or value is None:
            node = Node(value, self.origin, line, column)
        else:
            node = Node(value, self.origin, line, column, None, text)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        self.place(node)

    def tagged(self, event: Any, tag: Any) -> ConfigError:
        return self.wrong(
            event,
            f"the tag {str(tag).replace('tag:yaml.org,2002:', '!!')} is not allowed",
            "Remove the tag: values are plain data",
        )

    def open_list(self, event: Any) -> None:
        self.open(event, mapping=False)

    def open_mapping(self, event: Any) -> None:
        self.open(event, mapping=True)

    def open(self, event: Any, *, mapping: bool) -> None:
        if event.tag is not None:
            raise self.tagged(event, event.tag)
        if len(self.stack) >= MAX_DEPTH:
            raise self.wrong(event, f"this is nested over {MAX_DEPTH} deep", "Flatten it")
        if self.stack and self.stack[-1].mapping and self.stack[-1].key is None:
            raise self.wrong(event, "a list or mapping stands where a key belongs", "Use a name")
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        mark = event.start_mark
        self.stack.append(_Open(event.anchor, mapping, mark.line + 1, mark.column + 1))

    def close(self, event: Any) -> None:
        done = self.stack.pop()
        for merged in done.merges:
            for name, entry in (merged.entries or {}).items():
                done.entries.setdefault(name, entry)
        value = done.entries if done.mapping else tuple(done.items)
        node = Node(value, self.origin, done.line, done.column, size=done.size)
        if done.anchor is not None:
            self.anchors[done.anchor] = node
        self.place(node)

    def place(self, node: Node) -> None:
        if not self.stack:
            self.root = node
            return
        top = self.stack[-1]
        # Each use of an alias counts in full: twenty lines can stand for a billion values.
        top.size += node.size
        if top.size > self.most:
            raise self.at(
                node,
                f"the file holds over {self.most} values",
                "Split it with include, or use fewer aliases",
            )
        key = top.key
        if not top.mapping:
            top.items.append(node)
        elif key is None:
            self.name(top, node)
        elif key.value is _MERGE:
            self.merge(top, node)
        else:
            top.entries[key.value] = Entry(key, node)  # pyright: ignore - keys are text
            top.key = None

    def name(self, top: _Open, node: Node) -> None:
        value = node.value
        if value.__class__ is not str:
            if node.entries is not None or node.items is not None:
                raise self.at(node, "a list or mapping stands where a key belongs", "Use a name")
            # An alias of a number: a key is text however it looks.
            node = node.holding(str(value))
        first = top.entries.get(str(node.value))
        if first is not None:
            raise self.at(
                node,
                f"the key {shown(node.value)} stands here and on line {first.key.line}",
                "Keep one of the two",
            )
        top.key = node

    def merge(self, top: _Open, node: Node) -> None:
        merged = node.items if node.items is not None else (node,)
        if any(item.entries is None for item in merged):
            raise self.at(node, "<< takes a mapping or a list of mappings", "Write << : *anchor")
        top.merges += merged
        top.key = None

    def at(self, node: Node, message: str, cure: str) -> ConfigError:
        return ConfigError(
            message, file=self.origin.file, line=node.line, column=node.column, cure=cure
        )


def _resolve(text: str) -> Scalar:
    """The value of unquoted text: null, a boolean, a number, or the text itself."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if text in _STRANGE:
        raise ValueError("holds a number that is infinite or none")
    if len(text) <= 40 and _OF_NUMBERS.issuperset(text):
        digits = text[1:] if text.startswith(("-", "+")) else text
        if digits.isdecimal():
            return plain_scalar(int(text))
        if re.fullmatch(_BASED, text):
            return plain_scalar(int(text, 0))
        if re.fullmatch(_FLOAT, text):
            return plain_scalar(float(text))
    return plain_scalar(text)
