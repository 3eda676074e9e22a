"""Which tools of an index fit some words best.

The score is like that of BM25: a word counts the more the fewer tools have it. Tools are counted
among those that the searcher may know of and no others, so a score says nothing about the rest.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from toolcrib.catalog.index import Index
from toolcrib.catalog.planes import Planes
from toolcrib.catalog.words import HEAVIEST, finds_beginnings

_FEW = 4000
"""Up to so many places where words are found, adding them up one by one is quickest."""
_FIRST = 32
_WHOLE, _SCALE = 2, 16
"""A word found whole weighs twice as much as one found as a beginning. Scores are whole numbers,
so that equal is equal, whatever order they were added in."""
_DIGITS = b"01" + b"0" * 254

Extra = Mapping[str, int]
"""The words of a tool that is not in the index, with their weights."""
_Hit = tuple[int, str]
"""A score, negative so that the best come first, and a name."""


class Seen:
    """The tools of an index that a searcher may know of."""

    __slots__ = ("bits", "row")

    def __init__(self, row: bytearray) -> None:
        self.row = row
        """A byte for each number, 0 or 1."""
        self.bits = int(row.translate(_DIGITS)[::-1] or b"0", 2)

    @property
    def count(self) -> int:
        """How many they are."""
        return self.bits.bit_count()


class _Word(msgspec.Struct, frozen=True):
    """One word of a query, as the index has it."""

    text: str
    term: int | None
    longer: frozenset[int]
    """Words that begin with it."""


class _Query(msgspec.Struct, frozen=True):
    tools: Index
    words: Sequence[_Word]
    seen: Seen
    extra: Mapping[str, Sequence[int]]
    """By name: what each word gives to a tool that is not in the index."""
    counted: bool

    def factor(self, at: int, having: int) -> int:
        """How much a word counts that so many tools of the index have."""
        if not self.counted:
            return _SCALE
        having += sum(1 for values in self.extra.values() if values[at])
        total = self.seen.count + len(self.extra)
        return round(_SCALE * (1 + math.log(1 + (total - having + 0.5) / (having + 0.5))))

    def others(self, factors: Sequence[int]) -> list[_Hit]:
        """The tools that are not in the index, in order."""
        sums = (
            (-sum(f * v for f, v in zip(factors, values, strict=True)), name)
            for name, values in self.extra.items()
        )
        return sorted(hit for hit in sums if hit[0])


def ranked(
    index: Index,
    words: Sequence[str],
    seen: Seen,
    extras: Mapping[str, Extra] | None = None,
    *,
    counted: bool = True,
) -> Iterator[tuple[float, str]]:
    """The tools that have one of the words, the best first, equal ones by name.

    `extras` are tools beside those of the index. Without `counted` all words count alike, however
    many tools have them.
    """
    looked = [_looked_up(index, word) for word in words]
    extra = {
        name: [_given(word.text, held) for word in looked] for name, held in (extras or {}).items()
    }
    query = _Query(index, looked, seen, extra, counted)
    terms = (term for word in looked for term in (word.term, *word.longer) if term is not None)
    places = sum(len(index.found(term)) for term in terms)
    for score, name in _one_by_one(query) if places <= _FEW else _all_at_once(query):
        yield round(-score / (_WHOLE * HEAVIEST * _SCALE), 4), name


def _looked_up(index: Index, word: str) -> _Word:
    longer = index.longer(word) if finds_beginnings(word) else ()
    return _Word(word, index.term(word), frozenset(longer))


def _given(word: str, held: Extra) -> int:
    """What a word gives to a tool with these words."""
    found = [_WHOLE * held.get(word, 0)]
    if finds_beginnings(word):
        found += [w for other, w in held.items() if other != word and other.startswith(word)]
    return max(found)


def _one_by_one(query: _Query) -> Iterator[_Hit]:
    index, row = query.tools, query.seen.row
    scores: dict[int, int] = {}
    factors: list[int] = []
    for at, word in enumerate(query.words):
        values: dict[int, int] = {}
        if word.term is not None:
            for entry in index.found(word.term):
                if row[entry >> 4]:
                    values[entry >> 4] = _WHOLE * (entry & 15)
        for term in word.longer:
            for entry in index.found(term):
                if row[entry >> 4] and values.get(entry >> 4, 0) < entry & 15:
                    values[entry >> 4] = entry & 15
        factor = query.factor(at, len(values))
        factors.append(factor)
        for number, value in values.items():
            scores[number] = scores.get(number, 0) + factor * value
    hits = [(-score, index.names[number] or "") for number, score in scores.items()]
    hits += query.others(factors)
    heapq.heapify(hits)
    while hits:
        yield heapq.heappop(hits)


def _all_at_once(query: _Query) -> Iterator[_Hit]:
    index = query.tools
    planes = Planes()
    factors: list[int] = []
    every = 0
    for at, word in enumerate(query.words):
        parts, having = _parts(index, word, query.seen.bits)
        every |= having
        factor = query.factor(at, having.bit_count())
        factors.append(factor)
        planes.add([(factor * value, bits) for value, bits in parts])
    return heapq.merge(_from_planes(query, planes, factors, every), query.others(factors))


def _from_planes(
    query: _Query, planes: Planes, factors: Sequence[int], every: int
) -> Iterator[_Hit]:
    """Some of the best, then more of them as long as somebody asks."""
    index, wanted = query.tools, _FIRST
    while every:
        best = planes.best(every, wanted)
        hits = [
            (-_score(index, number, query.words, factors), index.names[number] or "")
            for number in index.first(best.sure)
        ]
        yield from sorted(hits)
        every ^= best.sure
        if best.equal:
            score = None
            for number in index.first(best.equal):
                if score is None:
                    score = _score(index, number, query.words, factors)
                yield -score, index.names[number] or ""
            every ^= best.equal
        wanted *= 4


def _parts(index: Index, word: _Word, seen: int) -> tuple[list[tuple[int, int]], int]:
    """What a word gives to which tools, the most first; and all of these tools."""
    by_value: dict[int, int] = {}
    if word.term is not None:
        for weight, bits in index.bits(word.term).items():
            by_value[_WHOLE * weight] = bits
    if word.longer:
        for weight, bits in index.begun_bits(word.text, word.longer).items():
            by_value[weight] = by_value.get(weight, 0) | bits
    parts: list[tuple[int, int]] = []
    having = 0
    for value in sorted(by_value, reverse=True):
        bits = by_value[value] & seen
        if word.longer:
            bits &= ~having
        if bits:
            parts.append((value, bits))
            having |= bits
    return parts, having


def _score(index: Index, number: int, words: Sequence[_Word], factors: Sequence[int]) -> int:
    held = index.held(number)
    total = 0
    for word, factor in zip(words, factors, strict=True):
        value = 0 if word.term is None else _WHOLE * held.get(word.term, 0)
        for term in held.keys() & word.longer:
            value = max(value, held[term])
        total += factor * value
    return total
