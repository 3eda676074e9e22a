"""What a server offers besides its tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolcrib.core.link import LINK, Era, Told
from toolcrib.errors import ToolFailure
from toolcrib.providers.mcp.exchange import OURS, Behalf, Lost
from toolcrib.providers.mcp.upstream import Upstream

_ACTS = frozenset({"tasks/update", "tasks/cancel", "logging/setLevel"})
"""Methods that change something at the server, and are not sent again on doubt."""
_SUBSCRIBING = {"resources/subscribe": True, "resources/unsubscribe": False}


class McpRelay:
    """The provider's way on for doors; see `core.link.Relay`."""

    def __init__(self, name: str, prefix: str, upstream: Upstream) -> None:
        self._name = name
        self._prefix = prefix
        self._upstream = upstream
        self.tools: Mapping[str, str] = {}
        """The names of the tools that stand for its `resources` and `prompts`."""

    @property
    def name(self) -> str:
        """The provider's name."""
        return self._name

    @property
    def prefix(self) -> str:
        """What its tools' and prompts' names begin with here."""
        return self._prefix

    @property
    def era(self) -> Era:
        """How the server speaks."""
        return self._upstream.session.era

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The server's capabilities, as it told them; none while it is away."""
        try:
            return self._upstream.session.capabilities
        except Lost:
            return {}

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request on behalf of what runs in this context, and give its result as it came."""
        try:
            modern = self.era == "modern"
        except Lost as error:
            raise ToolFailure(str(error), reason="tool_unavailable") from error
        link = LINK.get()
        if modern and method in _SUBSCRIBING:
            await self._upstream.subscribe(str(params.get("uri")), on=_SUBSCRIBING[method])
            return {}
        behalf = OURS if link is None else Behalf(link, _passed_on(link.notify))
        found = await self._upstream.send(method, params, behalf, repeatable=method not in _ACTS)
        if method in _SUBSCRIBING:
            kept = params if _SUBSCRIBING[method] else None
            self._upstream.wish("resources/subscribe", str(params.get("uri")), kept)
        elif method == "logging/setLevel":
            self._upstream.wish(method, "", params)
        return found

    def watch(self, told: Told) -> Callable[[], None]:
        """Be told of what the server says outside of any request."""
        return self._upstream.watch(told)


def _passed_on(notify: Told) -> Callable[[str, dict[str, Any]], None]:
    def told(method: str, params: dict[str, Any]) -> None:
        notify(method, {key: value for key, value in params.items() if key != "progressToken"})

    return told
