"""How answers are written: one shape, and the headers that keep browsers from guessing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from toolcrib.core.result import ToolResult
from toolcrib.reasons import reason as reason_row
from toolcrib.transports.faults import Fault

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

encode = msgspec.json.encode
NO_STORE = (b"cache-control", b"no-store")
SAFETY: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
]
"""On every answer that is no page."""
JSON = (b"content-type", b"application/json")
_PLAIN = [JSON, NO_STORE, *SAFETY]
JSON_HEAD = b"".join(b"%s: %s\r\n" % pair for pair in _PLAIN) + b"content-length: "
"""The same as bytes, up to the value of the length."""


async def reply(
    send: Send,
    status: int,
    body: bytes,
    headers: Headers | None = None,
    *,
    kind: bytes = JSON[1],
    cached: bool = False,
    safety: Headers = SAFETY,
) -> None:
    """Send a whole answer; `headers` come beside the usual ones."""
    found: Headers = [*safety, *(headers or ())]
    if not cached:
        found.append(NO_STORE)
    if status not in (204, 304):
        found += [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": found})
    await send({"type": "http.response.body", "body": body})


async def reply_fault(send: Send, fault: Fault, headers: Headers | None = None) -> None:
    """Send what is wrong with a request."""
    await reply(send, fault.http, encode(fault.result()), [*(headers or ()), *extra(fault)])


def extra(fault: Fault) -> Headers:
    """The headers that belong to a fault."""
    if fault.reason == "unauthenticated":
        return [(b"www-authenticate", b'Bearer realm="toolcrib"')]
    if fault.reason in ("request_too_large", "request_timeout"):
        return [(b"connection", b"close")]
    if fault.row.retry == "yes" and fault.http in (429, 503):
        return [(b"retry-after", b"1")]
    return []


def status_of(result: ToolResult) -> int:
    """The HTTP status of a call's ending."""
    if result.error is None:
        return 200
    return reason_row(result.error.reason, result.status).http


def retry_headers(result: ToolResult) -> Headers:
    """When to come again, where that is known."""
    if result.error is None or result.error.retry_after is None:
        return []
    return [(b"retry-after", b"%d" % max(1, -int(-result.error.retry_after // 1)))]


def refuse(fault: Fault) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """An application that answers everything with this fault."""

    async def refused(_scope: Scope, _receive: Receive, send: Send) -> None:
        await reply_fault(send, fault, [(b"connection", b"close")])

    return refused
