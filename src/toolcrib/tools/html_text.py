"""HTML as text that a model can read: what a visitor would see, with its links."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urljoin

from toolcrib.tools.html_tokens import Tag, tokens


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_UNSEEN = _words(
    "script style noscript template svg math iframe object canvas audio video select datalist "
    "head noembed noframes"
)
_BLOCKS = _words(
    "address article aside blockquote body dd details div dl dt fieldset figcaption figure "
    "footer form h1 h2 h3 h4 h5 h6 header hr li main nav ol p pre section summary table tbody "
    "tfoot thead tr ul"
)
_SPACED = _words("blockquote dl figure h1 h2 h3 h4 h5 h6 ol p pre table ul")
_VOID = _words("area base br col embed hr img input link meta source track wbr")
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_SPACE = re.compile(r"\s+")
_TRAILING = re.compile(r"(?<![ \t])[ \t]++\n")
_BLANK = re.compile(r"\n{3,}")
_DEEPEST_LIST = 8


class Readable(NamedTuple):
    """A page in words."""

    title: str
    text: str


def readable(html: str, base: str, *, markdown: bool = False) -> Readable:
    """The words of a page; links become absolute, `base` being where the page is."""
    page = _Page(base, markdown)
    for token in tokens(html):
        if isinstance(token, str):
            page.words(token)
        else:
            page.tag(token)
    text = _TRAILING.sub("\n", "".join(page.out))
    return Readable(page.title, _BLANK.sub("\n\n", text).strip())


class _Page:
    """The page as far as it was read."""

    def __init__(self, base: str, markdown: bool) -> None:
        self.base = base
        self.markdown = markdown
        self.out: list[str] = []
        self.title = ""
        self._newlines = 2
        self._space = False
        self._skipped = ""
        self._depth = 0
        self._in_title = False
        self._pre = 0
        self._lists: list[int] = []
        self._link: tuple[str, int] | None = None

    def words(self, text: str) -> None:
        """Text between tags."""
        if self._in_title:
            self.title = self.title or _SPACE.sub(" ", text).strip()
        elif self._skipped:
            return
        elif self._pre:
            # As in browsers, the line break behind the tag is none.
            begins = self._newlines or self.out[-1] == "```\n"
            self._put(text.removeprefix("\n") if begins else text)
        else:
            shown = _SPACE.sub(" ", text)
            if shown.startswith(" "):
                self._space = True
            if shown.strip():
                self._put(shown.strip(" "))
                self._space = shown.endswith(" ")

    def tag(self, tag: Tag) -> None:
        """A start or an end tag."""
        name = tag.name
        if name == "title" and self._skipped in ("", "head"):
            self._in_title = not tag.closing and not self.title
            return
        if self._skipped:
            self._skip(tag)
            return
        if not tag.closing and name not in _VOID and _unseen(tag):
            self._skipped, self._depth = name, 1
            return
        fenced = self.markdown and name == "pre" and tag.closing
        if name in _BLOCKS and not fenced:
            self._break(2 if name in _SPACED and not (self._lists and name in "ulol") else 1)
        if tag.closing:
            self._end(name)
        else:
            self._start(tag)

    def _skip(self, tag: Tag) -> None:
        if tag.name == "body" and self._skipped == "head":
            self._skipped = ""  # a head that was never closed ends where the body begins
        elif tag.name == self._skipped:
            self._depth += -1 if tag.closing else 1
            if self._depth == 0:
                self._skipped = ""

    def _start(self, tag: Tag) -> None:
        name = tag.name
        if name == "br":
            self._break(1)
        elif name == "a":
            self._link = self._target(tag.attribute("href")), len(self.out)
        elif name in ("ul", "ol"):
            self._lists.append(0 if name == "ul" else 1)
        elif name == "li":
            self._item()
        elif name == "img" and (words := tag.attribute("alt")):
            self.words(f" [image: {words}] ")
        elif name in ("td", "th") and self._newlines == 0:
            self._put(" |")
            self._space = True
        elif name == "pre":
            self._pre += 1
            if self.markdown:
                self._put("```\n")
        elif self.markdown:
            self._mark(name)

    def _mark(self, name: str) -> None:
        if len(name) == 2 and name[0] == "h" and name[1] in "123456":
            self._put("#" * int(name[1]) + " ")
        elif name == "blockquote":
            self._put("> ")
        elif name == "hr":
            self._put("---\n")

    def _end(self, name: str) -> None:
        if name == "a" and self._link is not None:
            self._finish_link(*self._link)
            self._link = None
        elif name in ("ul", "ol") and self._lists:
            self._lists.pop()
        elif name == "pre" and self._pre:
            self._pre -= 1
            if self.markdown:
                self.out.append("```" if self.out[-1].endswith("\n") else "\n```")
                self._newlines = 0
                self._break(2)

    def _item(self) -> None:
        depth = min(len(self._lists), _DEEPEST_LIST)
        mark = "- "
        if self._lists and self._lists[-1]:
            mark = f"{self._lists[-1]}. "
            self._lists[-1] += 1
        self._put("  " * (depth - 1) + mark)

    def _target(self, href: str | None) -> str:
        if not href or href.startswith("#"):
            return ""
        try:
            url = urljoin(self.base, href.strip())
        except ValueError:
            return ""
        return url if url.startswith(("http://", "https://", "mailto:")) else ""

    def _finish_link(self, url: str, start: int) -> None:
        words = "".join(self.out[start:]).strip()
        if not url or not words or url == words:
            return
        if self.markdown and "\n" not in words:
            before = " " if self.out[start].startswith(" ") else ""
            self.out[start:] = [f"{before}[{words}]({url})"]
        else:
            self._put(f" ({url})")

    def _put(self, text: str) -> None:
        if self._space and not self._newlines:
            text = " " + text
        self._space = False
        self.out.append(text)
        self._newlines = 0

    def _break(self, lines: int) -> None:
        self._space = False
        if self._newlines < lines:
            self.out.append("\n" * (lines - self._newlines))
            self._newlines = lines


def _unseen(tag: Tag) -> bool:
    if tag.name in _UNSEEN:
        return True
    if not tag.attributes:
        return False
    if tag.attribute("hidden") is not None or tag.attribute("aria-hidden") == "true":
        return True
    style = tag.attribute("style")
    return style is not None and _HIDDEN.search(style) is not None
