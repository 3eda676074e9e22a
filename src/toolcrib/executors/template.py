"""Reading an argv template, or a command line that needs no shell, from a tool's config."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn, cast

from toolcrib.core.jsontext import shown
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import SpecError
from toolcrib.executors.arguments import Argument, unknown
from toolcrib.executors.argv import (
    Element,
    Group,
    Item,
    Repeated,
    Rules,
    Slot,
    Template,
    When,
    names_in,
)
from toolcrib.executors.codewatch import CodeWatch
from toolcrib.executors.commandline import ARGV, BRACES, split

_NAME = r"[A-Za-z0-9_-]+"
_PLACEHOLDER = re.compile(rf"\{{({_NAME})\}}").fullmatch
_REPEATED = re.compile(rf"\{{({_NAME})\.\.\.\}}").fullmatch
_FLAG = re.compile(rf"\{{({_NAME})\?([^{{}}]+)\}}").fullmatch


class TemplateReader:
    """Reads the command of one tool."""

    def __init__(self, spec: ToolSpec, arguments: Mapping[str, Argument]) -> None:
        self.spec = spec
        self.arguments = arguments

    def read(self, config: Mapping[str, Any], rules: Rules) -> Template:
        """The template of `argv` or `command`; raises `SpecError`."""
        if ("argv" in config) == ("command" in config):
            self.wrong("argv", "a shell tool needs argv, or command, and not both", ARGV)
        if "command" in config:
            key = "command"
            written: Any = self._words(config["command"])
        else:
            key, written = "argv", config["argv"]
        if isinstance(written, str) or not isinstance(written, Sequence) or not written:
            self.wrong(key, f"argv must be a list, not {shown(cast('object', written))}", ARGV)
        program, *rest = cast("Sequence[Any]", written)
        if not isinstance(program, str) or not program or program.startswith("-"):
            self.wrong(key, "the program must be the name or path of a file", ARGV)
        fixed = self.element(program, f"{key}[0]", optional=True)
        if not isinstance(fixed, Element) or not all(isinstance(p, str) for p in fixed.parts):
            self.wrong(key, "the program is fixed: it takes no placeholder", ARGV)
        program = "".join(cast("tuple[str, ...]", fixed.parts))
        if key == "command" and "=" in program:
            self.wrong(key, f"{program!r} sets a variable", "Write it in env: {NAME: value}")
        items = tuple(self._item(item, f"{key}[{n}]") for n, item in enumerate(rest, 1))
        template = Template(program, items, rules)
        watch = self._check(template, key)
        if config.get("stdin") is not None and watch.runs_input:
            self.wrong(
                "stdin",
                f"{program} would run its input, which comes from the caller, as code",
                "Give it a script, or code of your own, that reads the input",
            )
        return template

    def _words(self, command: Any) -> list[str]:
        try:
            return split(command)
        except ValueError as error:
            self.wrong("command", str(error), f"{ARGV}; what needs a shell belongs in a script")

    def _item(self, item: Any, key: str) -> Item:
        if isinstance(item, str):
            return self.element(item, key)
        if isinstance(item, int | float) and not isinstance(item, bool):
            return Element((str(item),))
        if isinstance(item, Mapping):
            return self._when(cast("Mapping[str, Any]", item), key)
        if isinstance(item, list | tuple):
            return self._group(cast("list[Any]", item), key)
        what = shown(cast("object", item))
        raise self.mistake(key, f"{what} cannot stand in argv", 'Write text, such as "{path}"')

    def _when(self, item: Mapping[str, Any], key: str) -> When:
        if set(item) != {"if", "then"} or not isinstance(item["then"], list | tuple):
            self.wrong(
                key, "a condition has if and then", "Write {if: verbose, then: [-v]} in argv"
            )
        name = self._flag(str(item["if"]), key)
        return When(name, tuple(self._item(part, key) for part in cast("list[Any]", item["then"])))

    def _group(self, item: list[Any], key: str) -> Group:
        elements: list[Element | Repeated] = []
        for part in item:
            element = self.element(part, key, optional=True) if isinstance(part, str) else None
            if not isinstance(element, Element | Repeated):
                self.wrong(key, "an optional group holds text only", '["--since", "{since}"]')
            elements.append(element)
        if not any(has_slots(element) for element in elements):
            self.wrong(
                key,
                "a list in argv is an optional group and needs a placeholder",
                'Write ["--since", "{since}"], or the elements without the inner list',
            )
        return Group(tuple(elements))

    def element(self, text: str, key: str, *, optional: bool = False) -> Element | Repeated | When:
        """One element; `optional` ones may hold arguments that a call leaves out."""
        if match := _REPEATED(text):
            name = self._known(match[1], key)
            if not self.arguments[name].is_list:
                self.wrong(key, f"{text} needs an array of text or numbers", self._typed(name))
            return Repeated(name)
        if match := _FLAG(text):
            return When(self._flag(match[1], key), (Element((match[2],)),))
        parts: list[str | Slot] = []
        end = 0
        for match in BRACES.finditer(text):
            parts.append(text[end : match.start()])
            parts.append(self._part(match[0], key, optional))
            end = match.end()
        parts.append(text[end:])
        if "\0" in text:
            self.wrong(key, "an argument cannot hold NUL", "Remove it")
        return Element(_joined(parts))

    def _part(self, braces: str, key: str, optional: bool) -> str | Slot:
        if braces in ("{{", "}}"):
            return braces[0]
        match = _PLACEHOLDER(braces)
        if match is None:
            if _REPEATED(braces) or _FLAG(braces):
                self.wrong(key, f"{braces} must be a whole element", f'Write "{braces}" alone')
            self.wrong(
                key, f"{braces} is no placeholder", "Write {name}, or {{ and }} for plain braces"
            )
        name = self._known(match[1], key)
        argument = self.arguments[name]
        if argument.is_list:
            self.wrong(key, f"{name} is an array", f'Write "{{{name}...}}" as a whole element')
        if not argument.is_scalar:
            self.wrong(key, f"{name} must be a string, a number or a boolean", self._typed(name))
        if not optional and not argument.always:
            self.wrong(
                key,
                f"a call may leave {name} out",
                f'Make it required, give it a default, or write ["{{{name}}}"] as a list of '
                "its own, which is left out with it",
            )
        return Slot(name)

    def _flag(self, name: str, key: str) -> str:
        if not self.arguments[self._known(name, key)].is_flag:
            self.wrong(key, f"{name} decides, so it must be a boolean", "Give it type: boolean")
        return name

    def _known(self, name: str, key: str) -> str:
        if name not in self.arguments:
            raise unknown(name, self.arguments, self.spec, f"config.{key}")
        return name

    def _typed(self, name: str) -> str:
        return f"Say so in input_schema.properties.{name}; objects and lists can go to stdin"

    def _check(self, template: Template, key: str) -> CodeWatch:
        watch = CodeWatch()
        for item in _flat((Element((template.program,)), *template.items)):
            head = item.parts[0] if isinstance(item, Element) and item.parts else ""
            head = head if isinstance(head, str) else ""
            if not has_slots(item):
                watch.fixed(head)
                continue
            if isinstance(item, Element):
                self._check_option(item, template.rules, key)
            if watch.filled(head, free=self._free(item), many=isinstance(item, Repeated)):
                self.wrong(
                    key,
                    "a placeholder in code, or for a program, would be code from the caller",
                    'Pass it as an argument: [sh, -c, \'ls -- "$1"\', sh, "{path}"]; where it '
                    "chooses between some, give it an enum",
                )
        return watch

    def _free(self, item: Element | Repeated) -> bool:
        """Whether any text may come to stand there, not only numbers or some of a list."""
        for name in names_in([item]):
            known = self.arguments[name]
            texts = known.items if isinstance(item, Repeated) else known.kinds
            if "string" in texts and not known.listed:
                return True
        return False

    def _check_option(self, element: Element, rules: Rules, key: str) -> None:
        """A placeholder behind nothing but dashes would let the caller choose the option."""
        head, *more = element.parts
        if head not in ("-", "--") or not isinstance(slot := more[0], Slot):
            return
        known = self.arguments[slot.name]
        if "string" in known.kinds and not known.listed and slot.name not in rules.allow_dash:
            self.wrong(
                key,
                f"{head}{{{slot.name}}} lets the caller choose any option",
                f"Give {slot.name} an enum, or name it in allow_dash",
            )

    def wrong(self, key: str, message: str, cure: str) -> NoReturn:
        """Refuse the config."""
        raise self.mistake(key, message, cure)

    def mistake(self, key: str, message: str, cure: str) -> SpecError:
        """Something wrong in the config."""
        return SpecError(f"tool {self.spec.name}: {message}", key=f"config.{key}", cure=cure)


def _joined(parts: Sequence[str | Slot]) -> tuple[str | Slot, ...]:
    """Neighbouring texts as one, and no empty ones."""
    joined: list[str | Slot] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part != "":
            joined.append(part)
    return tuple(joined)


def has_slots(item: Element | Repeated) -> bool:
    """Whether an argument stands in it."""
    return isinstance(item, Repeated) or any(isinstance(part, Slot) for part in item.parts)


def _flat(items: Sequence[Item]) -> Iterator[Element | Repeated]:
    for item in items:
        if isinstance(item, When | Group):
            yield from _flat(item.elements)
        else:
            yield item
