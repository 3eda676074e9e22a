"""The tool `fetch`: read a page or document from the web."""

from __future__ import annotations

import asyncio
import codecs
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

import msgspec

from toolcrib.core.context import ToolContext
from toolcrib.core.decision import Decision
from toolcrib.core.policy import ToolPolicy
from toolcrib.core.protocols import Workshop
from toolcrib.core.spec import Effect, ToolTemplate
from toolcrib.core.units import duration, size
from toolcrib.errors import ConfigError, Denial, ToolFailure
from toolcrib.net.addresses import private_from
from toolcrib.net.client import Client, missing_library
from toolcrib.net.exchange import Limits, Request, Response
from toolcrib.net.guard import Guard, host_rules
from toolcrib.net.reply import charset_of, check_status, decoded
from toolcrib.net.url import parse_url
from toolcrib.tools.html_text import readable

_HTML = ("text/html", "application/xhtml+xml")
_META = re.compile(rb"<meta[^>]{0,300}?charset\s*=\s*[\"']?([A-Za-z0-9_-]{1,40})", re.IGNORECASE)
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_LONG = 64 * 1024
_ACCEPT = {"Accept": "text/html, text/*;q=0.9, application/json;q=0.9, */*;q=0.5"}


class FetchPolicy(ToolPolicy):
    """Which URLs may be read, and how much of them."""

    allowed_hosts: list[str] = ["*"]  # noqa: RUF012
    """Names such as `example.com`, `*.example.com` or `example.com:8443`; `*` is any host."""
    denied_hosts: list[str] = []  # noqa: RUF012
    """Hosts that are refused even if they are allowed."""
    allow_private: bool | list[str] = False
    """Whether hosts may lead to loopback and private addresses; or a list of networks."""
    allowed_schemes: list[Literal["http", "https"]] = ["http", "https"]  # noqa: RUF012
    allowed_content_types: list[str] = [  # noqa: RUF012
        "text/*",
        "application/json",
        "application/*+json",
        "application/xml",
        "application/*+xml",
        "application/javascript",
        "application/yaml",
        "application/toml",
    ]
    max_bytes: int | str = "5MB"
    """Bytes that are read of a document; a longer one is cut."""
    max_chars: int = 50_000
    """Characters that one call gives; `start` reads on."""
    timeout: float | str = "30s"
    """For the whole of it, redirects included."""

    def __init__(self, **knobs: Any) -> None:
        super().__init__(**knobs)
        self.guard()
        self.limits()
        if self.max_chars < 1:
            raise ConfigError("max_chars: must be 1 or more", key="max_chars")

    def limits(self) -> Limits:
        """How much is read, and for how long."""
        key, measured = "max_bytes", 0
        try:
            measured = size(self.max_bytes)
            key = "timeout"
            return Limits(max_bytes=measured, total=duration(self.timeout), cut=True)
        except ValueError as error:
            raise ConfigError(f"{key}: {error}", key=key) from None

    def guard(self) -> Guard:
        """The rules as the client keeps them."""
        return Guard(
            host_rules(self.allowed_hosts, "allowed_hosts"),
            denied=host_rules(self.denied_hosts, "denied_hosts"),
            private=private_from(self.allow_private, "allow_private"),
            schemes=frozenset(self.allowed_schemes),
        )

    def check(self, ctx: ToolContext) -> Decision | None:
        """Deny a URL for what is written in it; where it leads is found out on the way."""
        try:
            self.guard().check(parse_url(ctx.arguments["url"]))
        except Denial as error:
            return self.deny(error.reason, error.message)
        return None

    def allowed_effects(self) -> frozenset[Effect]:
        """It reads; and a URL can carry data out, so it sends too."""
        return frozenset({"read", "egress"})


def build(policy: FetchPolicy, workshop: Workshop | None = None) -> Callable[..., Any]:
    """The function; each call is held to the policy that is in force for it."""
    if cure := missing_library():
        raise ConfigError("fetch: the library for HTTP is not installed", cure=cure)

    async def fetch(
        url: str,
        ctx: ToolContext,
        format: Literal["text", "markdown", "raw"] = "text",
        start: Annotated[int, msgspec.Meta(ge=0)] = 0,
    ) -> dict[str, Any]:
        """Read a web page or document.

        Args:
            url: An http or https address.
            format: HTML as readable text, as markdown, or raw as it was sent.
            start: The character to begin with, to read on in a long document.
        """
        held = ctx.policy if isinstance(ctx.policy, FetchPolicy) else policy
        request = Request(method="GET", url=parse_url(url), headers=_ACCEPT, repeatable=True)
        async with Client() as client:
            response = await client.send(request, held.guard(), held.limits())
        check_status(request, response)
        kind = _kind(response)
        if not any(fnmatchcase(kind, wanted.lower()) for wanted in held.allowed_content_types):
            ctx.deny("content_type_not_allowed", f"{request.words} is of type {kind}")
        if b"\0" in response.body[:4096] and not response.body.startswith(tuple(_MARKS)):
            ctx.deny("content_type_not_allowed", f"{request.words} is not text but binary data")
        if len(response.body) > _LONG:
            # Words of a long page take a while, and other calls must not wait for them.
            title, text = await asyncio.to_thread(_words, response, kind, format)
        else:
            title, text = _words(response, kind, format)
        return _window(response, kind, title, text, start, held)

    return fetch


def _kind(response: Response) -> str:
    """The content type; a server that says none may have sent HTML or plain text."""
    if response.content_type:
        return response.content_type
    beginning = response.body[:1024].lstrip().lower()
    return "text/html" if beginning.startswith((b"<!doctype html", b"<html")) else "text/plain"


def _words(response: Response, kind: str, format: str) -> tuple[str, str]:
    text = decoded(response.body, _charset(response, kind))
    if kind not in _HTML or format == "raw":
        return "", text
    return readable(text, str(response.url), markdown=format == "markdown")


def _charset(response: Response, kind: str) -> str:
    for mark, charset in _MARKS.items():
        if response.body.startswith(mark):
            return charset
    said = charset_of(response)
    if said is None and kind in _HTML:
        meta = _META.search(response.body[:2048])
        said = meta[1].decode() if meta else None
    return said or "utf-8"


def _window(
    response: Response, kind: str, title: str, text: str, start: int, held: FetchPolicy
) -> dict[str, Any]:
    """The characters from `start` on, as many as are allowed; a cut says so and how to go on."""
    shown = text[start : start + held.max_chars]
    end = start + len(shown)
    found: dict[str, Any] = {"url": str(response.url), "content_type": kind}
    if title:
        found["title"] = title
    if start > len(text):
        raise ToolFailure(f"start is {start}, and the document has {len(text)} characters")
    if end < len(text):
        shown += f"… [cut: characters {start} to {end} of {len(text)}; go on with start={end}]"
        found["next_start"] = end
    elif response.cut:
        shown += f"… [cut: the document goes on, and {held.max_bytes} of it are read]"
    return {**found, "text": shown}


TEMPLATE = ToolTemplate(
    name="fetch",
    policy=FetchPolicy,
    constructor=build,
    description="Read a web page or document.",
)
