"""Finding out which era a server belongs to, and opening the conversation."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any, Literal, cast

from toolcrib.core.link import Era, UpstreamError
from toolcrib.errors import ToolFailure
from toolcrib.protocol.mcp import keys
from toolcrib.protocol.mcp.codes import HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION
from toolcrib.protocol.mcp.versions import HANDSHAKE, LATEST, LATEST_HANDSHAKE, MODERN
from toolcrib.providers.mcp.exchange import Nonsense, Refused
from toolcrib.providers.mcp.session import CLIENT, Session

Wanted = Literal["auto", "handshake", "modern"]
_PATIENCE = 5.0
"""Seconds for a server to answer the first question; old ones may not answer it at all."""
_REMEMBERED = 1000
_eras: OrderedDict[str, Era] = OrderedDict()
"""What servers turned out to be, so that one which starts anew is not asked again."""


def remembered(identity: str) -> Era | None:
    """The era of a server that was met before."""
    return _eras.get(identity)


def remember(identity: str, era: Era | None) -> None:
    """Keep what a server turned out to be; None forgets it."""
    _eras.pop(identity, None)
    if era is not None:
        _eras[identity] = era
        if len(_eras) > _REMEMBERED:
            _eras.popitem(last=False)


async def greet(session: Session, era: Wanted, known: Era | None = None) -> None:
    """Open the conversation. Raises `ToolFailure`, `UpstreamError`, `Refused` or `Lost`."""
    if era == "handshake" or (era == "auto" and known == "handshake"):
        await _initialize(session)
    elif era == "modern" or not session.wire.shared:
        await _discover_first(session, fall_back=era == "auto")
    else:
        await _probe(session)


async def _probe(session: Session) -> None:
    """On one channel for all: ask as the modern era does. A server that stays silent is greeted in
    the old way as well, and its first sensible answer counts."""
    probe = asyncio.ensure_future(_discover(session))
    tasks: list[asyncio.Task[Any]] = [probe]
    try:
        await asyncio.wait({probe}, timeout=_PATIENCE)
        if not probe.done():
            hello = asyncio.ensure_future(_hello(session))
            tasks.append(hello)
            await asyncio.wait({probe, hello}, return_when="FIRST_COMPLETED")
            if probe.done() and not await _is_modern(probe):
                await asyncio.wait({hello})
            if hello.done():
                await _initialized(session, await hello)
                return
        if await _is_modern(probe):
            _met_modern(session, await probe)
        else:
            await _initialize(session)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _is_modern(probe: asyncio.Task[dict[str, Any]]) -> bool:
    try:
        await probe
    except ToolFailure:
        return False
    except UpstreamError as error:
        if _modern_error(error) and not _offers_handshake(error):
            raise
        return False
    return True


async def _discover_first(session: Session, *, fall_back: bool) -> None:
    try:
        found = await _discover(session)
    except (UpstreamError, Refused, ToolFailure, Nonsense) as error:
        modern = isinstance(error, UpstreamError) and _modern_error(error)
        if not fall_back or (modern and not _offers_handshake(cast("UpstreamError", error))):
            raise
        await _initialize(session)
        return
    _met_modern(session, found)


async def _discover(session: Session) -> dict[str, Any]:
    try:
        found = await session.request("server/discover", {}, version=LATEST)
    except UpstreamError as error:
        if error.code != UNSUPPORTED_VERSION:
            raise
        others = [version for version in MODERN if version in _supported(error)]
        if not others:
            raise
        found = await session.request("server/discover", {}, version=others[-1])
    if not isinstance(found.get("supportedVersions"), list):
        raise ToolFailure(
            "the server's answer to server/discover names no versions", reason="upstream_error"
        )
    return found


def _met_modern(session: Session, found: dict[str, Any]) -> None:
    offered = cast("list[Any]", found["supportedVersions"])
    version = next((each for each in reversed(MODERN) if each in offered), None)
    if version is None:
        raise ToolFailure(
            f"the server speaks none of the revisions known here: {str(offered)[:200]}",
            reason="tool_unavailable",
        )
    meta: Any = found.get("_meta")
    server = cast("Any", meta).get(keys.SERVER) if isinstance(meta, dict) else None
    session.met("modern", version, found.get("capabilities"), server or found.get("serverInfo"))


async def _hello(session: Session) -> dict[str, Any]:
    params = {
        "protocolVersion": LATEST_HANDSHAKE,
        "capabilities": session.asking.declared(),
        "clientInfo": CLIENT,
    }
    return await session.request("initialize", params)


async def _initialize(session: Session) -> None:
    await _initialized(session, await _hello(session))


async def _initialized(session: Session, found: dict[str, Any]) -> None:
    version: Any = found.get("protocolVersion")
    if version not in HANDSHAKE:
        raise ToolFailure(
            f"the server answered initialize with the revision {str(version)[:60]!r}, which is "
            "not known here",
            reason="tool_unavailable",
        )
    session.met("handshake", version, found.get("capabilities"), found.get("serverInfo"))
    await session.wire.tell("notifications/initialized")
    session.wire.listen()


def _modern_error(error: UpstreamError) -> bool:
    """Whether only a server of the modern era answers so."""
    return error.code in (HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION)


def _supported(error: UpstreamError) -> list[Any]:
    data: Any = error.data
    found: Any = cast("Any", data).get("supported") if isinstance(data, dict) else None
    return cast("list[Any]", found) if isinstance(found, list) else []


def _offers_handshake(error: UpstreamError) -> bool:
    return any(version in HANDSHAKE for version in _supported(error))
