"""YAML 1.2 text to nodes: plain types only, every value with its line and column."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from toolcrib.core.jsontext import shown
from toolcrib.errors import ConfigError
from toolcrib.host.config.node import (
    MAX_DEPTH,
    MAX_NODES,
    Entry,
    Node,
    Origin,
    Scalar,
    plain_scalar,
)

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {w: w[0] in "tT" for w in ("true", "True", "TRUE", "false", "False", "FALSE")}
_INT = re.compile(r"[-+]?[0-9]+").fullmatch
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+").fullmatch
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?").fullmatch
_STRANGE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)").fullmatch
_TEXT_TAG = "tag:yaml.org,2002:str"

_SAYINGS = (
    # (what the parser says, where to point, message, cure)
    ("'\\t'", "end", "a tab stands where spaces belong", "Indent with spaces"),
    (
        "mapping values are not allowed",
        "end",
        "a second ': ' stands on this line, or the line above is indented otherwise",
        "Put text that contains ': ' in quotes, and indent the keys of one mapping alike",
    ),
    (
        "unexpected end of stream",
        "start",
        "a quote is opened here and never closed",
        "Close the quote",
    ),
    (
        "cannot start any token",
        "end",
        "text cannot begin with this character",
        "Put the text in quotes",
    ),
    ("could not find expected ':'", "start", "a key has no ':' after it", "Write 'key: value'"),
    (
        "expected <block end>",
        "end",
        "this line is indented otherwise than the lines before it",
        "Indent the keys of one mapping, or the items of one list, alike",
    ),
    (
        "expected ',' or",
        "start",
        "a bracket or brace is opened here and not closed in time",
        "Close it, and put commas between its members",
    ),
)


def parse_yaml(text: str, origin: Origin) -> Node | None:
    """The one document of `text`; None when it is empty. ConfigError says what is wrong where."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    yaml: Any = YAML(typ="safe", pure=True)
    try:
        return _Composer(origin).compose(yaml.parse(text))
    except MarkedYAMLError as error:
        raise _broken(error, origin) from None
    except YAMLError as error:
        position = getattr(error, "position", None)
        if not isinstance(position, int):
            raise ConfigError(f"this is not YAML: {shown(str(error))}", file=origin.file) from None
        before = text[:position]
        raise ConfigError(
            f"the character {text[position]!a} is not allowed in YAML",
            file=origin.file,
            line=before.count("\n") + 1,
            column=position - before.rfind("\n"),
            cure="Remove it, or write it as an escape in double quotes",
        ) from None
    except (ValueError, OverflowError, AttributeError, IndexError, TypeError, KeyError) as error:
        # The parser stumbles over some malformed escapes, tags and directives in its own code.
        raise ConfigError(
            f"this is not YAML: {shown(str(error))}",
            file=origin.file,
            cure="Look for a malformed escape, tag or % directive",
        ) from None


def _broken(error: Any, origin: Origin) -> ConfigError:
    """A parser's error in plain words."""
    problem = str(error.problem or error.context)
    said = (saying[1:] for saying in _SAYINGS if saying[0] in problem)
    usual = "end", f"this is not YAML: {problem}", "Check indentation, brackets and quotes"
    where, message, cure = next(said, usual)
    start, end = error.context_mark, error.problem_mark
    mark = (start or end) if where == "start" else (end or start)
    line = None if mark is None else int(mark.line) + 1
    column = None if mark is None else int(mark.column) + 1
    return ConfigError(message, file=origin.file, line=line, column=column, cure=cure)


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not come yet."""

    node: Node
    anchor: str | None
    mapping: bool
    items: list[Node] = field(default_factory=list[Node])
    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])
    key: Node | None = None
    merges: list[Node] = field(default_factory=list[Node])
    size: int = 1


class _Composer:
    """Puts parser events together; a stack of our own, so that no depth of text can hurt."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.anchors: dict[str, Node | None] = {}
        self.stack: list[_Open] = []
        self.root: Node | None = None

    def compose(self, events: Iterator[Any]) -> Node | None:
        documents = 0
        for event in events:
            kind = type(event).__name__
            if kind == "DocumentStartEvent":
                documents += 1
                if documents > 1:
                    raise self.wrong(
                        event,
                        "a second document begins here",
                        "Keep one document in a file; use include for more",
                    )
            elif kind == "AliasEvent":
                self.place(self.alias(event))
            elif kind == "ScalarEvent":
                self.scalar(event)
            elif kind in ("SequenceStartEvent", "MappingStartEvent"):
                self.open(event, mapping=kind == "MappingStartEvent")
            elif kind in ("SequenceEndEvent", "MappingEndEvent"):
                self.close()
        return self.root

    def wrong(self, event: Any, message: str, cure: str) -> ConfigError:
        mark = event.start_mark
        return ConfigError(
            message, file=self.origin.file, line=mark.line + 1, column=mark.column + 1, cure=cure
        )

    def node(self, event: Any, value: Scalar | tuple[Node, ...] = None) -> Node:
        mark = event.start_mark
        return Node(value, self.origin, mark.line + 1, mark.column + 1)

    def alias(self, event: Any) -> Node:
        if event.anchor not in self.anchors:
            raise self.wrong(
                event,
                f"the alias *{event.anchor} has no anchor above it",
                "Mark the value meant with &, or put the text in quotes",
            )
        node = self.anchors[event.anchor]
        if node is None:
            raise self.wrong(event, f"*{event.anchor} contains itself", "Write the value out")
        return node

    def scalar(self, event: Any) -> None:
        tag = None if event.tag is None else str(event.tag)
        if tag not in (None, "!", _TEXT_TAG):
            raise self.tagged(event, tag)
        plain = tag is None and event.implicit[0] and not event.style
        try:
            value = _resolve(event.value) if plain else plain_scalar(event.value)
        except ValueError as error:
            raise self.wrong(event, f"this value {error}", "Write another value") from None
        top = self.stack[-1] if self.stack else None
        if plain and event.value == "<<" and top and top.mapping and top.key is None:
            top.key = self.node(event, ())
            return
        node = self.node(event, value)
        if value is not None and not isinstance(value, str):
            node = replace(node, written=event.value)
        if top and top.mapping and top.key is None:
            # Keys are text however they look: `404: …` is the key "404".
            node = node.holding(value if isinstance(value, str) else event.value)
        self.remember(event.anchor, node)
        self.place(node)

    def tagged(self, event: Any, tag: str | None) -> ConfigError:
        return self.wrong(
            event,
            f"the tag {str(tag).replace('tag:yaml.org,2002:', '!!')} is not allowed",
            "Remove the tag: values are plain data",
        )

    def open(self, event: Any, *, mapping: bool) -> None:
        if event.tag is not None:
            raise self.tagged(event, str(event.tag))
        if len(self.stack) >= MAX_DEPTH:
            raise self.wrong(event, f"this is nested over {MAX_DEPTH} deep", "Flatten it")
        if self.stack and self.stack[-1].mapping and self.stack[-1].key is None:
            raise self.wrong(event, "a list or mapping stands where a key belongs", "Use a name")
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        self.stack.append(_Open(self.node(event), event.anchor, mapping))

    def close(self) -> None:
        done = self.stack.pop()
        for merged in done.merges:
            for name, entry in (merged.entries or {}).items():
                done.entries.setdefault(name, entry)
        value = done.entries if done.mapping else tuple(done.items)
        node = Node(value, self.origin, done.node.line, done.node.column, size=done.size)
        self.remember(done.anchor, node)
        self.place(node)

    def remember(self, anchor: str | None, node: Node) -> None:
        if anchor is not None:
            self.anchors[anchor] = node

    def place(self, node: Node) -> None:
        top = self.stack[-1] if self.stack else None
        if top is None:
            self.root = node
            return
        # Each use of an alias counts in full: twenty lines can stand for a billion values.
        top.size += node.size
        if top.size > MAX_NODES:
            raise ConfigError(
                f"the file holds over {MAX_NODES} values",
                file=self.origin.file,
                line=node.line,
                column=node.column,
                cure="Split it with include, or use fewer aliases",
            )
        if not top.mapping:
            top.items.append(node)
        elif top.key is None:
            self.key(top, node)
        elif top.key.value == ():
            self.merge(top, node)
        else:
            top.entries[str(top.key.value)] = Entry(top.key, node)
            top.key = None

    def key(self, top: _Open, node: Node) -> None:
        if node.entries is not None or node.items is not None:
            raise self.at(node, "a list or mapping stands where a key belongs", "Use a name")
        node = node if isinstance(node.value, str) else node.holding(str(node.value))
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
        top.merges.extend(merged)
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
    if _STRANGE(text):
        raise ValueError("holds a number that is infinite or none")
    if len(text) <= 40:
        if _INT(text):
            return plain_scalar(int(text))
        if _BASED(text):
            return plain_scalar(int(text, 0))
        if _FLOAT(text):
            return plain_scalar(float(text))
    return plain_scalar(text)
