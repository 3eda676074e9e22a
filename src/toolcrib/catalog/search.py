"""Tools found by words, among a few that are at hand."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Protocol, TypeVar

from toolcrib.catalog.index import Index
from toolcrib.catalog.ranking import Seen, ranked
from toolcrib.catalog.words import LONGEST_QUERY, query_words
from toolcrib.core.spec import ToolSpec

__all__ = ["LONGEST_QUERY", "search"]


class Described(Protocol):
    """Whatever has a spec."""

    @property
    def spec(self) -> ToolSpec: ...


T = TypeVar("T", bound=Described)


def search(tools: Iterable[T], query: str, limit: int) -> list[tuple[float, T]]:
    """Those that fit the words, the best first, each with its score. Raises ValueError."""
    words = query_words(query)
    index = Index()
    named = {tool.spec.name: tool for tool in tools}
    for name in sorted(named):
        index.put(named[name].spec)
    hits = ranked(index, words, Seen(bytearray(b"\1") * len(index)))
    return [(score, named[name]) for score, name in islice(hits, limit)]
