"""Which URIs a URI template stands for (RFC 6570, the first two levels and path segments)."""

from __future__ import annotations

import re
from functools import lru_cache

_PARTS = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z0-9_%.]+(?::[0-9]{1,4}|\*)?\Z")
_VALUES = {
    "": "[^/?#]+",
    "+": ".+",
    "#": "#.*",
    "/": "(?:/[^/?#]*)+",
    ".": r"(?:\.[^/?#]*)+",
    ";": "(?:;[^/?#]*)*",
    "?": r"(?:\?[^#]*)?",
    "&": "(?:&[^#]*)?",
}
_LONGEST = 4096
_MOST_PARTS = 32


@lru_cache(maxsize=1024)
def pattern(template: str) -> re.Pattern[str] | None:
    """What URIs of the template look like; None for text that is no template with variables."""
    if len(template) > _LONGEST:
        return None
    made: list[str] = []
    end = parts = 0
    for part in _PARTS.finditer(template):
        inner = part[1]
        kind = inner[0] if inner[:1] in ("+", "#", "/", ".", ";", "?", "&") else ""
        names = inner[len(kind) :].split(",")
        if not all(_NAME.match(name) for name in names):
            return None
        made += [re.escape(template[end : part.start()]), _VALUES[kind]]
        end, parts = part.end(), parts + 1
    rest = template[end:]
    # Many variables side by side would make matching slow, and no sensible template has them.
    if not parts or parts > _MOST_PARTS or "}{" in template or "{" in rest or "}" in rest:
        return None
    return re.compile("".join(made) + re.escape(rest), re.DOTALL)


def fits(template: str, uri: str) -> bool:
    """Whether the URI can be one of the template's."""
    found = pattern(template)
    return found is not None and len(uri) <= _LONGEST and found.fullmatch(uri) is not None
