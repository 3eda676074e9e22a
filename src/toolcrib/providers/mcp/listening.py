"""The stream on which a modern server tells what changed, kept open for as long as it is wanted."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

from toolcrib.core.link import UpstreamError
from toolcrib.errors import ToolcribError, ToolFailure
from toolcrib.protocol.mcp.codes import METHOD_NOT_FOUND
from toolcrib.providers.mcp.exchange import Behalf
from toolcrib.providers.mcp.session import Session

_log = logging.getLogger("toolcrib")
_LISTS = {
    "tools": "toolsListChanged",
    "prompts": "promptsListChanged",
    "resources": "resourcesListChanged",
}
_WAIT_FIRST, _WAIT_MOST = 0.5, 30.0
_PATIENCE = 10.0


class Listener:
    """Holds one `subscriptions/listen` request open; another filter means another request, which
    is acknowledged before the one before it is let go."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._uris: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    async def start(self) -> None:
        """Listen for the lists that the server says it tells of."""
        if self._filter():
            await self._renew(wait=False)

    async def subscribe(self, uri: str) -> None:
        """Be told of a resource too. Raises `ToolFailure` when the server does not do it."""
        async with self._turn:
            self._uris.add(uri)
            try:
                honoured = await self._renew(wait=True)
                if uri not in honoured:
                    raise ToolFailure(
                        "the server does not tell of changes of this resource",
                        reason="upstream_error",
                    )
            except BaseException:
                self._uris.discard(uri)
                raise

    async def unsubscribe(self, uri: str) -> None:
        """Be told of it no more."""
        async with self._turn:
            if uri in self._uris:
                self._uris.discard(uri)
                await self._renew(wait=False)

    async def aclose(self) -> None:
        """Stop listening."""
        await _end(self._task)
        self._task = None

    def _filter(self) -> dict[str, Any]:
        wanted: dict[str, Any] = {}
        for name, key in _LISTS.items():
            told: Any = self._session.capabilities.get(name)
            if isinstance(told, dict) and cast("dict[str, Any]", told).get("listChanged") is True:
                wanted[key] = True
        if self._uris:
            wanted["resourceSubscriptions"] = sorted(self._uris)
        return wanted

    async def _renew(self, *, wait: bool) -> list[Any]:
        """Open a new stream in the place of the old one; the resources that it tells of."""
        before, wanted = self._task, self._filter()
        ready: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(wanted, ready)) if wanted else None
        try:
            if wanted and (wait or before is not None):
                done, _ = await asyncio.wait({ready}, timeout=_PATIENCE)
                if wait and not done:
                    raise ToolFailure("the server did not acknowledge in time", reason="timeout")
            return ready.result() if ready.done() else []
        finally:
            await _end(before)

    async def _live(self, wanted: dict[str, Any], ready: asyncio.Future[list[Any]]) -> None:
        """Listen, and listen again when the stream ends."""
        failures = 0
        while self._session.lost is None:
            try:
                came = await self._listen(wanted, ready)
                failures = 0 if came else failures + 1
            except UpstreamError as error:
                _settle(ready, [])
                _log.info("provider %s does not tell of changes: %s", self._session.name, error)
                if error.code == METHOD_NOT_FOUND:
                    return
                failures += 1
            except (ToolcribError, TimeoutError) as error:
                _log.debug("provider %s: its changes: %s", self._session.name, error)
                failures += 1
            await asyncio.sleep(min(_WAIT_FIRST * 2 ** min(failures, 10), _WAIT_MOST))

    async def _listen(self, wanted: dict[str, Any], ready: asyncio.Future[list[Any]]) -> bool:
        came = False
        over = asyncio.get_running_loop().create_future()

        def told(method: str, params: dict[str, Any]) -> None:
            nonlocal came
            came = True
            if method == "notifications/subscriptions/acknowledged":
                honoured: Any = params.get("notifications")
                uris: Any = None
                if isinstance(honoured, dict):
                    uris = cast("dict[str, Any]", honoured).get("resourceSubscriptions")
                _settle(ready, cast("list[Any]", uris) if isinstance(uris, list) else [])
            elif method == "notifications/cancelled":
                if not over.done():
                    over.set_result(None)
            else:
                self._session.publish(method, params)

        request = asyncio.ensure_future(
            self._session.request(
                "subscriptions/listen", {"notifications": wanted}, Behalf(told=told)
            )
        )
        try:
            await asyncio.wait({request, over}, return_when="FIRST_COMPLETED")
            if request.done():
                request.result()
        finally:
            await _end(request)
        return came


def _settle(ready: asyncio.Future[list[Any]], value: list[Any]) -> None:
    if not ready.done():
        ready.set_result(value)


async def _end(task: asyncio.Task[Any] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
