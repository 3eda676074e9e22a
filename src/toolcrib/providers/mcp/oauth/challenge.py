"""What a server that refuses a request says about the token it wants (RFC 6750, RFC 9728)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_LONGEST = 8192
_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"  # noqa: S105 - the grammar of a word
_PIECE = re.compile(
    rf'[\s,]*(?:(?P<name>{_TOKEN})\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*+)"|(?P<plain>[^\s",]+))'
    rf"|(?P<scheme>{_TOKEN})(?=\s|,|$))"
)
_ESCAPED = re.compile(r"\\(.)")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}").fullmatch
MOST_SCOPES = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Challenge:
    """The `Bearer` challenge of an answer."""

    resource_metadata: str | None = None
    scopes: tuple[str, ...] = ()
    error: str | None = None


NOTHING_SAID = Challenge()


def challenge_in(headers: Mapping[str, str]) -> Challenge:
    """The challenge in an answer's headers; an empty one where nothing readable is."""
    found: dict[str, str] = {}
    scheme = ""
    text = headers.get("www-authenticate", "")[:_LONGEST]
    place = 0
    while match := _PIECE.match(text, place):
        place = match.end()
        if match["scheme"] is not None:
            scheme = match["scheme"].lower()
        elif scheme == "bearer":
            quoted = match["quoted"]
            value = match["plain"] if quoted is None else _ESCAPED.sub(r"\1", quoted)
            found.setdefault(match["name"].lower(), value)
    return Challenge(
        resource_metadata=found.get("resource_metadata") or None,
        scopes=scopes_from(found.get("scope", "")),
        error=found.get("error"),
    )


def scopes_from(text: object) -> tuple[str, ...]:
    """The scopes in a text, each once and in order; what cannot be a scope is left out."""
    words = text.split(" ") if isinstance(text, str) else ()
    good = [word for word in words if _SCOPE(word)]
    return tuple(dict.fromkeys(good))[:MOST_SCOPES]
