"""One conversation with a server: ids, who gets what it says, and the rounds of a request."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping
from typing import Any, cast

from toolcrib.core.link import Era, UpstreamError
from toolcrib.core.link import Told as Watcher
from toolcrib.core.version import __version__
from toolcrib.errors import ToolcribError, ToolFailure
from toolcrib.protocol.jsonrpc import Request
from toolcrib.protocol.mcp import keys
from toolcrib.protocol.mcp.codes import INTERNAL_ERROR
from toolcrib.protocol.mcp.hops import passed_on
from toolcrib.providers.mcp.asking import Asking
from toolcrib.providers.mcp.exchange import OURS, Behalf, Exchange, Lost, Wire, answer

_log = logging.getLogger("toolcrib")
CLIENT: Mapping[str, str] = {"name": "toolcrib", "version": __version__}
_ROUNDS = 20
"""How often one request may be answered with questions."""
_ASKING = 32
"""How many requests of the server are answered at a time."""
_STANDING = ("subscriptions/listen",)
"""Requests of ours that stay open and are told things."""
_OF_A_REQUEST = ("notifications/progress", "notifications/message")


class Session:
    """Knows the era once the greeting is over; requests of several callers go side by side."""

    def __init__(
        self, name: str, wire: Wire, asking: Asking, *, changed: Callable[[], None]
    ) -> None:
        self.name = name
        self.wire = wire
        self.asking = asking
        self.era: Era = "handshake"
        self.version = ""
        self.capabilities: Mapping[str, Any] = {}
        self.server: Mapping[str, Any] = {}
        """Its program, by its own word."""
        self.lost: str | None = None
        """Why there is no connection any more."""
        self._changed = changed
        self.ids = itertools.count(1)
        self.flights: dict[int, Exchange] = {}
        """Requests that are not answered."""
        self._watchers: list[Watcher] = []
        self._answering: dict[Any, asyncio.Task[None]] = {}

    async def open(self) -> None:
        """Connect."""
        await self.wire.open(self)

    async def aclose(self) -> None:
        """End it, and everything that was started for it."""
        self.lost = self.lost or "the connection was closed"
        tasks = [*self._answering.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.wire.aclose()

    @property
    def busy(self) -> bool:
        """Whether requests are in flight."""
        return bool(self.flights)

    def met(self, era: Era, version: str, capabilities: object, server: object) -> None:
        """The greeting is over."""
        self.era, self.version = era, version
        if isinstance(capabilities, dict):
            self.capabilities = cast("dict[str, Any]", capabilities)
        if isinstance(server, dict):
            self.server = cast("dict[str, Any]", server)
        self.wire.began(version, modern=era == "modern")

    # Requests of ours.

    async def converse(
        self,
        method: str,
        params: Mapping[str, Any],
        behalf: Behalf = OURS,
        headers: Mapping[str, str] | None = None,
        first: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The result of a request, after as many rounds of questions as the server needs. `first`
        is what the first round came to, where that is over already."""
        asked = params
        for number in range(_ROUNDS + 1):
            try:
                if first is not None:
                    raw, first = first, None
                else:
                    raw = await self.request(method, asked, behalf, headers=headers)
            except UpstreamError as error:
                self.asking.check_error(error, behalf.link)
                raise
            if raw.get("resultType") != "input_required":
                self.asking.check(raw.get("inputRequests"), behalf.link)
                return raw
            wanted: Any = raw.get("inputRequests")
            asked = dict(params)
            if isinstance(wanted, dict) and wanted:
                requests = cast("dict[str, Any]", wanted)
                asked["inputResponses"] = await self.asking.answers(requests, behalf)
            else:
                await asyncio.sleep(0.05 * number)
            if "requestState" in raw:
                asked["requestState"] = raw["requestState"]
        raise ToolFailure(
            f"the server asked more than {_ROUNDS} times for input", reason="upstream_error"
        )

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        behalf: Behalf = OURS,
        *,
        headers: Mapping[str, str] | None = None,
        version: str | None = None,
    ) -> dict[str, Any]:
        """One request and its result. `version` makes it a modern one before the greeting is
        over."""
        if self.lost is not None:
            raise Lost(self.lost)
        if self.era == "modern":
            version = version or self.version
        number = next(self.ids)
        exchange = Exchange(
            number,
            method,
            self._with_meta(params, behalf, number, version),
            behalf=behalf,
            headers=headers,
            version=version,
        )
        if behalf is not OURS:
            behalf.note(exchange)
        self.flights[number] = exchange
        try:
            return await self.wire.ask(exchange)
        finally:
            del self.flights[number]

    def _with_meta(
        self, params: Mapping[str, Any], behalf: Behalf, token: int, version: str | None
    ) -> dict[str, Any]:
        made, link = dict(params), behalf.link
        meta: dict[str, Any] = {} if link is None else dict(link.meta)
        if behalf.heard:
            meta[keys.PROGRESS] = token
        if version is not None:
            meta[keys.VERSION] = version
            meta[keys.CLIENT] = CLIENT
            meta[keys.CAPABILITIES] = self.asking.mirrored(link)
            if link is not None and link.log_level is not None:
                meta[keys.LOG_LEVEL] = link.log_level
        if meta:
            made["_meta"] = meta
        return made

    # What the server says by itself.

    def watch(self, told: Watcher) -> None:
        """Tell it of what belongs to no request."""
        self._watchers.append(told)

    def unwatch(self, told: Watcher) -> None:
        """Tell it nothing more."""
        if told in self._watchers:
            self._watchers.remove(told)

    def notified(self, method: str, params: Any, exchange: Exchange | None) -> None:
        """A notification: to the request that it belongs to, or to whoever watches."""
        told: dict[str, Any] = cast("dict[str, Any]", params) if isinstance(params, dict) else {}
        meta: Any = told.get("_meta")
        stream: Any = cast("Any", meta).get(keys.SUBSCRIPTION) if isinstance(meta, dict) else None
        if method == "notifications/progress":
            exchange = self._flight(told.get("progressToken"))
        elif stream is not None:
            exchange = self._flight(stream)
        elif method == "notifications/cancelled":
            self._called_off(told.get("requestId"))
            return
        elif method == "notifications/message" and exchange is None:
            callers = self._callers()
            if len(callers) > 1:
                # It may be about the call of any of them, and is not for the others to read.
                _log.debug("provider %s: a log message of nobody knows whose call", self.name)
                return
            exchange = callers[0] if callers else None
        its_own = method in _OF_A_REQUEST or stream is not None
        if its_own and exchange is not None and exchange.behalf.heard:
            exchange.behalf.told(method, told)
            return
        if method != "notifications/progress":
            self.publish(method, told)

    def publish(self, method: str, params: dict[str, Any]) -> None:
        """Tell those who watch."""
        if method == "notifications/tools/list_changed":
            self._changed()
        params = passed_on(params)
        for told in [*self._watchers]:
            try:
                told(method, params)
            except Exception:
                _log.exception("provider %s: a watcher of %s failed", self.name, method)

    def doubted(self) -> None:
        """The session may have ended: have the tools listed again, which begins a new one."""
        self._changed()

    def gone(self, why: str) -> None:
        """The connection ended by itself."""
        if self.lost is None:
            self.lost = why
            self._changed()

    def requested(self, request: Request, exchange: Exchange | None) -> None:
        """A request of the server, answered in a task of its own."""
        if len(self._answering) >= _ASKING or request.id in self._answering:
            work = self._reply(request, UpstreamError(INTERNAL_ERROR, "too many requests at once"))
        else:
            work = self._answered(request, exchange)
        task = asyncio.ensure_future(work)
        self._answering.setdefault(request.id, task)
        task.add_done_callback(lambda _: self._answering.pop(request.id, None))

    async def _answered(self, request: Request, exchange: Exchange | None) -> None:
        if request.method == "ping":
            await self._reply(request, {})
            return
        behalf = exchange.behalf if exchange is not None else self._only_asked()
        try:
            result: dict[str, Any] | UpstreamError = await self.asking.answer(request, behalf)
        except UpstreamError as error:
            result = error
        except Exception:
            _log.exception("provider %s: %s could not be answered", self.name, request.method)
            result = UpstreamError(INTERNAL_ERROR, "the caller could not be asked")
        await self._reply(request, result)

    async def _reply(self, request: Request, result: dict[str, Any] | UpstreamError) -> None:
        try:
            await self.wire.reply(answer(request.id, result))
        except (ToolcribError, TimeoutError) as error:
            _log.info("provider %s: %s was not answered: %s", self.name, request.method, error)

    def _called_off(self, id: Any) -> None:
        task = self._answering.get(id) if isinstance(id, str | int) else None
        if task is not None:
            task.cancel()
        exchange = self._flight(id)
        if exchange is not None and exchange.method == "subscriptions/listen":
            exchange.behalf.told("notifications/cancelled", {})

    def _flight(self, id: Any) -> Exchange | None:
        return self.flights.get(id) if type(id) is int else None

    def _callers(self) -> list[Exchange]:
        """Requests that somebody waits for, one of each caller; those of ours are left out."""
        found: dict[int, Exchange] = {}
        for each in self.flights.values():
            if each.behalf.heard and each.method not in _STANDING:
                # Who has no line is somebody too: what is meant for it is not another's.
                link = each.behalf.link
                found.setdefault(id(each if link is None else link), each)
        return list(found.values())

    def _only_asked(self) -> Behalf:
        """Whom a request can be for that came on no request's own stream: the only caller there
        is. Among several, none: a guess would put one caller's question to another, and whether
        that one can be asked says nothing about whose it is."""
        found = self._callers()
        return found[0].behalf if len(found) == 1 else OURS
