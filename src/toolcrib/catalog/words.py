"""The words of a tool, and how much each of them says about it.

What a word weighs depends on its tool alone and never on other tools: how often words are found is
counted when somebody searches, among the tools that the searcher may know of.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any, Final

from toolcrib.core.spec import ToolSpec

HEAVIEST: Final = 15
"""Weights are whole numbers from 1 to this one."""
LONGEST_QUERY: Final = 1000
"""Characters; more would keep everybody waiting."""
MOST_WORDS: Final = 24
"""Different words of a query that are looked for; further ones are left out."""

_LONGEST_TEXT = 4000
_LONGEST_WORD = 40
_SHORTEST_BEGINNING = 3
_PLAIN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+").findall
_ANY = re.compile(r"[^\W\d_]+|\d+").findall
_HUMP = re.compile(r"(?<=[^\W\d_A-Z])(?=[A-Z])").sub
_ENOUGH = 1.2
"""Where a word weighs half of the most it can; more of it adds less and less."""

# What a word of a field counts, and how many words such a field has as a rule: among more words
# each one says less.
_NAME, _TITLE, _TAGS, _PARAMETERS, _TEXT = (4.0, 3), (3.0, 4), (2.0, 3), (1.0, 5), (1.0, 20)


def words_of(text: str) -> list[str]:
    """The words of a text in one form: `listFiles`, `list_file` and `List files` are the same."""
    text = text[:_LONGEST_TEXT]
    if text.isascii():
        found = _PLAIN(text)
    else:
        found = _ANY(_HUMP(" ", unicodedata.normalize("NFKC", text)))
    return [_folded(word) for word in found]


def _folded(word: str) -> str:
    word = word.lower()
    length = len(word)
    if length > 3 and word[-1] == "s" and word[-2] != "s":
        if length > 4 and word.endswith("ies"):
            return f"{word[:-3][: _LONGEST_WORD - 1]}y"
        word = word[:-1]
    return word[:_LONGEST_WORD]


def query_words(query: str) -> list[str]:
    """The different words of a query. Raises ValueError."""
    if len(query) > LONGEST_QUERY:
        raise ValueError(f"query is over {LONGEST_QUERY} characters")
    words = list(dict.fromkeys(words_of(query)))
    if not words:
        raise ValueError("query has no word in it")
    return words[:MOST_WORDS]


def finds_beginnings(word: str) -> bool:
    """Whether a word also finds longer ones. Short ones would find half of all."""
    return len(word) >= _SHORTEST_BEGINNING or not word.isascii()


def weights(spec: ToolSpec) -> dict[str, int]:
    """Every word of a tool with its weight: that of the field in which it says most."""
    best: dict[str, float] = {}
    _add(best, words_of(spec.name), _NAME)
    if spec.title:
        _add(best, words_of(spec.title), _TITLE)
    if spec.tags or spec.category:
        _add(best, _all_words((*spec.tags, spec.category or "")), _TAGS)
    properties: Any = spec.input_schema.get("properties") or ()
    _add(best, _all_words(name for name in properties if isinstance(name, str)), _PARAMETERS)
    _add(best, words_of(spec.description), _TEXT)
    return {word: _weight(value) for word, value in best.items()}


def _all_words(texts: Iterable[str]) -> list[str]:
    return [word for text in texts for word in words_of(text)]


def _add(best: dict[str, float], words: list[str], field: tuple[float, int]) -> None:
    counts, usual = field
    each = counts / (0.5 + 0.5 * len(words) / usual) if words else 0.0
    own: dict[str, float] = {}
    for word in words:
        own[word] = own.get(word, 0.0) + each
    for word, value in own.items():
        if best.get(word, 0.0) < value:
            best[word] = value


def _weight(value: float) -> int:
    return max(1, round(HEAVIEST * value / (value + _ENOUGH)))
