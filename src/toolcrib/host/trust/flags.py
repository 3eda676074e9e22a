"""What looks odd in the words of a tool: hints for people, never a decision by themselves."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

from toolcrib.host.trust.speech import SPEECH
from toolcrib.observe.log import escape

_LONGEST = 4096
"""Characters of one text that a description needs at most."""
_SHORTEST = 8
"""Characters below which plain text says nothing to anybody."""
_SHOWN = 60
_MOST = 20
"""Flags told of one tool."""

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{80,}={0,2}")
_HEX = re.compile(r"(?:\\x)?[0-9a-fA-F]{2}(?:(?:\\x|[ :])?[0-9a-fA-F]{2}){39,}")
_FAR = re.compile(r"[ \t\xa0\u2000-\u200a\u3000]{40,}|(?:\r?\n[ \t]*){15,}")
_COMMENT = re.compile(r"<!--|!\[[^\]]*\]\(\s*https?:", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")
_SENTENCE = re.compile(r"[^\W\d_]\W*\s+\W*[^\W\d_]|[<\[]|:")
_LETTERS = re.compile(r"[^\W\d_]{3,}")
_EMOJI = re.compile("(?<=[\u2190-\u2bff\u3030-\u303d\U0001f000-\U0001faff])[\ufe0f\u200d]")
_TELLING = re.compile(r"[_.:-]|[a-z][A-Z]|\d")


def flags_of(definition: Mapping[str, Any]) -> list[str]:
    """What a person should look at in a definition, each with its place: text that is hidden, or
    that speaks to the model instead of describing."""
    found: dict[str, None] = {}
    for place, text in _texts(definition, ""):
        for what, piece in _odd(place, text):
            found[f"{_cut(place)}: {what}: '{_excerpt(piece)}'"] = None
            if len(found) >= _MOST:
                return list(found)
    return list(found)


def naming_of(definition: Mapping[str, Any], others: Collection[str]) -> list[str]:
    """Where a definition names one of `others`, the tools of other providers."""
    found: dict[str, None] = {}
    for place, text in _texts(definition, "") if others else ():
        for match in _WORD.finditer(_plain(text)):
            if (word := match[0].rstrip(".:-")) in others and place != "/name":
                found[f"{_cut(place)}: names a tool of another provider: '{word}'"] = None
                if len(found) >= _MOST:
                    return list(found)
    return list(found)


def telling(name: str) -> bool:
    """Whether a tool's name is more than a word of the language, so that naming it means it."""
    return len(name) > 3 and _TELLING.search(name) is not None


def _texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Every text in a definition, names of members too, with its JSON pointer."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, each in cast("Mapping[str, Any]", value).items():
            inner = f"{place}/{key.replace('~', '~0').replace('/', '~1')}"
            if _hidden(key) or len(key) > 64:
                yield inner, key
            yield from _texts(each, inner)
    elif isinstance(value, list | tuple):
        for index, each in enumerate(cast("list[Any]", value)):
            yield from _texts(each, f"{place}/{index}")


def _odd(place: str, text: str) -> Iterator[tuple[str, str]]:
    if len(text) < _SHORTEST and text.isascii() and text.isprintable():
        return
    if hidden := _hidden(text):
        yield "has characters that nobody sees", hidden
    if len(text) > _LONGEST and not place.startswith("/icons/"):
        yield f"is {len(text)} characters long", text
    plain = _plain(text[: _LONGEST * 2])
    if _SENTENCE.search(plain):  # most texts of a schema are single words
        for what, pattern in SPEECH:
            if match := pattern.search(plain):
                yield what, match[0]
    for what, pattern in (
        ("has blank space that pushes text out of sight", _FAR),
        ("has markup that is not shown", _COMMENT),
    ):
        if match := pattern.search(text):
            yield what, match[0]
    if not place.startswith("/icons/") and (blob := _blob(text)) is not None:
        yield "has encoded data", blob
    for word in () if text.isascii() else _LETTERS.findall(text):
        if not word.isascii() and len(_scripts(word)) > 1:
            yield "mixes letters of several scripts in one word", word
            break


def _hidden(text: str) -> str:
    """The characters of a text that a person would not see."""
    if text.isascii() and text.isprintable():
        return ""
    bare = _EMOJI.sub("", text)
    return "".join(c for c in bare if c not in "\n\r\t" and escape(c) != c)


def _plain(text: str) -> str:
    """The text as a model may read it: hidden characters gone, variants of letters made plain."""
    if not text.isascii() or not text.isprintable():
        seen = "".join(c for c in text if c in "\n\r\t" or escape(c) == c)
        text = unicodedata.normalize("NFKC", seen)
    return text.replace("*", "").replace("`", "")


def _blob(text: str) -> str | None:
    if match := _HEX.search(text):
        return match[0]
    for match in _BASE64.finditer(text):
        blob = match[0]
        kinds = (str.isupper, str.islower, str.isdigit)
        if all(any(test(c) for c in blob) for test in kinds):
            return blob
    return None


def _scripts(word: str) -> set[str]:
    names = (unicodedata.name(c, "").partition(" ")[0] for c in word)
    return {name for name in names if name in ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN")}


def _excerpt(text: str) -> str:
    return _cut(" ".join(text[: _SHOWN * 2].split()) or text)


def _cut(text: str) -> str:
    return escape(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…")
