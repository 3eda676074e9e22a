"""An index of tools by their words. It follows a catalog change by change.

Each tool has a number, in the order of names as far as they were known when the index was filled;
those that came later stand behind. For each word there is a sorted array of the tools that have
it, and for frequent words also one large integer per weight with a bit for each tool: a hundred
thousand tools are compared in two microseconds so.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Mapping

from toolcrib.catalog.words import weights
from toolcrib.core.spec import ToolSpec

FREQUENT = 512
"""From so many tools on, a word has bits."""
_SHIFT, _LOW = 4, 15
"""Where a word is found is one number: the tool's, shifted, and the weight in the low bits. Inner
loops, here and in the ranking, write 4 and 15 themselves: looking the names up takes longer."""
_BIT = tuple(1 << place for place in range(8))
_MOST_BEGUN = 64
_SET = re.compile(rb"[^\0]").finditer
_STRAGGLERS = 4096
"""So many tools may stand out of order, or a quarter of all, before all are numbered anew."""

Weights = Mapping[int, int]
"""Bits of tools by weight."""


class Index:
    """Names to numbers, words to numbers. Not safe from several threads at once."""

    def __init__(self) -> None:
        self.names: list[str | None] = []
        """By number; None where a tool is gone."""
        self.numbers: dict[str, int] = {}
        self.ordered = 0
        """The numbers below are in the order of names."""
        self._specs: list[ToolSpec | None] = []
        self._terms: dict[str, int] = {}
        self._found: list[array[int]] = []
        """By word: `number << 4 | weight`, in order."""
        self._held: list[array[int]] = []
        """By tool: `word << 4 | weight`."""
        self._bits: dict[int, dict[int, int]] = {}
        self._words: list[str] = []
        """By number."""
        self._sorted: list[str] = []
        self._fresh: list[str] = []
        """Words that are not among the sorted ones yet."""
        self._begun: dict[str, dict[int, int]] = {}
        """Bits of all words that begin with one, for beginnings that were looked for lately."""

    def __len__(self) -> int:
        return len(self.numbers)

    def __contains__(self, name: str) -> bool:
        return name in self.numbers

    def put(self, spec: ToolSpec) -> bool:
        """Add a tool, or have it in the place of the one of that name; False when it is the one
        that is there."""
        number = self.numbers.get(spec.name)
        if number is None:
            number = len(self.names)
            if number == self.ordered and (not number or (self.names[-1] or "~") < spec.name):
                self.ordered += 1
            self.numbers[spec.name] = number
            self.names.append(spec.name)
            self._specs.append(spec)
            self._held.append(array("I"))
        elif self._specs[number] is spec:
            return False
        else:
            self._clear(number)
            self._specs[number] = spec
        held = self._held[number]
        for word, weight in weights(spec).items():
            term = self._term(word)
            held.append(term << _SHIFT | weight)
            self._enter(term, number, weight)
        return True

    def drop(self, name: str) -> bool:
        """Take a tool out; False when it is not there."""
        number = self.numbers.pop(name, None)
        if number is None:
            return False
        self._clear(number)
        self.names[number] = self._specs[number] = None
        return True

    def untidy(self) -> bool:
        """Whether so many tools stand out of order that it is time for another index."""
        behind = len(self.names) - min(self.ordered, len(self.numbers))
        return behind > max(_STRAGGLERS, self.ordered // 4)

    def tidy(self) -> Index:
        """The same tools, numbered in the order of their names."""
        other = Index()
        order = sorted(self.numbers)
        new = {self.numbers[name]: number for number, name in enumerate(order)}
        other.names = list(order)
        other.numbers = {name: number for number, name in enumerate(order)}
        other.ordered = len(order)
        other._specs = [self._specs[self.numbers[name]] for name in order]
        other._held = [self._held[self.numbers[name]] for name in order]
        other._terms, other._words = self._terms, self._words
        other._sorted, other._fresh = self._sorted, self._fresh
        other._found = [
            array("I", sorted(new[entry >> _SHIFT] << _SHIFT | entry & _LOW for entry in found))
            for found in self._found
        ]
        return other

    def spec(self, number: int) -> ToolSpec:
        """The tool of a number."""
        found = self._specs[number]
        if found is None:
            raise KeyError(number)
        return found

    # What a search looks at.

    def term(self, word: str) -> int | None:
        """The number of a word."""
        return self._terms.get(word)

    def longer(self, word: str) -> list[int]:
        """The words that begin with this one, by number, without itself."""
        if self._fresh:
            self._sorted += self._fresh
            self._fresh = []
            self._sorted.sort()
        words, terms = self._sorted, self._terms
        at = bisect_left(words, word)
        found: list[int] = []
        while at < len(words) and words[at].startswith(word):
            if words[at] != word:
                found.append(terms[words[at]])
            at += 1
        return found

    def found(self, term: int) -> array[int]:
        """The tools that have a word, as `number << 4 | weight`."""
        return self._found[term]

    def held(self, number: int) -> dict[int, int]:
        """The words of a tool, with their weights."""
        return {entry >> _SHIFT: entry & _LOW for entry in self._held[number]}

    def bits(self, term: int) -> Weights:
        """The tools that have a word, as bits by weight."""
        known = self._bits.get(term)
        if known is None:
            found = self._found[term]
            known = self._gathered((found,))
            if len(found) >= FREQUENT:
                self._bits[term] = known
        return known

    def begun_bits(self, word: str, longer: Collection[int]) -> Weights:
        """The tools that have a longer word that begins with this one, as bits by weight."""
        known = self._begun.pop(word, None)
        if known is None:
            few = [self._found[term] for term in longer if len(self._found[term]) < FREQUENT]
            known = self._gathered(few)
            for term in longer:
                if len(self._found[term]) >= FREQUENT:
                    for weight, bits in self.bits(term).items():
                        known[weight] = known.get(weight, 0) | bits
            if len(self._begun) >= _MOST_BEGUN:
                del self._begun[next(iter(self._begun))]
        self._begun[word] = known  # as the one looked for last
        return known

    def _gathered(self, many: Iterable[array[int]]) -> dict[int, int]:
        """All the tools of several words together, as bits by weight."""
        size = (len(self.names) >> 3) + 1
        rows: list[bytearray | None] = [None] * (_LOW + 1)
        for found in many:
            for entry in found:
                row = rows[entry & _LOW]
                if row is None:
                    row = rows[entry & _LOW] = bytearray(size)
                row[entry >> 7] |= _BIT[entry >> 4 & 7]
        return {
            weight: int.from_bytes(row, "little")
            for weight, row in enumerate(rows)
            if row is not None
        }

    def warm(self) -> Iterator[None]:
        """Make ready what the first searches would wait for, bit by bit."""
        self.longer("")
        yield
        for term, found in enumerate(self._found):
            if len(found) >= FREQUENT and term not in self._bits:
                self.bits(term)
                yield

    def first(self, bits: int) -> Iterator[int]:
        """The numbers of some tools, in the order of their names."""
        first = bits & ((1 << self.ordered) - 1)
        behind = bits >> self.ordered
        if not behind:
            return numbers(first)
        late = sorted(
            (self.names[n + self.ordered] or "", n + self.ordered) for n in numbers(behind)
        )
        return self._merged(numbers(first), late)

    def _merged(self, first: Iterator[int], late: list[tuple[str, int]]) -> Iterator[int]:
        at = 0
        for number in first:
            name = self.names[number] or ""
            while at < len(late) and late[at][0] < name:
                yield late[at][1]
                at += 1
            yield number
        for _, number in late[at:]:
            yield number

    def _term(self, word: str) -> int:
        term = self._terms.get(word)
        if term is None:
            term = self._terms[word] = len(self._found)
            self._found.append(array("I"))
            self._words.append(word)
            self._fresh.append(word)
        return term

    def _enter(self, term: int, number: int, weight: int) -> None:
        found, entry = self._found[term], number << _SHIFT | weight
        if not found or found[-1] < entry:
            found.append(entry)
        else:
            insort(found, entry)
        bits = self._bits.get(term)
        if bits is not None:
            bits[weight] = bits.get(weight, 0) | 1 << number
        self._forget(term)

    def _forget(self, term: int) -> None:
        """A word has other tools than before."""
        if self._begun:
            word = self._words[term]
            for beginning in [known for known in self._begun if word.startswith(known)]:
                del self._begun[beginning]

    def _clear(self, number: int) -> None:
        """Forget the words of a tool."""
        for held in self._held[number]:
            term, weight = held >> _SHIFT, held & _LOW
            found = self._found[term]
            del found[bisect_left(found, number << _SHIFT | weight)]
            bits = self._bits.get(term)
            if bits is not None:
                bits[weight] &= ~(1 << number)
                if not bits[weight]:
                    del bits[weight]
            self._forget(term)
        self._held[number] = array("I")


def numbers(bits: int) -> Iterator[int]:
    """The places of the bits that are set, lowest first."""
    for match in _SET(bits.to_bytes((bits.bit_length() + 7) >> 3, "little")):
        place = match.start() << 3
        byte = match[0][0]
        while byte:
            low = byte & -byte
            yield place + low.bit_length() - 1
            byte ^= low
