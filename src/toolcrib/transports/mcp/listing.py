"""`tools/list`: pages of what a caller may call, made once until tools or rules change."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from toolcrib.catalog.formats.mcp import mcp
from toolcrib.core.principal import Principal
from toolcrib.core.spec import ToolSpec
from toolcrib.host.host import ToolHost
from toolcrib.host.session import Session
from toolcrib.protocol.mcp.definitions import KIND, RELAY, shown
from toolcrib.transports.caller import Caller
from toolcrib.transports.mcp.asked import Endpoint
from toolcrib.transports.mcp.faults import invalid
from toolcrib.transports.mcp.searching import listed
from toolcrib.transports.mcp.standing import standing

MOST_KEPT = 64
"""Lists kept: one for each principal, profile and era."""
MOST_BYTES = 33_554_432
"""Their pages in all; lists that nobody asked for lately make room."""
_CURSOR = b"tools\n"
_LONGEST_CURSOR = 512


_Key = tuple[Principal, str | None, int, bool]
"""The principal, the profile, how many tools a page has, and whether the era is the modern one."""


class Page(msgspec.Struct, frozen=True):
    """Some tools of a list."""

    tools: msgspec.Raw
    """JSON already."""
    next: str | None
    """The cursor of the page behind; None for the last one."""
    size: int
    """Bytes of the tools."""


class _List:
    """What one caller may call, as far as it was asked for."""

    __slots__ = ("books", "kept", "names", "pages", "revision", "size")

    def __init__(self, revision: int, books: object, names: list[str]) -> None:
        self.revision = revision
        self.books = books
        self.names = names
        """All that there are, in order; which of them it may call is found out page by page."""
        self.pages: dict[str | None, Page] = {}
        """By the name after which they begin."""
        self.size = 0
        """Bytes of these pages."""
        self.kept = False
        """Whether it is there for the next one who asks."""


class Listing:
    """Lists tools. The order is that of the names, and nothing depends on the connection."""

    def __init__(self, host: ToolHost) -> None:
        self._host = host
        self._kept: OrderedDict[_Key, _List] = OrderedDict()
        self._size = 0
        """Bytes of all pages that are kept."""

    def page(
        self, caller: Caller, endpoint: Endpoint, cursor: Any, size: int, *, modern: bool
    ) -> Page:
        """The tools after the cursor. Raises `McpFault`."""
        after = None if cursor is None else _name(cursor)
        host = self._host
        host.load()
        who, profile, session, _, _ = standing(host, caller, endpoint)
        found = self._list(who, profile, session, size, modern)
        page = found.pages.get(after)
        if page is None:
            page = self._cut(found, who, profile, session, after, size, modern)
            # No more than it has: a client may make up cursors.
            if len(found.pages) <= len(found.names) // size and self._has_room(found, page.size):
                found.pages[after] = page
        return page

    def _list(
        self,
        who: Principal,
        profile: str | None,
        session: Session | None,
        size: int,
        modern: bool,
    ) -> _List:
        host = self._host
        catalog, books = host.catalog, host.planner.books
        # Tools of a session's own, and gates that may answer differently each time, are not kept.
        lasting = not host.planner.gates and (session is None or not session.entries)
        key = (who, profile, size, modern)
        kept = self._kept.get(key) if lasting else None
        if kept is not None and kept.revision == catalog.revision and kept.books is books:
            self._kept.move_to_end(key)
            return kept
        revision = catalog.revision
        names = listed(host, who, profile, session)
        if names is None:
            names = [*catalog.snapshot(), *(() if session is None else session.entries)]
        made = _List(revision, books, sorted(set(names)))
        if lasting:
            if key in self._kept:
                self._drop(key)
            self._kept[key] = made
            made.kept = True
            while len(self._kept) > MOST_KEPT:
                self._drop(next(iter(self._kept)))
        return made

    def _has_room(self, whole: _List, size: int) -> bool:
        """Make room for a page of a list that is kept, and count it; false when there is none."""
        while whole.kept and self._size + size > MOST_BYTES:
            oldest = next(iter(self._kept))
            if self._kept[oldest] is whole:
                return False
            self._drop(oldest)
        if whole.kept:
            whole.size += size
            self._size += size
        return whole.kept

    def _drop(self, key: _Key) -> None:
        gone = self._kept.pop(key)
        gone.kept = False
        self._size -= gone.size

    def _cut(
        self,
        whole: _List,
        who: Principal,
        profile: str | None,
        session: Session | None,
        after: str | None,
        size: int,
        modern: bool,
    ) -> Page:
        """One page. Its cursor is its last name, so that tools which come or go meanwhile neither
        repeat nor hide others."""
        names, plan_of = whole.names, self._host.calling.plan
        found: list[dict[str, Any]] = []
        last = after
        for name in names[0 if after is None else bisect_right(names, after) :]:
            plan = plan_of(name, profile, session)
            if plan is None or not plan.listed(who) or RELAY in plan.spec.annotations:
                continue
            if len(found) == size:
                return _page(found, _cursor(last or ""))
            found.append(described(plan.spec, modern=modern))
            last = name
        return _page(found, None)


def _page(tools: list[dict[str, Any]], following: str | None) -> Page:
    text = _encode(tools)
    return Page(msgspec.Raw(text), following, len(text))


def described(spec: ToolSpec, *, modern: bool) -> dict[str, Any]:
    """A tool as clients list it: that of a server behind us as it came, ours from its spec."""
    if spec.kind == KIND:
        return shown(spec, modern=modern)
    made = mcp(spec)
    if modern and spec.output_schema is not None:
        made["outputSchema"] = spec.output_schema
    return made


def _plainly(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    raise TypeError(f"{type(value).__name__} has no place in a list of tools")


_encode = msgspec.json.Encoder(decimal_format="number", enc_hook=_plainly).encode


def _cursor(name: str) -> str:
    return urlsafe_b64encode(_CURSOR + name.encode()).decode().rstrip("=")


def _name(cursor: Any) -> str:
    """The name that a cursor stands for. Raises `McpFault`."""
    if isinstance(cursor, str) and len(cursor) <= _LONGEST_CURSOR:
        try:
            raw = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
            name = raw.removeprefix(_CURSOR).decode()
        except (binascii.Error, ValueError):
            name = ""
        if name and _cursor(name) == cursor:
            return name
    raise invalid("tools/list: the cursor is not one of ours. Ask without a cursor")
