"""What MCP requests are answered with, whatever the transport and the era."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import TYPE_CHECKING, Any

from toolcrib.core.link import Era, InputRefused, UpstreamError
from toolcrib.core.result import ToolResult
from toolcrib.core.version import __version__
from toolcrib.errors import ToolFailure
from toolcrib.protocol.mcp import codes, keys
from toolcrib.protocol.mcp.results import to_result
from toolcrib.protocol.mcp.versions import KNOWN, agreed, era_of
from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault
from toolcrib.transports.mcp.asked import Asked, Channel, Endpoint
from toolcrib.transports.mcp.faults import McpFault, unknown_method
from toolcrib.transports.mcp.line import encode
from toolcrib.transports.mcp.standing import today
from toolcrib.transports.service import EXPIRED, Service

if TYPE_CHECKING:
    from toolcrib.transports.mcp.changes import Changes
    from toolcrib.transports.mcp.relays import Relays
    from toolcrib.transports.mcp.run import Run
    from toolcrib.transports.mcp.running import Running
    from toolcrib.transports.mcp.tools import Tools

_log = logging.getLogger("toolcrib")
SERVER: dict[str, Any] = {"name": "toolcrib", "title": "Toolcrib", "version": __version__}
_META: dict[str, Any] = {keys.SERVER: SERVER}
_HANDSHAKE_ONLY = frozenset(
    ("initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
)
_DECLARED = {"prompts": "prompts", "resources": "resources", "completion": "completions"}
"""The capability that has to be there for the methods of a family."""
_CALLS = frozenset(("prompts/get", "resources/read"))


class Dispatcher:
    """Answers requests on one service. A door brings who asks; nothing here believes a request."""

    def __init__(self, service: Service) -> None:
        self._service = service

    # A client that starts a process waits for the answer to `initialize`, and these are half of
    # what MCP loads: they come with the first request that needs them, or with `load`.

    @cached_property
    def running(self) -> Running:
        """The calls that go on."""
        from toolcrib.transports.mcp import running

        return running.Running(self._service)

    @cached_property
    def changes(self) -> Changes:
        """What is listened to."""
        from toolcrib.transports.mcp import changes

        return changes.Changes(self._service)

    @cached_property
    def relays(self) -> Relays:
        """What servers behind us offer besides tools."""
        from toolcrib.transports.mcp import relays

        return relays.Relays(self._service, self.running.run, self.changes)

    @cached_property
    def tools(self) -> Tools:
        """Lists tools, and has them called."""
        from toolcrib.transports.mcp import tools

        return tools.Tools(self._service, self.running, self.relays.tasks)

    def load(self) -> None:
        """Be ready for everything: somebody greeted and will ask for tools next."""
        _ = self.tools

    def ended(
        self, caller: Caller, endpoint: Endpoint, asked: Asked, result: ToolResult
    ) -> dict[str, Any]:
        """The answer to a call that has ended. Raises `McpFault`."""
        if result.error is None and asked.era == "modern":
            made = to_result(result, modern=True)
            if made["resultType"] == "complete":
                return _signed(asked, made)
        return _signed(asked, self.tools.ended(caller, endpoint, asked, result))

    async def answer(
        self,
        caller: Caller,
        endpoint: Endpoint,
        asked: Asked,
        channel: Channel,
        begun: Run | None = None,
    ) -> dict[str, Any]:
        """The result of a request. Parts of it may be JSON already (`msgspec.Raw`). `begun` is its
        call if that goes on already. Raises `McpFault`."""
        if caller.badge.over and begun is None:
            raise McpFault.of(Fault("unauthenticated", EXPIRED))
        try:
            found = await self._answer(caller, endpoint, asked, channel, begun)
        except McpFault:
            raise
        except Fault as fault:
            raise McpFault.of(fault) from None
        except UpstreamError as error:
            raise McpFault.of_upstream(error) from None
        except (ToolFailure, InputRefused) as error:
            raise McpFault.of(Fault("upstream_error", str(error))) from None
        except Exception:
            _log.exception("the method %s failed", asked.method)
            raise McpFault(
                codes.INTERNAL_ERROR, Fault("unexpected_failure").message, http=500
            ) from None
        return _signed(asked, found)

    async def _answer(
        self,
        caller: Caller,
        endpoint: Endpoint,
        asked: Asked,
        channel: Channel,
        begun: Run | None,
    ) -> dict[str, Any]:
        method, modern = asked.method, asked.era == "modern"
        if method == "tools/call":
            return await self.tools.call(caller, endpoint, asked, channel, begun)
        if method == "tools/list":
            return self.tools.list(caller, endpoint, asked)
        if modern and method in _HANDSHAKE_ONLY:
            raise unknown_method(method)
        if method == "initialize":
            return self.hello(caller, endpoint, agreed(asked.params.get("protocolVersion")))
        if method == "ping":
            return {}
        if method == "server/discover" and modern:
            return self.hello(caller, endpoint, asked.version)
        if method in self.relays.METHODS and self._declared(caller, endpoint, asked):
            return await self.relays.answer(caller, endpoint, asked, channel)
        raise unknown_method(method)

    def _declared(self, caller: Caller, endpoint: Endpoint, asked: Asked) -> bool:
        """Whether a method belongs to what is declared to this caller. What is a call of a tool is
        there for everybody as soon as there is a server: the pipeline says no, and writes it
        down."""
        if asked.method in _CALLS and self._service.host.sources.relays():
            return True
        needed = _DECLARED.get(asked.method.partition("/")[0])
        return not needed or needed in self.relays.capabilities(caller, endpoint, asked.era)

    def hello(self, caller: Caller, endpoint: Endpoint, version: str) -> dict[str, Any]:
        """What a server says of itself: the answer to `initialize` or, in the modern era, to
        `server/discover`. Raises `McpFault`."""
        era = era_of(version)
        capabilities = self.capabilities(caller, endpoint, era)
        if era == "handshake":
            return {
                "protocolVersion": version,
                "capabilities": capabilities,
                "serverInfo": SERVER,
            }
        # With no server behind us everybody is told the same.
        alike = not self._service.host.sources.relays()
        return {
            "resultType": "complete",
            "supportedVersions": list(reversed(KNOWN)),
            "capabilities": capabilities,
            "ttlMs": int(self._service.settings.mcp.ttl * 1000),
            "cacheScope": "public" if alike else "private",
        }

    def capabilities(self, caller: Caller, endpoint: Endpoint, era: Era) -> dict[str, Any]:
        """What can be asked for here. Raises `McpFault`."""
        found: dict[str, Any] = {"tools": {"listChanged": True}, "logging": {}}
        if self._service.host.sources.relays():
            return found | self.relays.capabilities(caller, endpoint, era)
        today(self._service.host, caller, endpoint)
        return found

    async def told(
        self, caller: Caller, endpoint: Endpoint, method: str, params: Any, connection: Any
    ) -> None:
        """A notification. Those that we have a use for, cancelling, belong to the transport; no
        other one has an answer or an effect."""

    async def stop(self) -> None:
        """End the calls that wait for their clients, and everything that is listened to."""
        if "running" in vars(self):
            await self.running.stop()
        if "changes" in vars(self):
            await self.changes.close()


def _signed(asked: Asked, found: dict[str, Any]) -> dict[str, Any]:
    """A result with who gave it, which every one of the newest revision has."""
    if asked.era == "modern":
        meta = found.get("_meta")
        found["_meta"] = {**meta, keys.SERVER: SERVER} if meta else _META
    return found


_PLAIN = frozenset({str, int, float, bool})
_PIECES = (
    b'{"content":[{"type":"text","text":',
    b'}],"structuredContent":',
    b',"resultType":"complete","_meta":%b}' % encode(_META),
)


def plain_result(result: ToolResult) -> bytes | None:
    """What `ended` comes to in the newest revision, as JSON, for a tool of ours that gave a plain
    value and nothing else; None for any other ending."""
    output = result.output
    if (
        result.error is not None
        or type(output) not in _PLAIN
        or result.content is not None
        or result.truncated is not None
        or result.metadata
    ):
        return None
    value = encode(output)
    text = value if type(output) is str else b'"%b"' % value
    head, middle, tail = _PIECES
    return b"".join((head, text, middle, value, tail))
