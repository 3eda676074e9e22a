"""What values can be made of: lists, mappings, and sections with declared settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from toolcrib.host.config.kinds import BAD, Kind
from toolcrib.host.config.node import Entry, Node
from toolcrib.host.config.reading import Reading, joined, nearest

Build = Callable[[dict[str, Any], Node, str, Reading], Any]
"""Makes something of the values read: (values, node, key, reading)."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting, declared once: this reads it, describes it to editors, and documents it."""

    name: str
    kind: Kind
    doc: str
    default: str = ""
    """What holds where it is not given, in words for the documentation."""
    nullable: bool = False
    """Whether `null` has a meaning of its own."""


class Section(msgspec.Struct, frozen=True):
    """A mapping with declared settings; any other key is a mistake."""

    name: str
    settings: Sequence[Setting]
    build: Build | None = None
    least: int = 0
    """How many settings there must be; with 0, nothing at all (`null`) is as good as none."""
    schema_more: dict[str, Any] = {}
    """What the schema says beside the settings, such as which go together."""

    def read(self, node: Node, key: str, reading: Reading) -> Any:
        """The values given, by name (or what `build` makes of them)."""
        if node.value is None:
            node = node.holding({})
        if node.entries is None:
            reading.wrong(
                node,
                key,
                f"{key or 'the file'} must be {self.name}, not {node.shown}",
                f"Write settings such as '{self.settings[0].name}: …' below it",
            )
            return BAD
        known = {setting.name: setting for setting in self.settings}
        values: dict[str, Any] = {}
        complete = True
        for name, entry in node.entries.items():
            here = joined(key, name)
            setting = known.get(name)
            if setting is None:
                message = f"{key or 'the file'} has no setting {_quoted(name)}"
                reading.wrong(entry.key, here, message, nearest(name, known, "setting"))
                complete = False
                continue
            value = _read(setting, entry, here, reading)
            if value is BAD:
                complete = False
            elif value is not _ABSENT:
                values[name] = value
        if self.build is None:
            return values
        return self.build(values, node, key, reading) if complete else BAD

    def schema(self) -> dict[str, Any]:
        """An object without other keys; `null` is an empty one."""
        properties: dict[str, Any] = {}
        for setting in self.settings:
            schema = setting.kind.schema()
            if setting.nullable:
                schema = {"anyOf": [{"type": "null"}, schema]}
            text = setting.doc[0].upper() + setting.doc[1:] + "."
            if setting.default:
                text += f" Default: {setting.default}."
            properties[setting.name] = {"description": text, **schema}
        return {
            **_object(self.least),
            "properties": properties,
            "additionalProperties": False,
            **self.schema_more,
        }


class ListOf(msgspec.Struct, frozen=True):
    """A list; with `one`, a single member may stand for a list of one."""

    item: Kind
    one: bool = False
    least: int = 0

    @property
    def name(self) -> str:
        """In words."""
        if self.one:
            return f"{self.item.name}, or a list of them"
        return "a list of text" if self.item.name == "text" else f"a list, each {self.item.name}"

    def read(self, node: Node, key: str, reading: Reading) -> Any:
        """A tuple of the members that could be read."""
        if node.value is None and not self.least:
            return ()
        if node.items is None:
            if self.one and node.value is not None:
                value = self.item.read(node, key, reading)
                return BAD if value is BAD else (value,)
            cure = "Write it as a list: [a, b], or one '- …' per line"
            if isinstance(node.value, str) and node.variable is None:
                cure = f"Write it as a list: [{node.value[:40]}]"
            reading.wrong(node, key, f"{key} must be {self.name}, not {node.shown}", cure)
            return BAD
        if len(node.items) < self.least:
            reading.wrong(node, key, f"{key} is an empty list", "Name something, or remove it")
            return BAD
        read = [
            self.item.read(item, f"{key}[{index}]", reading)
            for index, item in enumerate(node.items)
        ]
        return tuple(value for value in read if value is not BAD)

    def schema(self) -> dict[str, Any]:
        """An array, or also one member."""
        member = self.item.schema()
        array: dict[str, Any] = {"type": "array" if self.least else ["array", "null"]}
        array["items"] = member
        if self.least:
            array["minItems"] = self.least
        return {"anyOf": [member, array]} if self.one else array


class MapOf(msgspec.Struct, frozen=True):
    """A mapping from names of the user's choice."""

    item: Kind
    what: str
    """What the names name: `profile`."""
    least: int = 0

    @property
    def name(self) -> str:
        """In words."""
        return f"a mapping from {self.what} names"

    def read(self, node: Node, key: str, reading: Reading) -> Any:
        """A dict of the members that could be read."""
        if node.value is None:
            return {}
        if node.entries is None:
            cure = f"Write 'name: …' below it, one for each {self.what}"
            reading.wrong(node, key, f"{key} must be {self.name}, not {node.shown}", cure)
            return BAD
        if len(node.entries) < self.least:
            reading.wrong(node, key, f"{key} is empty", "Name something, or remove it")
            return BAD
        values: dict[str, Any] = {}
        for name, entry in node.entries.items():
            here = joined(key, name)
            if not name.strip() or not name.isprintable() or len(name) > 128:
                message = f"{_quoted(name)} is not a good name for a {self.what}"
                reading.wrong(entry.key, here, message, "Use up to 128 printable characters")
                continue
            node = entry.node
            if node.entries is not None:
                # What is said of a named thing as a whole is said at its name.
                node = replace(node, line=entry.key.line, column=entry.key.column)
            value = self.item.read(node, here, reading)
            if value is not BAD:
                values[name] = value
        return values

    def schema(self) -> dict[str, Any]:
        """An object with any keys."""
        return {
            **_object(self.least),
            "propertyNames": {"minLength": 1, "maxLength": 128},
            "additionalProperties": self.item.schema(),
        }


class Either(msgspec.Struct, frozen=True):
    """A mapping, or something shorter that stands for one."""

    name: str
    mapping: Kind
    short: Kind
    expand: Callable[[Any, Node], Any]
    """What the short form stands for."""

    def read(self, node: Node, key: str, reading: Reading) -> Any:
        """What the mapping reads as, or what the short form stands for."""
        if node.entries is not None:
            return self.mapping.read(node, key, reading)
        if node.value is None:
            cure = "Give it a value, or remove the line"
            reading.wrong(node, key, f"{key} must be {self.name}, not nothing", cure)
            return BAD
        value = self.short.read(node, key, reading)
        return BAD if value is BAD else self.expand(value, node)

    def schema(self) -> dict[str, Any]:
        """One or the other."""
        return {"anyOf": [self.short.schema(), {**self.mapping.schema(), "type": "object"}]}


class Data(msgspec.Struct, frozen=True):
    """Any data, or any mapping, that others check later."""

    name: str = "a mapping"
    mapping: bool = True

    def read(self, node: Node, key: str, reading: Reading) -> Any:
        """The plain value."""
        if self.mapping and node.value is None:
            return {}
        if self.mapping and node.entries is None:
            cure = "Write 'name: value' pairs below it"
            reading.wrong(node, key, f"{key} must be {self.name}, not {node.shown}", cure)
            return BAD
        return node.plain()

    def schema(self) -> dict[str, Any]:
        """An object, or anything."""
        return {"type": ["object", "null"]} if self.mapping else {}


DATA = Data()
ANYTHING = Data("anything", mapping=False)

_ABSENT = object()


def _object(least: int) -> dict[str, Any]:
    return {"type": "object", "minProperties": least} if least else {"type": ["object", "null"]}


def _read(setting: Setting, entry: Entry, key: str, reading: Reading) -> Any:
    node = entry.node
    if node.value is None and setting.nullable:
        return None
    empty = isinstance(setting.kind, Section | ListOf | MapOf) and not setting.kind.least
    if node.value is None and not empty and not isinstance(setting.kind, Data):
        cure = "Give it a value, or remove the line"
        reading.wrong(entry.key, key, f"{key} has no value", cure)
        return BAD
    if node.value is None and isinstance(setting.kind, Section):
        return _ABSENT
    return setting.kind.read(node, key, reading)


def _quoted(name: str) -> str:
    return repr(name) if len(name) <= 60 else f"{name[:59]!r}…"
