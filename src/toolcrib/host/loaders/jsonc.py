"""JSON with comments: what JSON does not know becomes spaces, so that every place stays."""

from __future__ import annotations

import re

# A string is passed over as a whole; an open one is left to the parser of JSON to complain about.
_PARTS = re.compile(
    r'(?P<string>"(?:[^"\\\n]|\\.)*+"?)'
    r"|(?P<comment>//[^\n]*|/\*(?s:.*?)\*/)"
    r"|(?P<comma>,)(?=(?:\s|//[^\n]*|/\*(?s:.*?)\*/)*+[\]}])"
)


def without_comments(text: str) -> str:
    """`text` as plain JSON: comments and commas before a closing bracket are blanked out."""
    return _PARTS.sub(_blank, text)


def _blank(match: re.Match[str]) -> str:
    if match["string"] is not None:
        return match[0]
    return re.sub(r"[^\n]", " ", match[0])
