"""Globs, prefixes and regular expressions as patterns; what is too clever is left alone."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from toolcrib.host.verify.automaton import (
    ANYTHING,
    LAST,
    Language,
    Pattern,
    Ranges,
    TooLarge,
    characters,
    choice,
    exactly,
    repeat,
    row,
)

_DEEPEST = 40
_DIGITS: Ranges = ((48, 57),)
_WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: Ranges = ((9, 13), (32, 32), (160, 160))
_CLASSES = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}


class Unclear(Exception):
    """An expression beyond the part of the syntax that is understood here."""


@functools.lru_cache(maxsize=4096)
def glob_language(patterns: tuple[str, ...]) -> Language | None:
    """The texts that fit one of some globs."""
    return _language([_glob(pattern) for pattern in patterns])


@functools.lru_cache(maxsize=4096)
def prefix_language(starts: tuple[str, ...]) -> Language | None:
    """The texts that begin with one of `starts`."""
    return _language([row((exactly(start), ANYTHING)) for start in starts])


@functools.lru_cache(maxsize=4096)
def list_language(texts: tuple[str, ...]) -> Language | None:
    """Some texts."""
    return _language([exactly(text) for text in texts])


@functools.lru_cache(maxsize=4096)
def regex_language(expressions: tuple[str, ...]) -> Language | None:
    """The texts in which one of some regular expressions occurs; None when that is unclear."""
    try:
        readers = [_Reader(expression) for expression in expressions]
        parts = [reader.read() for reader in readers]
    except (Unclear, RecursionError):
        return None
    return _language(parts, exact=all(reader.exact for reader in readers))


def _language(parts: Iterable[Pattern], *, exact: bool = True) -> Language | None:
    try:
        return Language(choice(parts), exact=exact)
    except TooLarge:
        return None


def _glob(pattern: str) -> Pattern:
    inside = characters(((0, 46), (48, LAST)))  # all but the slash
    wild = {"**": ANYTHING, "*": repeat(inside), "?": inside}
    return row(wild.get(p) or exactly(p) for p in re.split(r"(\*\*|\*|\?)", pattern))


class _Reader:
    """Reads the everyday part of the linear-time syntax: no flags, boundaries or categories."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.exact = True

    def read(self) -> Pattern:
        """The whole texts in which the expression occurs."""
        found = choice(self._anchored())
        if self.at < len(self.text):
            raise Unclear
        return found

    def _anchored(self) -> list[Pattern]:
        options: list[Pattern] = []
        while True:
            start = self._take("^")
            middle = self._row(0)
            end = self._take("$")
            options.append(
                row((*(() if start else (ANYTHING,)), middle, *(() if end else (ANYTHING,))))
            )
            if not self._take("|"):
                return options

    def _choice(self, depth: int) -> Pattern:
        options = [self._row(depth)]
        while self._take("|"):
            options.append(self._row(depth))
        return choice(options)

    def _row(self, depth: int) -> Pattern:
        parts: list[Pattern] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)$":
            parts.append(self._repeated(self._one(depth)))
        return row(parts)

    def _repeated(self, part: Pattern) -> Pattern:
        least, most = 1, 1
        if self._take("*"):
            least, most = 0, None
        elif self._take("+"):
            least, most = 1, None
        elif self._take("?"):
            least, most = 0, 1
        elif self._peek() == "{":
            bounds = re.compile(r"\{(\d{1,4})(,(\d{0,4}))?\}").match(self.text, self.at)
            if bounds is None:
                raise Unclear
            self.at = bounds.end()
            least = int(bounds[1])
            most = least if bounds[2] is None else int(bounds[3]) if bounds[3] else None
        else:
            return part
        self._take("?")  # lazy or not: the same texts
        if self._peek() in ("*", "+", "?", "{"):
            raise Unclear
        return repeat(part, least, most)

    def _one(self, depth: int) -> Pattern:
        char = self._next()
        if char == "(":
            if depth > _DEEPEST:
                raise Unclear
            if self._take("?") and not (self._take(":") or self._named()):
                raise Unclear
            inner = self._choice(depth + 1)
            if not self._take(")"):
                raise Unclear
            return inner
        if char == "[":
            return characters(self._class())
        if char == ".":
            return characters(_but(((10, 10),)))
        if char == "\\":
            return characters(self._escape())
        if char in "^$*+?{}])":
            raise Unclear
        return characters(((ord(char), ord(char)),))

    def _named(self) -> bool:
        name = re.compile(r"P?<[A-Za-z_]\w*>").match(self.text, self.at)
        if name is not None:
            self.at = name.end()
        return name is not None

    def _class(self) -> Ranges:
        negated = self._take("^")
        found: list[tuple[int, int]] = []
        while not (found and self._take("]")):
            low = self._member()
            if self._peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("", "]"):
                self.at += 1
                high = self._member()
                ends = (*low, *high)
                if len(ends) != 2 or any(a != b for a, b in ends) or low > high:
                    raise Unclear
                low = ((low[0][0], high[0][1]),)
            found += low
        return _but(tuple(found)) if negated else tuple(sorted(set(found)))

    def _member(self) -> Ranges:
        char = self._next()
        if char == "\\":
            return self._escape()
        if char in "[]" or self.text[self.at - 1 : self.at + 1] in ("&&", "--", "~~"):
            raise Unclear
        return ((ord(char), ord(char)),)

    def _escape(self) -> Ranges:
        char = self._next()
        if char in "sS":
            self.exact = False  # which further spaces count is the engine's business
        if char.lower() in _CLASSES:
            ranges = _CLASSES[char.lower()]
            return ranges if char.islower() else _but(ranges)
        char = _CONTROLS.get(char, char)
        if char.isalnum():
            raise Unclear
        return ((ord(char), ord(char)),)

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _next(self) -> str:
        if self.at >= len(self.text):
            raise Unclear
        self.at += 1
        return self.text[self.at - 1]

    def _take(self, wanted: str) -> bool:
        if self._peek() != wanted:
            return False
        self.at += 1
        return True


def _but(ranges: Ranges) -> Ranges:
    """All other characters."""
    found: list[tuple[int, int]] = []
    start = 0
    for low, high in sorted(ranges):
        if low > start:
            found.append((start, low - 1))
        start = max(start, high + 1)
    if start <= LAST:
        found.append((start, LAST))
    return tuple(found)
