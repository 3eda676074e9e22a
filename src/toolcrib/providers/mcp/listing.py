"""Reading a server's lists, page by page and within bounds."""

from __future__ import annotations

import asyncio
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, cast

from toolcrib.core.spec import ToolSpec
from toolcrib.errors import SpecError, ToolFailure
from toolcrib.protocol.mcp.definitions import relay_specs, spec_of
from toolcrib.protocol.mcp.headers import MARK, Mirror, mirrors
from toolcrib.providers.mcp.exchange import encode
from toolcrib.providers.mcp.settings import McpSettings
from toolcrib.providers.mcp.upstream import Upstream

MOST_PAGES = 1000
MOST_BYTES = 64 << 20
_PROBLEMS = 100
_SLICE = 200
"""Definitions that are read before others have their turn."""
_MARK = MARK.encode()


class PlainTool(NamedTuple):
    """A tool whose calls say nothing but its name and their arguments."""

    name: str
    """Its name at the server."""
    repeatable: bool


class Listing:
    """The tools of a server as they were listed once."""

    def __init__(self) -> None:
        self.specs: dict[str, ToolSpec] = {}
        self.mirrors: dict[str, tuple[Mirror, ...]] = {}
        """The arguments that HTTP headers repeat, by the tool's name here."""
        self.relays: dict[str, str] = {}
        """The tools that stand for resources and prompts."""
        self.problems: list[str] = []
        self._plain: dict[str, PlainTool | None] = {}

    def plain(self, spec: ToolSpec) -> PlainTool | None:
        """The tool, if its calls have nothing special about them."""
        try:
            return self._plain[spec.name]
        except KeyError:
            config = spec.config
            special = "relay" in config or spec.name in self.mirrors
            if special or "execution" in config["definition"]:
                found = None
            else:
                found = PlainTool(config["tool"], spec.repeatable)
            self._plain[spec.name] = found
            return found

    def add(self, raw: Any, settings: McpSettings, *, marked: bool) -> None:
        """Take in one definition, or say what is wrong with it. `marked` says that arguments may
        be meant for headers."""
        try:
            spec = spec_of(settings.name, settings.prefix, raw, settings.beliefs)
            name = spec.config["tool"]
            if not _wanted(name, settings):
                return
            if spec.name in self.specs:
                self.problem(f"{spec.name}: the server lists it twice; the first one counts")
                return
            if marked:
                try:
                    found = mirrors(spec.input_schema)
                except ValueError as error:
                    raise SpecError(f"{name}: {error}") from None
                if found:
                    self.mirrors[spec.name] = found
            self.specs[spec.name] = spec
        except SpecError as error:
            self.problem(f"a tool cannot be used: {error}")

    def problem(self, words: str) -> None:
        """Note what is wrong; not without end."""
        if len(self.problems) < _PROBLEMS:
            self.problems.append(words)
        elif len(self.problems) == _PROBLEMS:
            self.problems.append("… and more")


async def list_tools(upstream: Upstream, settings: McpSettings) -> Listing:
    """What the server has now. Raises what the session raises, and `ToolFailure` for a list
    without end."""
    listing = Listing()
    session = upstream.session
    if isinstance(session.capabilities.get("tools"), dict):
        found, text = await _pages(upstream, "tools/list", "tools")
        mirroring = session.era == "modern" and not session.wire.shared
        marked = mirroring and any(_MARK in page for page in text)
        for count, raw in enumerate(found, 1):
            listing.add(raw, settings, marked=marked)
            if count % _SLICE == 0:
                await asyncio.sleep(0)
    for spec in relay_specs(settings.name, session.capabilities, listing.specs):
        listing.specs[spec.name] = spec
        listing.relays[spec.annotations["toolcrib/relay"]] = spec.name
    return listing


async def _pages(upstream: Upstream, method: str, member: str) -> tuple[list[Any], list[bytes]]:
    """What the pages hold, and the text of each."""
    found: list[Any] = []
    text: list[bytes] = []
    seen: set[str] = set()
    cursor: str | None = None
    size = 0
    for _ in range(MOST_PAGES):
        page = await upstream.ask(method, {} if cursor is None else {"cursor": cursor})
        items: Any = page.get(member)
        if not isinstance(items, list):
            raise _endless(f"the server's answer to {method} has no {member}")
        found += cast("list[Any]", items)
        text.append(encode(items))
        size += len(text[-1])
        if size > MOST_BYTES:
            raise _endless(f"the server's list of {member} is larger than {MOST_BYTES} bytes")
        following: Any = page.get("nextCursor")
        if following is None:
            return found, text
        if not isinstance(following, str) or following in seen:
            raise _endless(f"the server's list of {member} comes round to the same page again")
        seen.add(following)
        cursor = following
    raise _endless(f"the server's list of {member} has more than {MOST_PAGES} pages")


def _endless(words: str) -> ToolFailure:
    return ToolFailure(words, reason="upstream_error")


def _wanted(name: str, settings: McpSettings) -> bool:
    return any(fnmatchcase(name, glob) for glob in settings.include) and not any(
        fnmatchcase(name, glob) for glob in settings.exclude
    )
