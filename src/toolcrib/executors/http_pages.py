"""Answers that come in pages: where the next one is, and when to stop."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

from msgspec.structs import replace

from toolcrib.errors import Denial, ToolFailure
from toolcrib.net.encoding import query_text, scalar
from toolcrib.net.exchange import Request, Response
from toolcrib.net.reply import json_of, pointed
from toolcrib.net.settings import Settings
from toolcrib.net.url import join_url, parse_url

Send = Callable[[Request, int], Awaitable[tuple[Request, Response]]]
"""Sends a request whose answer may have so many bytes; gives the request as it was sent."""

_NEXT = re.compile(r'<([^<>]*)>((?:\s*;\s*[^,;"=]+(?:=(?:"[^"]*"|[^,;"]*))?)*)')
_REL = re.compile(r';\s*rel\s*=\s*"?(?:[^";]*\s)?next(?:\s[^";]*)?"?\s*(?:;|$)', re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pages:
    """How a tool's answers are paged."""

    way: str
    """`link` follows a header, `pointer` a URL in the body, `cursor` puts a value of the body into
    the query, `page` counts up."""
    pointer: str = ""
    parameter: str = ""
    start: int = 1
    items: str = ""
    """Where the items are in the body; empty when the body is the list."""
    limit: int = 5

    async def collect(self, first: Request, send: Send, max_bytes: int) -> dict[str, Any]:
        """The items of up to `limit` pages, and whether there are more."""
        items: list[Any] = []
        request, seen, pages, left = first, set[str](), 0, max_bytes
        if self.way == "page":
            request = _with(first, self.parameter, self.start)
        while True:
            if str(request.url) in seen:
                raise ToolFailure(f"{first.words} pages in circles", reason="upstream_error")
            seen.add(str(request.url))
            sent, response = await send(request, left)
            left -= len(response.body)
            body = json_of(sent, response)
            found: Any = pointed(sent, body, self.items) if self.items else body
            if not isinstance(found, list):
                raise ToolFailure(
                    f"{sent.words} answered without a list at {self.items or 'its top'}",
                    reason="upstream_error",
                )
            new = cast("list[Any]", found)
            items += new
            pages += 1
            following = self._next(request, response, body, pages, bool(new))
            if following is None or pages == self.limit or left <= 0:
                return {"items": items, "pages": pages, "more": following is not None}
            request = following

    def _next(
        self, request: Request, response: Response, body: Any, pages: int, some: bool
    ) -> Request | None:
        if self.way == "page":
            return _with(request, self.parameter, self.start + pages) if some else None
        if self.way == "link":
            reference: Any = next_link(response.headers.get("link", ""))
        else:
            try:
                reference = pointed(request, body, self.pointer)
            except ToolFailure:
                reference = None
        if reference is None or reference == "" or reference is False:
            return None
        if self.way == "cursor":
            return _with(request, self.parameter, reference)
        url = join_url(response.url, str(reference))
        if url.origin != request.url.origin:
            # It would be asked with the credentials of the first.
            raise Denial("url_not_allowed", f"the next page is at another place, {url.origin}")
        return replace(request, url=url)


def next_link(header: str) -> str | None:
    """The reference with `rel="next"` in a Link header."""
    for match in _NEXT.finditer(header):
        if _REL.search(match[2]):
            return match[1]
    return None


def pages_from(settings: Settings | None) -> Pages | None:
    """What a setting `pagination` says."""
    if settings is None:
        return None
    settings.only("next", "items", "limit")
    items = settings.values.get("items") or ""
    if items:
        check_pointer(settings, "items")
    limit = settings.count("limit", 5, 100)
    if settings.values.get("next") == "link":
        return Pages(way="link", items=items, limit=limit)
    if not isinstance(settings.values.get("next"), dict):
        settings.wrong(
            "next",
            "must say where the next page is",
            "Write link, {pointer: /next}, {cursor: /next, query: cursor} or {page: page}",
        )
    how = cast("Settings", settings.part("next")).only(
        "pointer", "cursor", "query", "page", "start"
    )
    if how.has("page"):
        how.only("page", "start")
        start: Any = how.values.get("start", 1)
        if type(start) is not int or start not in (0, 1):
            how.wrong("start", "must be 0 or 1")
        return Pages(way="page", parameter=how.need("page"), start=start, items=items, limit=limit)
    if how.has("cursor"):
        how.only("cursor", "query")
        pointer = check_pointer(how, "cursor")
        parameter = how.need("query")
        return Pages(way="cursor", pointer=pointer, parameter=parameter, items=items, limit=limit)
    how.only("pointer")
    return Pages(way="pointer", pointer=check_pointer(how, "pointer"), items=items, limit=limit)


def check_pointer(settings: Settings, name: str) -> str:
    """A setting that is a JSON pointer."""
    pointer = settings.need(name)
    if not pointer.startswith("/"):
        settings.wrong(name, "is not a JSON pointer", "Write it as /data/items")
    return pointer


def _with(request: Request, parameter: str, value: Any) -> Request:
    """The request with one parameter of its query set anew."""
    path, _, query = request.url.target.partition("?")
    new = query_text([(parameter, scalar(value))])
    name = new.partition("=")[0]
    kept = [pair for pair in query.split("&") if pair and pair.partition("=")[0] != name]
    url = request.url._replace(target=f"{path}?{'&'.join([*kept, new])}")
    return replace(request, url=parse_url(str(url)))
