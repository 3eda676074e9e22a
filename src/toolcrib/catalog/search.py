"""Tools found by words: in their names first, then in titles, tags and descriptions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from toolcrib.core.spec import ToolSpec

LONGEST_QUERY = 1000
"""Characters; more would keep everybody waiting."""

_WORD = re.compile(r"[a-z0-9]+").findall
_SPLIT = re.compile(r"(?<=[a-z0-9])(?=[A-Z])").sub
_NAME, _TITLE, _TAG, _TEXT = 4.0, 3.0, 2.0, 1.0


class Described(Protocol):
    """Whatever has a spec."""

    @property
    def spec(self) -> ToolSpec: ...


T = TypeVar("T", bound=Described)


def search(tools: Iterable[T], query: str, limit: int) -> list[tuple[float, T]]:
    """Those that fit the words, the best first, each with its score. Raises ValueError."""
    if len(query) > LONGEST_QUERY:
        raise ValueError(f"query is over {LONGEST_QUERY} characters")
    words = tuple(dict.fromkeys(_words(query)))
    if not words:
        raise ValueError("query has no word in it")
    weighed = ((_score(tool.spec, words), tool) for tool in tools)
    found = [(score, tool) for score, tool in weighed if score]
    return sorted(found, key=lambda hit: (-hit[0], hit[1].spec.name))[:limit]


def _words(text: str) -> list[str]:
    return _WORD(_SPLIT(" ", text).lower())


def _score(spec: ToolSpec, words: Sequence[str]) -> float:
    fields = (
        (_NAME, _words(spec.name)),
        (_TITLE, _words(spec.title or "")),
        (_TAG, [w for tag in (*spec.tags, spec.category or "") for w in _words(tag)]),
        (_TEXT, _words(spec.description)),
    )
    score, hits = 0.0, 0
    for word in words:
        best = max(weight * _fit(word, among) for weight, among in fields)
        score += best
        hits += best > 0
    return score * hits / len(words)


def _fit(word: str, among: Sequence[str]) -> float:
    """1 for the word itself, less for one that begins with it."""
    if word in among:
        return 1.0
    return 0.5 if any(other.startswith(word) for other in among) else 0.0
