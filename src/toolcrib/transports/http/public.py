"""What needs no credentials: signs of life, the API's description, and where things are."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping

from toolcrib.core.serving import HttpSettings
from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault
from toolcrib.transports.http.answers import (
    SAFETY,
    Headers,
    Scope,
    Send,
    encode,
    reply,
    reply_fault,
)
from toolcrib.transports.http.page import PAGE_SAFETY, index_page, reference_page
from toolcrib.transports.http.query import read_query
from toolcrib.transports.http.rest import matches
from toolcrib.transports.methods.host import health
from toolcrib.transports.service import Service

_VERBS = b"GET, HEAD, OPTIONS"
_CHECK_STORE = 2.0
"""Seconds that the store may take to say that it is there."""


class Public:
    """Answers the addresses beside the methods."""

    def __init__(self, service: Service, settings: HttpSettings) -> None:
        self._service = service
        self.settings = settings
        self._kept: dict[str, bytes] = {}
        """What is made once: the description and its page."""
        self._pages: dict[str, Callable[[Mapping[bytes, bytes], Send], Awaitable[None]]] = {
            "/": self._index,
            "/docs": self._docs,
            "/v1/openapi.json": self._openapi,
            "/healthz": self._alive,
            "/readyz": self._ready,
        }

    async def answer(self, scope: Scope, head: Mapping[bytes, bytes], send: Send) -> bool:
        """Whether the address is one of these; then it was answered."""
        page = self._pages.get(scope["path"])
        if page is None or (scope["path"] == "/docs" and not self.settings.docs):
            return False
        if await _verb(scope, send):
            await page(head, send)
        return True

    async def metrics(self, caller: Caller, scope: Scope, send: Send) -> None:
        """The host's numbers, for those who may see what others did."""
        if not await _verb(scope, send):
            return
        caller.need("audit")
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

        from toolcrib.observe.prometheus import MetricsCollector

        registry = CollectorRegistry(auto_describe=False)
        registry.register(MetricsCollector(self._service.host.metrics))
        kind = CONTENT_TYPE_PLAIN_0_0_4.encode()
        await reply(send, 200, generate_latest(registry), kind=kind)

    async def _alive(self, _head: Mapping[bytes, bytes], send: Send) -> None:
        await reply(send, 200, b'{"status":"ok"}')

    async def _ready(self, _head: Mapping[bytes, bytes], send: Send) -> None:
        """Whether calls would be taken now. A provider that is down keeps nobody else out."""
        state = health(self._service).status
        trail = next(c.state for c in health(self._service).checks if c.name == "trail")
        if state != "stopping" and trail == "ok":
            try:
                async with asyncio.timeout(_CHECK_STORE):
                    await self._service.parts.store.flush()
            except Exception:
                trail = "down"
        ready = state != "stopping" and trail == "ok"
        status = "ready" if ready else "stopping" if state == "stopping" else "trail_unavailable"
        await reply(send, 200 if ready else 503, encode({"status": status}))

    async def _index(self, head: Mapping[bytes, bytes], send: Send) -> None:
        if b"text/html" in head.get(b"accept", b""):
            await self._page(index_page(docs=self.settings.docs).encode(), head, send)
            return
        found = {
            "name": "toolcrib",
            "api": "/v1",
            "openapi": "/v1/openapi.json",
            "docs": "/docs" if self.settings.docs else None,
            "events": "/v1/events",
            "websocket": "/v1/ws",
            "health": "/healthz",
            "ready": "/readyz",
            "metrics": "/metrics",
        }
        await reply(send, 200, encode(found), [(b"vary", b"Accept")])

    async def _docs(self, head: Mapping[bytes, bytes], send: Send) -> None:
        from toolcrib.transports.http.openapi import describe

        if "docs" not in self._kept:
            self._kept["docs"] = reference_page(describe()).encode()
        await self._page(self._kept["docs"], head, send)

    async def _page(self, body: bytes, head: Mapping[bytes, bytes], send: Send) -> None:
        kind = b"text/html; charset=utf-8"
        await _tagged(body, head, send, kind, PAGE_SAFETY)

    async def _openapi(self, head: Mapping[bytes, bytes], send: Send) -> None:
        from toolcrib.transports.http.openapi import describe

        if "openapi" not in self._kept:
            self._kept["openapi"] = encode(describe())
        await _tagged(self._kept["openapi"], head, send, b"application/json", SAFETY)


async def _tagged(
    body: bytes, head: Mapping[bytes, bytes], send: Send, kind: bytes, safety: Headers
) -> None:
    tag = b'"%s"' % hashlib.sha256(body).hexdigest()[:32].encode()
    found = [(b"cache-control", b"no-cache"), (b"etag", tag), (b"vary", b"Accept")]
    if matches(head.get(b"if-none-match"), tag):
        await reply(send, 304, b"", found, cached=True, safety=safety)
    else:
        await reply(send, 200, body, found, kind=kind, cached=True, safety=safety)


async def _verb(scope: Scope, send: Send) -> bool:
    """Whether the address is read; anything else is answered here."""
    verb: str = scope["method"]
    if verb in ("GET", "HEAD"):
        read_query(scope["query_string"], ())
        return True
    if verb == "OPTIONS":
        await reply(send, 204, b"", [(b"allow", _VERBS)])
    else:
        fault = Fault("method_not_allowed", "this address can only be read")
        await reply_fault(send, fault, [(b"allow", _VERBS)])
    return False
