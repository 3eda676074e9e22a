"""Texts and bodies with `{argument}` in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, cast

from toolcrib.core.units import did_you_mean
from toolcrib.net.encoding import scalar
from toolcrib.net.settings import Settings

MISSING: Any = object()
"""What a template gives when an argument that it needs was not given."""

Arguments = Mapping[str, Any]
Fill = Callable[[Arguments], Any]

_TOKEN = re.compile(r"\{\{|\}\}|\{(?P<many>\+?)(?P<name>[^{}]*)\}|[{}]")


class Slot(NamedTuple):
    """The place of an argument."""

    name: str
    many: bool = False
    """Written `{+name}`: slashes in it part segments of a path."""


class Places:
    """The arguments that a tool has, and those that were given a place so far."""

    def __init__(self, known: Collection[str]) -> None:
        self.known = known
        self.used: set[str] = set()

    def split(self, text: str, settings: Settings, key: str) -> list[str | Slot]:
        """A text as pieces and slots."""
        parts: list[str | Slot] = []
        end = 0
        for match in _TOKEN.finditer(text):
            if match.start() > end:
                parts.append(text[end : match.start()])
            end = match.end()
            if match[0] in ("{{", "}}"):
                parts.append(match[0][0])
            elif match["name"] is None:
                settings.wrong(key, f"has a lone {match[0]!r}", f"Write {match[0] * 2!r} for one")
            else:
                parts.append(self._slot(match["name"], bool(match["many"]), settings, key))
        if end < len(text):
            parts.append(text[end:])
        return parts

    def _slot(self, name: str, many: bool, settings: Settings, key: str) -> Slot:
        if name not in self.known:
            near = did_you_mean(name, self.known)
            cure = f"Did you mean {{{near}}}?" if near else "Describe it in input_schema.properties"
            settings.wrong(key, f"uses {{{name}}}, which is not an argument", cure)
        self.used.add(name)
        return Slot(name, many)

    def compiled(self, value: Any, settings: Settings, key: str) -> Fill:
        """How to fill a value: texts, and mappings and lists of them. A text that is one slot
        keeps the argument's type; an absent argument takes its key or item with it."""
        if isinstance(value, str):
            return _text(self.split(value, settings, key))
        if isinstance(value, Mapping):
            pairs = cast("Mapping[str, Any]", value).items()
            fills = {name: self.compiled(v, settings, f"{key}.{name}") for name, v in pairs}
            return lambda given: _present((name, fill(given)) for name, fill in fills.items())
        if isinstance(value, list | tuple):
            items = cast("list[Any]", value)
            each = [self.compiled(v, settings, f"{key}[{i}]") for i, v in enumerate(items)]
            return lambda given: [v for fill in each if (v := fill(given)) is not MISSING]
        return lambda given: value


def _present(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in pairs if value is not MISSING}


def _text(parts: list[str | Slot]) -> Fill:
    if len(parts) == 1 and isinstance(parts[0], Slot):
        only = parts[0].name
        return lambda given: given.get(only, MISSING)
    names = {part.name for part in parts if isinstance(part, Slot)}
    if not names:
        whole = "".join(cast("list[str]", parts))
        return lambda given: whole

    def fill(given: Arguments) -> Any:
        if not names <= given.keys():
            return MISSING
        return "".join(p if isinstance(p, str) else scalar(given[p.name]) for p in parts)

    return fill
