"""Which URIs a URI template stands for (RFC 6570, the first two levels and path segments).

Templates come from servers and URIs from clients, so matching never goes back: all places that the
template may have reached in the URI are kept at once, as the bits of a number.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

_PARTS = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z0-9_%.]+(?::[0-9]{1,4}|\*)?\Z")
_LONGEST = 4096
_LONGEST_TEMPLATE = 1024
_MOST_PARTS = 32


class _Value(msgspec.Struct, frozen=True):
    """What may stand in the place of a variable."""

    opens: str
    """What it begins with."""
    stops: str
    """Characters that it does not hold."""
    needed: bool
    """Whether it may not be left out: with nothing to open it, it has a character at least."""


_VALUES = {
    "": _Value("", "/?#", needed=True),
    "+": _Value("", "", needed=True),
    "#": _Value("#", "", needed=True),
    "/": _Value("/", "?#", needed=True),
    ".": _Value(".", "/?#", needed=True),
    ";": _Value(";", "/?#", needed=False),
    "?": _Value("?", "#", needed=False),
    "&": _Value("&", "#", needed=False),
}


class _Places:
    """Where each character of a URI stands: bit by bit, the first character lowest."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.all = (1 << len(uri)) - 1
        found: dict[str, int] = {}
        for place, letter in enumerate(uri):
            found[letter] = found.get(letter, 0) | 1 << place
        self._of = found

    def after(self, reached: int, text: str) -> int:
        """Where one is behind a text."""
        for letter in text:
            reached = (reached & self._of.get(letter, 0)) << 1
            if not reached:
                break
        return reached

    def through(self, reached: int, value: _Value) -> int:
        """Where one may be behind a value."""
        allowed = self.all
        for letter in value.stops:
            allowed &= ~self._of.get(letter, 0)
        begun = self.after(reached, value.opens) if value.opens else (reached & allowed) << 1
        # The carry of the sum runs from each place to the end of the characters allowed there.
        inside = begun & allowed
        behind = ((inside + allowed) ^ allowed) | begun if inside else begun
        return behind if value.needed else behind | reached


@lru_cache(maxsize=1024)
def pattern(template: str) -> tuple[str | _Value, ...] | None:
    """The parts of a template; None for text that is no template with variables."""
    if len(template) > _LONGEST_TEMPLATE:
        return None
    made: list[str | _Value] = []
    end = parts = 0
    for part in _PARTS.finditer(template):
        inner = part[1]
        kind = inner[0] if inner[:1] in ("+", "#", "/", ".", ";", "?", "&") else ""
        names = inner[len(kind) :].split(",")
        if not all(_NAME.match(name) for name in names):
            return None
        made += [template[end : part.start()], _VALUES[kind]]
        end, parts = part.end(), parts + 1
    rest = template[end:]
    if not parts or parts > _MOST_PARTS or "}{" in template or "{" in rest or "}" in rest:
        return None
    return (*made, rest)


_places = lru_cache(maxsize=4)(_Places)


def fits(template: str, uri: str) -> bool:
    """Whether the URI can be one of the template's."""
    found = pattern(template)
    if found is None or len(uri) > _LONGEST:
        return False
    first, last = str(found[0]), str(found[-1])
    if not uri.startswith(first) or not uri.endswith(last):
        return False  # as nearly always
    places = _places(uri)
    reached = 1
    for part in found:
        if isinstance(part, str):
            reached = places.after(reached, part)
        else:
            reached = places.through(reached, part)
        if not reached:
            return False
    return bool(reached >> len(uri))
