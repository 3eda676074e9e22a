"""An argv template: what stays, what is filled in, and what is refused before anything starts.

One placeholder is one argument, whatever stands in it: the text never meets a shell.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

from toolcrib.core.jsontext import shown
from toolcrib.errors import Denial

LONGEST = 131_071
"""Bytes of one argument; Linux takes no more."""
_LINES = frozenset("\n\r\t")


@dataclass(frozen=True, slots=True)
class Slot:
    """Where an argument goes."""

    name: str


@dataclass(frozen=True, slots=True)
class Element:
    """One argument of the command: text, with slots in it or not."""

    parts: tuple[str | Slot, ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    """As many arguments as the list has items."""

    name: str


@dataclass(frozen=True, slots=True)
class When:
    """Elements that are there when a boolean argument is true."""

    name: str
    elements: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Elements that are there when all arguments in them are given."""

    elements: tuple[Element | Repeated, ...]


Item = Element | Repeated | When | Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The exceptions that a tool's author declared."""

    allow_dash: frozenset[str] = frozenset()
    """Arguments that may begin with `-`."""
    multiline: frozenset[str] = frozenset()
    """Arguments that may hold line ends and tabs."""


@dataclass(frozen=True, slots=True)
class Template:
    """A command with places to fill in. The program is fixed."""

    program: str
    items: tuple[Item, ...]
    rules: Rules = field(default_factory=Rules)

    def render(self, arguments: Mapping[str, Any]) -> list[str]:
        """The command's arguments, without the program; raises `Denial`."""
        filling = _Filling(arguments, self.rules)
        filling.add(self.items)
        return filling.out

    def names(self) -> frozenset[str]:
        """The arguments that are used."""
        return names_in(self.items)


def names_in(items: Sequence[Item]) -> frozenset[str]:
    """The arguments that these elements use."""
    names: set[str] = set()
    for item in items:
        if isinstance(item, Element):
            names |= {part.name for part in item.parts if isinstance(part, Slot)}
        else:
            if not isinstance(item, Group):
                names.add(item.name)
            if not isinstance(item, Repeated):
                names |= names_in(item.elements)
    return frozenset(names)


class _Filling:
    """One rendering: what is there so far, and whether `--` was passed."""

    def __init__(self, arguments: Mapping[str, Any], rules: Rules) -> None:
        self.arguments = arguments
        self.rules = rules
        self.out: list[str] = []
        self.operands = False
        """Behind a literal `--` nothing is taken for an option any more."""

    def add(self, items: Sequence[Item]) -> None:
        for item in items:
            if isinstance(item, Element):
                self._element(item)
            elif isinstance(item, Repeated):
                self._repeated(item.name)
            elif isinstance(item, When):
                if self.arguments.get(item.name) is True:
                    self.add(item.elements)
            elif all(_given(self.arguments, name) for name in names_in([item])):
                self.add(item.elements)

    def _element(self, element: Element) -> None:
        first = element.parts[0] if element.parts else ""
        text = fill(element, self.arguments, self.rules)
        if isinstance(first, Slot):
            self._argument(first.name, text)
        else:
            self.out.append(text)
            self.operands = self.operands or text == "--"

    def _repeated(self, name: str) -> None:
        values = self.arguments.get(name)
        for value in cast("list[Any]", values or ()):
            self._argument(name, text_of(name, value, self.rules))

    def _argument(self, name: str, text: str) -> None:
        if text.startswith("-") and not self.operands and name not in self.rules.allow_dash:
            refuse(name, "begins with '-' and would be taken for an option")
        self.out.append(text)


def _given(arguments: Mapping[str, Any], name: str) -> bool:
    return arguments.get(name) not in (None, [], ())


def fill(element: Element, arguments: Mapping[str, Any], rules: Rules) -> str:
    """The text of one element; raises `Denial`."""
    texts = [
        part if isinstance(part, str) else text_of(part.name, arguments.get(part.name), rules)
        for part in element.parts
    ]
    text = "".join(texts)
    _check_beginning(element, texts)
    if len(text) > LONGEST // 4 and len(text.encode()) > LONGEST:
        names = [part.name for part in element.parts if isinstance(part, Slot)]
        refuse(names[0] if names else "", f"is longer than {LONGEST} bytes")
    return text


def _check_beginning(element: Element, texts: Sequence[str]) -> None:
    """Refuse nothing in front of a slash: `{folder}/etc` would begin at the top."""
    before: str = ""
    for number, (part, text) in enumerate(zip(element.parts, texts, strict=True)):
        if isinstance(part, Slot) and not text and (not before or before.endswith("=")):
            rest = "".join(texts[number + 1 :])
            if rest.startswith("/"):
                refuse(part.name, "is empty, and what follows it would begin at the top folder")
        before += text


def text_of(name: str, value: Any, rules: Rules) -> str:
    """A value as a command sees it; raises `Denial` for what no argument may hold."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if isinstance(value, int | float):
        if isinstance(value, int) and value.bit_length() > 4096:
            refuse(name, "is a number of too many digits")
        return str(value)
    if not isinstance(value, str):
        refuse(name, f"is {shown(value)}, where text, a number or a boolean is needed")
    if not value.isprintable():  # spares the slow look at each character in the common case
        _check_characters(name, value, name in rules.multiline)
    return value


def _check_characters(name: str, text: str, multiline: bool) -> None:
    for character in text:
        category = unicodedata.category(character)
        if category == "Cs":
            refuse(name, "holds half a character (a lone surrogate)")
        if category == "Cc" and not (multiline and character in _LINES):
            what = "a line end" if character in "\n\r" else f"the character U+{ord(character):04X}"
            refuse(name, f"holds {what}")


def refuse(name: str, why: str) -> NoReturn:
    """Refuse the call because of one argument."""
    raise Denial("argument_not_allowed", f"the argument {name!r} {why}", argument=name)
