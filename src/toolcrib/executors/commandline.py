"""Command lines as people write them: taken apart where no shell is needed, refused elsewhere."""

from __future__ import annotations

import re
import shlex

ARGV = 'Write argv: [program, "{path}"], one element for each argument'
BRACES = re.compile(r"\{\{|\}\}|\{[^{}]*\}|[{}]")
"""Placeholders, doubled braces and stray ones."""

_SHELL = frozenset("|;&><$`*?~()[]!\\")
_SHELL_IN_QUOTES = frozenset("$`\\")
_HELD = re.compile("[\ue000-\uf8ff]")


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
