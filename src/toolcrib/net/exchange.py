"""What is asked and what is answered, and where a redirect leads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from toolcrib.core.spec import Effect
from toolcrib.errors import Denial
from toolcrib.net.url import Url, join_url

REDIRECTS = frozenset({301, 302, 303, 307, 308})
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that only ask."""
METHODS = SAFE | {"POST", "PUT", "PATCH", "DELETE"}
# All that another origin is told; credentials hide in headers of any name.
_FOR_ANYBODY = frozenset({"accept", "accept-language", "content-type", "user-agent"})
_ABOUT_BODY = frozenset({"content-type", "content-language"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one request may take, redirects included."""

    max_bytes: int = 10_000_000
    """Bytes of a body, counted after decompressing."""
    error_bytes: int = 64 * 1024
    """Bytes of the body of an answer that says it failed; the rest is left."""
    total: float | None = 60.0
    """Seconds from the first look-up to the last byte."""
    connect: float = 10.0
    """Seconds for finding, connecting and securing one connection."""
    pause: float | None = None
    """Seconds without a byte; None leaves it to `total`."""
    redirects: int = 3
    cut: bool = False
    """Whether a longer body is cut (and marked so) instead of being a failure."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One question to a server."""

    method: str
    url: Url
    headers: dict[str, str] = {}
    body: bytes | None = None
    repeatable: bool = False
    """Whether sending it twice does no more than sending it once."""

    @property
    def acts(self) -> bool:
        """Whether a server that gets it may do something that is not to be done twice."""
        return not self.repeatable and self.method not in SAFE

    @property
    def expects_body(self) -> bool:
        """Whether the length that its answer states is that of a body which follows."""
        return self.method != "HEAD"

    @property
    def words(self) -> str:
        """How messages name it; without the query, which may hold credentials."""
        return f"{self.method} {self.url.without_query}"


class Sending:
    """Whether a request is on its way: a server that got it may act on it, answered or not."""

    __slots__ = ("open",)

    def __init__(self) -> None:
        self.open = False


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """A server's answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case; of a header given twice, the values joined by commas."""
    body: bytes
    url: Url
    """Where it came from, after redirects."""
    cut: bool = False
    """The body was longer than the limit."""

    @property
    def content_type(self) -> str:
        """The media type alone, in lower case; empty when the server said none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


def effects_of(method: str) -> frozenset[Effect]:
    """What a request can do, by its method: GET and HEAD read; POST, PUT and PATCH write and send
    data out; DELETE also destroys."""
    if method in SAFE:
        return frozenset({"read"})
    if method == "DELETE":
        return frozenset({"write", "destructive", "egress"})
    return frozenset({"write", "egress"})


def redirected(request: Request, status: int, location: str) -> Request:
    """The request that a redirect asks for. Across origins it carries no credentials and no body,
    and it never leads from https to http."""
    url = join_url(request.url, location)
    if request.url.scheme == "https" and url.scheme == "http":
        raise Denial(
            "url_not_allowed", f"{request.words} redirects from https to http ({url.origin})"
        )
    headers, same = request.headers, url.origin == request.url.origin
    if not same:
        headers = {k: v for k, v in headers.items() if k.lower() in _FOR_ANYBODY}
    as_get = status == 303 or (status in (301, 302) and request.method == "POST")
    if as_get and request.method != "HEAD":
        headers = {k: v for k, v in headers.items() if k.lower() not in _ABOUT_BODY}
        return msgspec.structs.replace(request, method="GET", url=url, headers=headers, body=None)
    if not same and request.method not in SAFE:
        raise Denial(
            "url_not_allowed",
            f"{request.words} redirects to {url.origin}, which would be told what was sent",
        )
    return msgspec.structs.replace(request, url=url, headers=headers)
