"""One request of an MCP client, whatever the transport and the era."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

import msgspec

from toolcrib.core.link import Era
from toolcrib.protocol.jsonrpc import Id
from toolcrib.protocol.mcp import codes, keys
from toolcrib.protocol.mcp.versions import KNOWN, MODERN
from toolcrib.transports.mcp.faults import McpFault, invalid

_NOTHING: Mapping[str, Any] = {}


class Endpoint(msgspec.Struct, frozen=True):
    """What the path of the request names: a profile to be held to, or a session of the host."""

    profile: str | None = None
    session: str | None = None


class Asked:
    """What a client asks, and what its request says about it. None of it is believed."""

    __slots__ = (
        "capabilities",
        "client",
        "era",
        "id",
        "log_level",
        "meta",
        "method",
        "params",
        "progress_token",
        "version",
    )

    def __init__(
        self,
        id: Id,
        method: str,
        params: dict[str, Any],
        *,
        era: Era,
        version: str,
        capabilities: Mapping[str, Any] = _NOTHING,
        client: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] = _NOTHING,
        progress_token: str | int | None = None,
        log_level: str | None = None,
    ) -> None:
        self.id = id
        self.method = method
        self.params = params
        self.era: Era = era
        self.version = version
        self.capabilities = capabilities
        self.client = client
        self.meta = meta
        """The request's `_meta` without what belongs to one hop."""
        self.progress_token = progress_token
        self.log_level = log_level

    @property
    def modern(self) -> bool:
        """Whether the request stands alone."""
        return self.era == "modern"


class Channel(Protocol):
    """The transport's side of one request."""

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell the client something that belongs to this request. Never waits and never raises."""
        ...

    async def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        """Ask a client of the handshake era, and give its result. Raises `McpFault` for an error
        that it answered, `InputRefused` where it cannot be asked or went away."""
        ...

    def on_gone(self, told: Callable[[], None]) -> None:
        """Tell once, when the client went away or cancelled the request; at once if it has."""
        ...


def asked_modern(id: Id, method: str, params: Any) -> Asked:
    """A request that stands alone, from its own `_meta`. Raises `McpFault`."""
    found = _params(params)
    raw = found.get("_meta")
    if type(raw) is not dict:
        raise invalid(f"{method}: params._meta is missing. Say {keys.VERSION} in it")
    meta = cast("dict[str, Any]", raw)
    version = meta.get(keys.VERSION)
    if type(version) is not str:
        raise invalid(f"{method}: params._meta has no {keys.VERSION}")
    if version not in MODERN:
        raise unsupported(version)
    capabilities = meta.get(keys.CAPABILITIES)
    if type(capabilities) is not dict:
        raise invalid(f"{method}: params._meta has no {keys.CAPABILITIES}. Send at least {{}}")
    client = meta.get(keys.CLIENT)
    if client is not None and type(client) is not dict:
        raise invalid(f"{method}: {keys.CLIENT} in params._meta is no object")
    level = meta.get(keys.LOG_LEVEL)
    return Asked(
        id,
        method,
        found,
        era="modern",
        version=version,
        capabilities=cast("dict[str, Any]", capabilities),
        client=cast("dict[str, Any] | None", client),
        meta=_foreign(meta),
        progress_token=_token(meta),
        log_level=level if type(level) is str else None,
    )


def asked_handshake(
    id: Id,
    method: str,
    params: Any,
    *,
    version: str,
    capabilities: Mapping[str, Any] = _NOTHING,
    client: Mapping[str, Any] | None = None,
    log_level: str | None = None,
) -> Asked:
    """A request on a connection that knows the rest since `initialize`. Raises `McpFault`."""
    found = _params(params)
    meta: Mapping[str, Any] = _NOTHING
    token = None
    if "_meta" in found:
        raw = found["_meta"]
        if type(raw) is not dict:
            raise invalid(f"{method}: params._meta is no object")
        token = _token(cast("dict[str, Any]", raw))
        meta = _foreign(cast("dict[str, Any]", raw))
    return Asked(
        id,
        method,
        found,
        era="handshake",
        version=version,
        capabilities=capabilities,
        client=client,
        meta=meta,
        progress_token=token,
        log_level=log_level,
    )


def stands_alone(params: Any) -> bool:
    """Whether a message says itself which revision it speaks, as those of the modern era do."""
    if type(params) is not dict:
        return False
    meta: Any = cast("dict[str, Any]", params).get("_meta")
    return type(meta) is dict and keys.VERSION in meta


def unsupported(version: str) -> McpFault:
    """A revision that is not spoken here."""
    return McpFault(
        codes.UNSUPPORTED_VERSION,
        f"the protocol version {version!r} is not spoken here",
        {"supported": list(KNOWN), "requested": version},
    )


def _params(params: Any) -> dict[str, Any]:
    if params is None:
        return {}
    if type(params) is not dict:
        raise invalid("params has to be an object")
    return cast("dict[str, Any]", params)


def _token(meta: dict[str, Any]) -> str | int | None:
    token: Any = meta.get(keys.PROGRESS)
    if token is None or type(token) is str or type(token) is int:
        return token
    raise invalid(f"params._meta.{keys.PROGRESS} has to be text or a whole number")


def _foreign(meta: dict[str, Any]) -> Mapping[str, Any]:
    if meta.keys() <= keys.OF_ONE_HOP:
        return _NOTHING
    return {key: value for key, value in meta.items() if key not in keys.OF_ONE_HOP}
