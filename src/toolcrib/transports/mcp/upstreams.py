"""The MCP servers behind the host, as far as they offer more than tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

from toolcrib.core.link import InputRefused, Relay, UpstreamError
from toolcrib.errors import ToolFailure
from toolcrib.host.host import ToolHost
from toolcrib.transports.faults import Fault
from toolcrib.transports.mcp.faults import McpFault
from toolcrib.transports.mcp.home import Home

PATIENCE = 30.0
"""Seconds that a server may take to answer a request that is no call."""

Heard = Callable[["Upstream", str, Mapping[str, Any]], None]
"""Called with the method and the params of what a server says outside of any request."""


class Upstream:
    """One server, and what is remembered of it while it is down."""

    __slots__ = ("capabilities", "hide", "name", "news", "prefix", "relay", "stop", "tools")

    def __init__(self, name: str, hide: Callable[[Any], Any]) -> None:
        self.name = name
        self.hide = hide
        """Gives a value without secrets: a server may say what it was given to be let in."""
        self.prefix = ""
        self.relay: Relay | None = None
        """None while it is down."""
        self.capabilities: Mapping[str, Any] = {}
        self.tools: Mapping[str, str] = {}
        """The names of the tools that stand for its `resources` and its `prompts`."""
        self.news = 0
        """Counts what changed, so that an answer that is older than the change is known as such."""
        self.stop: Callable[[], None] | None = None

    def has(self, capability: str, feature: str | None = None) -> bool:
        """Whether the server declared it."""
        found: Any = self.capabilities.get(capability)
        if feature is None or not isinstance(found, dict):
            return isinstance(found, dict)
        said: Any = cast("dict[str, Any]", found).get(feature)
        return said is not None and said is not False

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The server's answer to a request that is no call. Raises `McpFault`."""
        relay = self.relay
        if relay is None:
            raise McpFault.of(Fault("tool_unavailable", f"the provider {self.name} is down"))
        try:
            async with asyncio.timeout(PATIENCE):
                answer: Any = await relay.request(method, params)
        except UpstreamError as error:
            message, data = self.hide([error.message, error.data])
            raise McpFault.of_upstream(UpstreamError(error.code, message, data)) from None
        except ToolFailure as failure:
            raise McpFault.of(Fault(failure.reason, self.hide(failure.message))) from None
        except InputRefused:
            text = f"the provider {self.name} needs input for {method}, which has none to give"
            raise McpFault.of(Fault("upstream_error", text)) from None
        except TimeoutError:
            text = f"the provider {self.name} did not answer {method} in time"
            raise McpFault.of(Fault("timeout", text)) from None
        if not isinstance(answer, dict):
            text = f"the provider {self.name} answered {method} with no object"
            raise McpFault.of(Fault("upstream_error", text))
        return self.hide(answer)


class Upstreams:
    """Those of one host; follows them as they come, go and are started anew."""

    def __init__(self, host: ToolHost) -> None:
        self._host = host
        self._known: dict[str, Upstream] = {}
        self._listeners: list[Heard] = []
        self._greeters: list[Callable[[Upstream], None]] = []
        self._home: Home | None = None

    def listen(self, heard: Heard, came: Callable[[Upstream], None]) -> None:
        """Tell these what servers say of themselves, and of each that came up or was started
        anew."""
        self._listeners.append(heard)
        self._greeters.append(came)

    def all(self) -> list[Upstream]:
        """All that are configured and were ever up, by name."""
        self.renew()
        return [self._known[name] for name in sorted(self._known)]

    def get(self, name: str) -> Upstream | None:
        """The one of that name."""
        self.renew()
        return self._known.get(name)

    def renew(self) -> None:
        """Look at which are up now."""
        up = {relay.name: relay for relay in self._host.sources.relays()}
        gone = [name for name in self._known if name not in up]
        if gone:
            configured = {status.name for status in self._host.sources.status()}
            for name in gone:
                self._let_go(self._known[name])
                if name not in configured:
                    del self._known[name]
        fresh: list[Upstream] = []
        for name, relay in up.items():
            upstream = self._known.get(name)
            if upstream is None:
                upstream = self._known[name] = Upstream(name, self._hide)
            if upstream.relay is not relay:
                self._follow(upstream, relay)
                fresh.append(upstream)
            # While it connects anew it has none, and then mostly the same as before.
            upstream.capabilities = relay.capabilities or upstream.capabilities
            upstream.tools = getattr(relay, "tools", None) or upstream.tools
        for upstream in fresh:
            for came in self._greeters:
                came(upstream)

    def close(self) -> None:
        """Follow them no more."""
        for upstream in self._known.values():
            self._let_go(upstream)
        self._known.clear()
        self._listeners.clear()
        self._greeters.clear()

    def _follow(self, upstream: Upstream, relay: Relay) -> None:
        self._let_go(upstream)
        if self._home is None:
            self._home = Home.here()
        home = self._home
        upstream.relay = relay
        upstream.prefix = relay.prefix
        upstream.news += 1
        upstream.stop = relay.watch(
            lambda method, params: home.do(self._hear, upstream, method, params)
        )

    def _let_go(self, upstream: Upstream) -> None:
        stop, upstream.stop = upstream.stop, None
        upstream.relay = None
        if stop is not None:
            stop()

    def _hear(self, upstream: Upstream, method: str, params: Mapping[str, Any]) -> None:
        if method.endswith("/list_changed"):
            upstream.news += 1
        shown = self._hide(dict(params))
        for heard in self._listeners:
            heard(upstream, method, shown)

    def _hide(self, value: Any) -> Any:
        return self._host.redactor.secrets_in(value)
