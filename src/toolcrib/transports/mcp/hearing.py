"""What running calls say: progress, log lines, and that a person has to be asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.core.events import Event
from toolcrib.protocol.mcp.definitions import KIND
from toolcrib.transports.mcp.home import Home
from toolcrib.transports.mcp.link import MESSAGE
from toolcrib.transports.mcp.run import Run
from toolcrib.transports.service import Service

_HEARD = frozenset(("call.progress", "tool.log", "approval.requested"))


class Hearing:
    """Listens to facts and tells the calls that they are about. Belongs to the running loop."""

    def __init__(self, service: Service, calls: Mapping[str, Run]) -> None:
        self._service = service
        self._calls = calls
        self._home = Home.here()
        self.stop = service.host.bus.on_fact(self._hear)
        """Hear nothing more."""

    def _hear(self, event: Event) -> None:
        """A fact, in whatever thread it came up."""
        if event.type not in _HEARD or not self._calls:
            return
        if event.call_id not in self._calls and event.type != "approval.requested":
            return
        self._home.do(self._tell, event)

    def _tell(self, event: Event) -> None:
        one = self._calls.get(event.call_id or "")
        if event.type == "approval.requested":
            one = one or self._above(event.call_id)
            if one is not None:
                one.questions = [*(one.questions or ()), event.data["request"]]
                one.wake()
        elif one is None:
            return
        elif event.type == "tool.log":
            one.notify(MESSAGE, _message(event.data))
        elif not self._relayed(one.tool):
            one.progress(event.data.get("fraction"), event.data.get("message"))

    def _relayed(self, tool: str) -> bool:
        """Whether the tool is a server's behind us: what that says of its progress comes by the
        line itself, as it is."""
        entry = self._service.host.catalog.get(tool)
        return entry is not None and entry.spec.kind == KIND

    def _above(self, call_id: str | None) -> Run | None:
        """The call of a client on whose behalf a tool made this one."""
        flights = {each.call_id: each for each in self._service.parts.pipeline.flights()}
        seen = flights.get(call_id or "")
        while seen is not None and seen.parent_id is not None:
            if seen.parent_id in self._calls:
                return self._calls[seen.parent_id]
            seen = flights.get(seen.parent_id)
        return None


def _message(data: Mapping[str, Any]) -> dict[str, Any]:
    """A line of a tool's log, as clients read it."""
    said = {key: value for key, value in data.items() if key != "tool"}
    text = said if len(said) > 1 else said.get("message")
    return {"level": "info", "logger": data.get("tool"), "data": text}
