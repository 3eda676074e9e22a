"""Sets of texts as automata, so that "is there such a text?" has an answer and an example."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Characters as ranges of code points, both ends included."""

LAST = 0x10FFFF
ANY: Ranges = ((0, LAST),)
MOST_STATES = 4000
_LONGEST_LEAST = 300
_NICE = "xabcdefghijklmnopqrstuvwyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-_./:@ "


@dataclass(frozen=True, slots=True)
class Pattern:
    """A set of texts as a tree: characters, things in a row, choices, repetitions."""

    form: Literal["set", "row", "choice", "repeat"]
    ranges: Ranges = ()
    parts: tuple[Pattern, ...] = ()
    least: int = 0
    most: int | None = None


def characters(ranges: Ranges) -> Pattern:
    """One character of these."""
    return Pattern("set", ranges)


def row(parts: Iterable[Pattern]) -> Pattern:
    """One after the other."""
    return Pattern("row", parts=tuple(parts))


def choice(parts: Iterable[Pattern]) -> Pattern:
    """One of them."""
    return Pattern("choice", parts=tuple(parts))


def repeat(part: Pattern, least: int = 0, most: int | None = None) -> Pattern:
    """The same, again and again."""
    return Pattern("repeat", parts=(part,), least=least, most=most)


def exactly(text: str) -> Pattern:
    """This text."""
    return row(characters(((ord(c), ord(c)),)) for c in text)


ANYTHING = repeat(characters(ANY))


class TooLarge(Exception):
    """The automaton would have too many states to be worth building."""


class Language:
    """The texts that fit a pattern, as a non-deterministic automaton."""

    def __init__(self, pattern: Pattern, *, exact: bool = True) -> None:
        self.exact = exact
        """False when the automaton only comes near what is meant."""
        self._free: list[list[int]] = []
        self._moves: list[list[tuple[Ranges, int]]] = []
        start = self._state()
        self._final = self._build(pattern, start)
        self.begin = self._closure({start})

    @property
    def sets(self) -> set[Ranges]:
        """Every set of characters that a step looks at."""
        return {ranges for moves in self._moves for ranges, _ in moves}

    def step(self, states: frozenset[int], code: int) -> frozenset[int]:
        """Where the automaton is after one more character; nowhere means it cannot fit any more."""
        reached = {
            target
            for state in states
            for ranges, target in self._moves[state]
            if _holds(ranges, code)
        }
        return self._closure(reached) if reached else frozenset()

    def accepts(self, states: frozenset[int]) -> bool:
        """Whether the text so far fits."""
        return self._final in states

    def _state(self) -> int:
        if len(self._free) >= MOST_STATES:
            raise TooLarge
        self._free.append([])
        self._moves.append([])
        return len(self._free) - 1

    def _build(self, pattern: Pattern, start: int) -> int:
        if pattern.form == "set":
            end = self._state()
            self._moves[start].append((pattern.ranges, end))
            return end
        if pattern.form == "row":
            for part in pattern.parts:
                start = self._build(part, start)
            return start
        end = self._state()
        if pattern.form == "choice":
            for part in pattern.parts:
                inner = self._state()
                self._free[start].append(inner)
                self._free[self._build(part, inner)].append(end)
            return end
        part = pattern.parts[0]
        for _ in range(pattern.least):
            start = self._build(part, start)
        if pattern.most is None:
            loop = self._state()
            self._free[start].append(loop)
            self._free[self._build(part, loop)].append(loop)
            self._free[loop].append(end)
            return end
        for _ in range(pattern.most - pattern.least):
            self._free[start].append(end)
            start = self._build(part, start)
        self._free[start].append(end)
        return end

    def _closure(self, states: Iterable[int]) -> frozenset[int]:
        found = set(states)
        todo = list(found)
        while todo:
            for target in self._free[todo.pop()]:
                if target not in found:
                    found.add(target)
                    todo.append(target)
        return frozenset(found)


class Found(NamedTuple):
    """The result of a search."""

    texts: list[str]
    complete: bool
    """With no texts: whether that proves that there are none."""


def search(
    inside: Sequence[Language],
    outside: Sequence[Language] = (),
    *,
    least: int = 0,
    most: int | None = None,
    wanted: int = 8,
    budget: int = 3000,
) -> Found:
    """Some of the shortest texts that are in all of `inside` and in none of `outside`."""
    languages = (*inside, *outside)
    exact = all(language.exact for language in languages) and least <= _LONGEST_LEAST
    least = min(least, _LONGEST_LEAST)
    alphabet = _alphabet(languages)
    count = len(inside)

    def fits(states: tuple[frozenset[int], ...], length: int) -> bool:
        return (
            length >= least
            and (most is None or length <= most)
            and all(lang.accepts(s) for lang, s in zip(inside, states, strict=False))
            and not any(lang.accepts(s) for lang, s in zip(outside, states[count:], strict=True))
        )

    begin = tuple(language.begin for language in languages)
    texts = [""] if fits(begin, 0) else []
    queue = deque([(begin, "")])
    seen = {(begin, 0)}
    while queue and len(texts) < wanted:
        states, text = queue.popleft()
        if most is not None and len(text) >= most:
            continue
        for code in alphabet:
            after = tuple(lang.step(s, code) for lang, s in zip(languages, states, strict=True))
            if not all(after[:count]):
                continue
            longer = text + chr(code)
            if len(texts) < wanted and fits(after, len(longer)):
                texts.append(longer)
            key = (after, min(len(longer), least))
            if key not in seen:
                if len(seen) >= budget:
                    return Found(texts, False)
                seen.add(key)
                queue.append((after, longer))
    return Found(texts, exact)


def _holds(ranges: Ranges, code: int) -> bool:
    return any(low <= code <= high for low, high in ranges)


def _alphabet(languages: Sequence[Language]) -> list[int]:
    """One character for every group that no language tells apart, readable ones where possible."""
    sets = sorted({ranges for language in languages for ranges in language.sets})
    cuts = {0, LAST + 1, 0xD800, 0xE000}
    cuts |= {edge for ranges in sets for low, high in ranges for edge in (low, high + 1)}
    edges = sorted(cuts)
    best: dict[tuple[bool, ...], tuple[int, int]] = {}
    for low, after in pairwise(edges):
        if low == 0xD800:
            continue  # half characters are no text
        rank, code = _readable(low, after)
        kind = tuple(_holds(ranges, code) for ranges in sets)
        if kind not in best or rank < best[kind][0]:
            best[kind] = (rank, code)
    return [code for _, code in sorted(best.values())]


def _readable(low: int, after: int) -> tuple[int, int]:
    for rank, char in enumerate(_NICE):
        if low <= ord(char) < after:
            return rank, ord(char)
    code = max(low, 0x21) if after > 0x21 else low
    return len(_NICE) + (0 if 0x20 < code < 0x7F else 1), code
