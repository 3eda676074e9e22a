"""What of an HTTP request to `/mcp` is known before anybody knows who asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault
from toolcrib.transports.http.answers import Headers, Scope, reply
from toolcrib.transports.http.exchange import Exchange
from toolcrib.transports.http.heads import Plain
from toolcrib.transports.http.query import read_query
from toolcrib.transports.mcp.asked import Endpoint
from toolcrib.transports.mcp.http import McpDoor
from toolcrib.transports.mcp.metadata import WELL_KNOWN, challenge, metadata
from toolcrib.transports.mcp.posts import Web

if TYPE_CHECKING:
    from toolcrib.transports.mcp.old_sse import OldDoor
    from toolcrib.transports.service import Service

_MOST_KNOWN = 1024
_VERBS = b"POST, GET, DELETE, OPTIONS"
_HEADERS = b"authorization, content-type, accept, last-event-id"
_PARAM = b"mcp-"


class Entrance:
    """Finds what an address means, and answers what needs no credentials."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.door = McpDoor(service)
        self._old: OldDoor | None = None
        self._known: dict[bytes, Endpoint] = {}
        self.web = Web

    def quick(self, plain: Plain, body: bytes, exchange: Exchange) -> Any:
        """The work of a plain call at an address that is known, or `DONE`; None for anything else,
        which is looked at closely."""
        endpoint = self._known.get(plain.scope["raw_path"])
        if endpoint is None or not self._service.settings.mcp.enabled:
            return None
        return self.door.calls.quick(plain, endpoint, body, exchange)

    async def open_to_all(self, scope: Scope, web: Web) -> bool:
        """Whether the request was answered here."""
        verb, path = scope["method"], scope["path"]
        settings = self._service.settings
        if path.startswith(WELL_KNOWN):
            found = metadata(settings, web.head, path)
            if found is None:
                raise Fault("unknown_method", "there is nothing at this address; see /docs")
            if verb not in ("GET", "HEAD", "OPTIONS"):
                raise Fault("method_not_allowed", "this address can only be read")
            await reply(web.send, 200, found)
            return True
        if not settings.mcp.enabled:
            raise Fault("unknown_method", "MCP is not served here: serve.mcp.enabled is false")
        if verb == "OPTIONS":
            await reply(web.send, 204, b"", [(b"allow", _VERBS), *_preflight(web)])
            return True
        return False

    async def refuse(self, fault: Fault, scope: Scope, web: Web) -> None:
        """Turn somebody away who did not say who it is."""
        more: Headers | None = None
        if fault.reason == "unauthenticated":
            more = challenge(self._service.settings, web.head, scope["path"])
        await self.door.refuse(fault, web, more)

    async def answer(self, caller: Caller, scope: Scope, web: Web) -> None:
        """A request of somebody who is known."""
        try:
            if scope["query_string"]:
                read_query(scope["query_string"], ())
            raw: bytes = scope.get("raw_path") or scope["path"].encode()
            endpoint = self._known.get(raw)
            if endpoint is None:
                parts = _parts(raw)
                if self._service.settings.mcp.sse and parts[1:2] in (["sse"], ["messages"]):
                    await self._older().answer(scope["method"], caller, parts[1:], web)
                    return
                endpoint = _endpoint(parts)
                if len(self._known) < _MOST_KNOWN:
                    self._known[raw] = endpoint
        except Fault as fault:
            await self.door.refuse(fault, web)
            return
        await self.door.answer(scope["method"], caller, endpoint, web)

    def _older(self) -> OldDoor:
        if self._old is None:
            from toolcrib.transports.mcp.old_sse import OldDoor

            self._old = OldDoor(self._service, self.door)
        return self._old

    def renew(self) -> None:
        """Addresses may mean something else by changed settings."""
        self._known.clear()

    async def close(self) -> None:
        """End what is open, because the host stops."""
        if self._old is not None:
            await self._old.close()
        await self.door.close()


def _parts(raw: bytes) -> list[str]:
    try:
        parts = [unquote_to_bytes(part).decode() for part in raw.split(b"/")[1:]]
    except UnicodeDecodeError:
        raise _nothing() from None
    return parts[:-1] if len(parts) == 2 and not parts[1] else parts


def _endpoint(parts: list[str]) -> Endpoint:
    """`/mcp`, `/mcp/{profile}` or `/mcp/s/{handle}`. Raises `Fault`."""
    match parts:
        case ["mcp"]:
            return Endpoint()
        case ["mcp", profile] if profile:
            return Endpoint(profile=profile)
        case ["mcp", "s", handle] if handle:
            return Endpoint(session=handle)
        case _:
            raise _nothing()


def _nothing() -> Fault:
    return Fault("unknown_method", "MCP is at /mcp, /mcp/PROFILE and /mcp/s/SESSION")


def _preflight(web: Web) -> Headers:
    """What a page of a configured origin may send."""
    if b"access-control-request-method" not in web.head:
        return []
    wanted = web.head.get(b"access-control-request-headers", b"").lower()
    ours = {each.strip() for each in wanted.split(b",")}
    mirrored = sorted(each for each in ours if each.startswith(_PARAM))
    return [
        (b"access-control-allow-methods", _VERBS),
        (b"access-control-allow-headers", b", ".join((_HEADERS, *mirrored))),
        (b"access-control-max-age", b"600"),
    ]
