"""Command lines as people write them: taken apart where no shell is needed, refused elsewhere."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

ARGV = 'Write argv: [program, "{path}"], one element for each argument'
BRACES = re.compile(r"\{\{|\}\}|\{[^{}]*\}|[{}]")
"""Placeholders, doubled braces and stray ones."""

_SHELL = frozenset("|;&><$`*?~()[]!\\")
_SHELL_IN_QUOTES = frozenset("$`\\")
_HELD = re.compile("[\ue000-\uf8ff]")

_SHELLS = re.compile(r"(ba|da|z|k|c|tc|fi|a)?sh|busybox|python[0-9.]*").fullmatch
_SCRIPTS = re.compile(r"perl[0-9.]*|ruby[0-9.]*|node|nodejs|bun|php[0-9.]*").fullmatch
_C = re.compile(r"-[A-Za-z]*c|--command").fullmatch
_WITH_VALUE = frozenset({"-o", "+o", "-O", "+O", "-W", "-X", "-I", "--rcfile", "--init-file"})
_E = re.compile(r"-[A-Za-z]*[eEpr]|--eval|--print|--run").fullmatch


class CodeWatch:
    """Goes along a command and sees where an interpreter would take the next text for code."""

    def __init__(self) -> None:
        self._option: Callable[[str], object] | None = None
        """Tells the options behind which code stands; None while no interpreter is in charge."""
        self._next = False
        self._value = False

    def is_code(self, text: str, filled: bool) -> bool:
        """Whether this element holds code from the caller. `text` is what it begins with, and
        `filled` says whether a placeholder stands in it."""
        option = self._option
        inside = option is not None and option(text.rstrip("=")) is not None
        if filled:
            return self._next or inside
        started = _interpreter(text)
        if started is not None:
            self._option = started
        elif option is not None and not text.startswith(("-", "+")) and not self._value:
            self._option = None  # the script's own name: options behind it are the script's
        self._next = inside
        self._value = text in _WITH_VALUE
        return False


def _interpreter(program: str) -> Callable[[str], object] | None:
    name = program.rsplit("/", 1)[-1]
    if _SHELLS(name):
        return _C
    return _E if _SCRIPTS(name) else None


def split(command: object) -> list[str]:
    """The words of a command line; raises `ValueError` when it needs a shell to be understood."""
    if not isinstance(command, str):
        raise ValueError("command must be text; a list is written as argv")
    if len(command) > 4000 or _HELD.search(command):
        raise ValueError("command is too long, or holds characters of private use")
    held: list[str] = []

    def hold(match: re.Match[str]) -> str:
        held.append(match[0])
        return chr(0xDFFF + len(held))

    covered = BRACES.sub(hold, command)  # what stands in a placeholder is not for a shell
    _refuse_shell(covered)
    return [_HELD.sub(lambda m: held[ord(m[0]) - 0xE000], word) for word in _split(covered)]


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        raise ValueError("command has a quote that is not closed") from None


def _refuse_shell(text: str) -> None:
    quote, before = "", " "
    for character in text:
        special = _SHELL_IN_QUOTES if quote else _SHELL
        if (
            (quote != "'" and character in special)
            or character in "\n\r\0"
            or (character == "#" and not quote and before.isspace())
        ):
            raise ValueError(f"command needs a shell for {character!r}, and none is ever used")
        if character in "'\"" and quote in ("", character):
            quote = "" if quote else character
        before = character
