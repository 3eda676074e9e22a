"""HTML cut into tags and text, in one pass: no input makes it slow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple

_NAME = re.compile(r"[A-Za-z][^\s/>]*+")
_STOP = re.compile("[\"'>]")
_ATTRIBUTE = re.compile(
    r"""([^\s"'<>/=]++)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'=<>`]++)))?""",
)
# Their content is not HTML, and ends only at their own end tag.
_RAW = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in (
    "script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes",
)}  # fmt: skip


class Tag(NamedTuple):
    """A start or an end tag."""

    name: str
    closing: bool
    attributes: str = ""
    """As written; `attribute` reads one."""

    def attribute(self, name: str) -> str | None:
        """The value of an attribute, empty when it has none; None when it is not there."""
        for match in _ATTRIBUTE.finditer(self.attributes):
            if match[1].lower() == name:
                return unescape(match[2] or match[3] or match[4] or "")
        return None


def tokens(html: str) -> Iterator[Tag | str]:
    """Tags, and the text between them, as a browser would find them. What a tag or comment begins
    and nothing ends is left out, to the end of the page: so do browsers."""
    at = 0
    while (start := html.find("<", at)) >= 0:
        if start > at:
            yield unescape(html[at:start])
        if html.startswith("<!--", start):
            end = html.find("-->", start + 4)
            at = end + 3
        elif html.startswith(("<!", "<?"), start):
            end = html.find(">", start)
            at = end + 1
        else:
            closing = html.startswith("</", start)
            name = _NAME.match(html, start + 1 + closing)
            if name is None:
                yield "<"
                at = start + 1
                continue
            last = _tag_end(html, name.end())
            if last is None:
                return
            tag = Tag(name[0].lower(), closing, html[name.end() : last])
            yield tag
            at = end = last + 1
            if not closing and tag.name in _RAW:
                stop = _RAW[tag.name].search(html, at)
                if stop is None:
                    return
                yield unescape(html[at : stop.start()])
                at = stop.start()
        if end < 0:
            return
    if at < len(html):
        yield unescape(html[at:])


def _tag_end(html: str, at: int) -> int | None:
    """Where the `>` is that ends a tag, past quoted values; None when there is none.

    Not one pattern: the first releases of Python 3.11 lose their place in a repeated group that
    gives nothing back.
    """
    while (stop := _STOP.search(html, at)) is not None:
        if stop[0] == ">":
            return stop.start()
        closing = html.find(stop[0], stop.end())
        if closing < 0:
            return None
        at = closing + 1
    return None
