"""Methods over HTTP: the query or the body becomes the request, the answer becomes the body."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Mapping
from typing import Any

import msgspec

from toolcrib.core.result import ToolResult
from toolcrib.core.serving import HttpSettings
from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault
from toolcrib.transports.http.answers import (
    Headers,
    Receive,
    Send,
    encode,
    reply,
    retry_headers,
    status_of,
)
from toolcrib.transports.http.body import check_type, parse_body, read_body
from toolcrib.transports.http.exchange import Exchange
from toolcrib.transports.http.query import read_query
from toolcrib.transports.http.routes import Place
from toolcrib.transports.http.waiting import checked_wait, wanted_wait
from toolcrib.transports.models import CallState
from toolcrib.transports.service import Service
from toolcrib.transports.wire import Method

CACHED: Headers = [(b"cache-control", b"private, no-cache"), (b"vary", b"Authorization")]
"""A client may keep it, and has to ask whether it is still so."""


class Rest:
    """Answers every method but the call."""

    def __init__(self, service: Service, settings: HttpSettings) -> None:
        self._service = service
        self.settings = settings

    async def answer(
        self,
        caller: Caller,
        verb: str,
        place: Place,
        values: Mapping[str, str],
        head: Mapping[bytes, bytes],
        query_string: bytes,
        exchange: Exchange | None,
        receive: Receive,
        send: Send,
    ) -> None:
        """One request. Raises `Fault`."""
        method = place.method
        assert method is not None  # noqa: S101 - streams are answered elsewhere
        if verb == "POST":
            params = await self._from_body(place, head, query_string, receive)
        else:
            params = _from_query(method, read_query(query_string, place.names), values)
        params.update(values)
        if method.name == "calls.get":
            await self._call_state(caller, params, head, exchange, send)
            return
        answer = await self._service.handle(caller, method.name, params)
        body = encode(answer)
        if verb == "POST" or verb == "DELETE":
            await reply(send, 200, body)
            return
        tag = b'"%s"' % hashlib.sha256(body).hexdigest()[:32].encode()
        headers = [*CACHED, (b"etag", tag)]
        if matches(head.get(b"if-none-match"), tag):
            await reply(send, 304, b"", headers, cached=True)
        else:
            await reply(send, 200, body, headers, cached=True)

    async def _from_body(
        self, place: Place, head: Mapping[bytes, bytes], query_string: bytes, receive: Receive
    ) -> dict[str, Any]:
        read_query(query_string, ())
        body = await read_body(receive, head, self.settings)
        if not body:
            return {}
        check_type(head)
        given = parse_body(body, self.settings)
        for name in given:
            if name not in place.names:
                raise Fault("invalid_request", f"the body has no place for {name[:64]!r}")
        return given

    async def _call_state(
        self,
        caller: Caller,
        params: dict[str, Any],
        head: Mapping[bytes, bytes],
        exchange: Exchange | None,
        send: Send,
    ) -> None:
        """How a call ended, or that it has not; a client that leaves is waited for no longer."""
        if "wait" in params:
            params["wait"] = checked_wait(params["wait"], self.settings)
        else:
            wish = wanted_wait({}, head, self.settings)
            params["wait"] = 0.0 if wish is None else wish[0]
        task = asyncio.current_task()
        left = False

        def leave() -> None:
            nonlocal left
            left = True
            if task is not None:
                task.cancel()

        if exchange is not None:
            exchange.gone = leave
        try:
            found = await self._service.handle(caller, "calls.get", params)
        except asyncio.CancelledError:
            if left:
                return
            raise
        finally:
            if exchange is not None:
                exchange.gone = None
        headers: Headers = [(b"toolcrib-call-id", str(params["id"]).encode())]
        if isinstance(found, CallState):
            await reply(send, 202, encode(found), [*headers, (b"retry-after", b"1")])
        elif isinstance(found, ToolResult):
            await reply(send, status_of(found), encode(found), [*headers, *retry_headers(found)])


def _from_query(
    method: Method, query: Mapping[str, str], values: Mapping[str, str]
) -> dict[str, Any]:
    """Text becomes what the method's request says it is. Raises `Fault`."""
    try:
        request = msgspec.convert({**query, **values}, method.request, strict=False)
    except msgspec.ValidationError as error:
        text = str(error).replace("Object", "the request").replace(" - at `$.", ": `")
        raise Fault("invalid_request", text) from None
    params: dict[str, Any] = msgspec.to_builtins(request)
    for name, value in params.items():
        if type(value) is float and not math.isfinite(value):
            raise Fault("invalid_request", f"`{name}` is no finite number")
    return params


def matches(given: bytes | None, tag: bytes) -> bool:
    """Whether an `If-None-Match` header names the tag."""
    if given is None:
        return False
    tags = [each.strip().removeprefix(b"W/") for each in given.split(b",")]
    return b"*" in tags or tag in tags
