"""`subscriptions/listen`: a modern client is told of changes until it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from toolcrib.protocol import jsonrpc
from toolcrib.protocol.mcp import keys
from toolcrib.transports.caller import Caller
from toolcrib.transports.mcp.asked import Asked, Endpoint
from toolcrib.transports.mcp.line import Sink, encode
from toolcrib.transports.mcp.tasknews import MEMBER, TaskNews
from toolcrib.transports.mcp.watching import Wanted, Watch

if TYPE_CHECKING:
    from toolcrib.transports.mcp.dispatcher import Dispatcher

_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


class Listening:
    """One subscription. Everything on it bears the id of the request that opened it."""

    def __init__(self, asked: Asked, caller: Caller, sink: Sink) -> None:
        self.id = asked.id
        self._asked = asked
        self._caller = caller
        self._sink = sink
        self._watch: Watch | None = None
        self._news: TaskNews | None = None
        self._closed = False

    async def open(self, dispatcher: Dispatcher, endpoint: Endpoint) -> None:
        """Acknowledge what can be had of what was asked for; changes follow. Raises `McpFault`."""
        wanted = Wanted.of(self._asked.params.get("notifications"))
        tasks = dispatcher.relays.tasks
        self._news = news = TaskNews(tasks, self._asked, self._caller, endpoint, self._tell)
        named = await news.open()
        watch = await dispatcher.changes.listen(self._caller, endpoint, wanted, self._tell)
        if self._closed:  # it left meanwhile
            watch.close()
            news.close()
            return
        self._watch = watch
        honoured = watch.wanted.filter()
        if named:
            honoured[MEMBER] = named
        self._push(_ACKNOWLEDGED, {"notifications": honoured})
        news.begin()

    def _tell(self, method: str, params: Mapping[str, Any]) -> None:
        if not self._caller.badge.over:
            self._push(method, params)

    def _push(self, method: str, params: Mapping[str, Any]) -> None:
        meta = params.get("_meta")
        before = cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}
        tagged = {**params, "_meta": {**before, keys.SUBSCRIPTION: self.id}}
        self._sink.push(jsonrpc.notification(method, encode(tagged)))

    def close(self) -> None:
        """Tell nothing more."""
        self._closed = True
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        if self._news is not None:
            self._news.close()

    def goodbye(self) -> bytes:
        """The answer that tells the client that this side ended it, in order."""
        result = {"resultType": "complete", "_meta": {keys.SUBSCRIPTION: self.id}}
        return jsonrpc.result(self.id, encode(result))
