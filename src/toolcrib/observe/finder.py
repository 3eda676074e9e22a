"""One quick look over a JSON text that tells whether it is worth looking for secrets in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, partial

import msgspec

from toolcrib.observe.sensitive import SHAPES, maybe_named

LONGEST = 16
"""Characters of a secret that are looked for: with more, a key of some thousand characters would
make the search large, and hardly surer."""

LARGEST = 1 << 25
"""Bytes that a compiled search may take: enough for tens of thousands of secrets."""

_ESCAPES = ("\\u", "\\/")
"""The encoder writes each character of a string for itself, so what is a part of the string is,
escaped, a part of the text. For text that others wrote this holds unless it has these."""

Find = Callable[[str], bool]


def find_values(
    forms: Iterable[str], numbers: Iterable[int], *, piece: int, mark: str
) -> Find | None:
    """A test that is true of every JSON text in whose strings, keys or whole numbers is one of
    these, and of a few others; None where there can be no such test.

    `piece` and `mark` are those of the redactor: they say what a cut may leave of a secret.
    """
    # Beside a mark, a small rest of a secret is one as well.
    parts = {mark}
    for form in forms:
        half = max(piece, len(form) // 2)
        # What is left of a longer form at the ends of a text has one of its halves in it.
        for part in (form[:half][-LONGEST:], form[-half:][:LONGEST]):
            # Half a surrogate pair is in no text that can be encoded.
            with suppress(UnicodeEncodeError):
                parts.add(msgspec.json.encode(part)[1:-1].decode())
    parts.update(str(number)[:LONGEST] for number in numbers)
    return _find_any(parts)


@cache
def find_hints() -> Find:
    """A test that is true of every JSON text in which something looks like a credential, and of
    many others."""
    hints = {hint for _, hints, _ in SHAPES for hint in hints}
    return _find_any({*hints, "="}) or (lambda _: True)


@cache
def find_names() -> Find:
    """A test that is true of every JSON text with a key that names a secret, and of many others."""
    return _find_any(set(), maybe_named()) or (lambda _: True)


def _find_any(parts: set[str], *patterns: str) -> Find | None:
    texts = ("".join(map(_literal, part)) for part in sorted(parts))
    told = "|".join((*texts, *patterns))
    odd = "|".join("".join(map(_literal, escape)) for escape in _ESCAPES)
    either, surely = _search(f"{odd}|{told}"), cache(partial(_search, told))
    if either is None:
        return None  # too many, too long: then every value is walked through

    def find(text: str) -> bool:
        # Most texts have none of it. Where JSON stands in a string, its escapes are no escapes of
        # the text: they begin with a backslash that is escaped itself.
        if not either(text):
            return False
        found = surely()
        if found is None or found(text):
            return True
        rest = text.replace("\\\\", "")
        return any(escape in rest for escape in _ESCAPES)

    return find


def _search(pattern: str) -> Find | None:
    import jsonschema_rs  # not at the top: it costs more than the rest of this package

    # Its engine looks for hundreds of texts at once, faster than Python does for a few.
    options = jsonschema_rs.RegexOptions(size_limit=LARGEST)
    try:
        return jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options).is_valid
    except ValueError:
        return None


def _literal(char: str) -> str:
    """A character as it stands in a pattern for nothing but itself."""
    return f"\\x{ord(char):02X}" if char.isascii() and not char.isalnum() else char
