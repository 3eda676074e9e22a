"""The provider `mcp`: the tools of one server that speaks the Model Context Protocol."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, cast

from toolcrib.core.context import ToolContext
from toolcrib.core.link import UpstreamError
from toolcrib.core.protocols import Workshop
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import Denial, ToolFailure
from toolcrib.net.client import Client
from toolcrib.protocol.mcp.definitions import KIND
from toolcrib.providers.mcp.calling import call_plain, call_relay, call_tool
from toolcrib.providers.mcp.connecting import Connector
from toolcrib.providers.mcp.exchange import Lost
from toolcrib.providers.mcp.listing import Listing, list_tools
from toolcrib.providers.mcp.relay import McpRelay
from toolcrib.providers.mcp.settings import McpSettings, read_settings
from toolcrib.providers.mcp.signing import Credentials, Signer
from toolcrib.providers.mcp.upstream import Upstream


class McpProvider:
    """Connects when it is entered, and holds the connection until it is left."""

    kind = KIND

    def __init__(
        self,
        settings: McpSettings,
        workshop: Workshop,
        *,
        client: Client | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.name = settings.name
        self._settings = settings
        self._client = client or Client()
        self._signer = Signer(settings.headers, credentials)
        self._changed: Callable[[], None] = _nobody
        connector = Connector(
            settings, workshop, self._signer, self._client, changed=lambda: self._changed()
        )
        self._upstream = Upstream(settings.name, connector)
        self._listing = Listing()
        self.relay = McpRelay(settings.name, settings.prefix, self._upstream)

    @property
    def problems(self) -> list[str]:
        """What of the server's list could not be taken, and why."""
        return self._listing.problems

    @property
    def server(self) -> Mapping[str, Any]:
        """What the server says it is."""
        return self._upstream.session.server

    def follow(self, changed: Callable[[], None]) -> None:
        """Have `changed` called when the tools are others, or the server is gone."""
        self._changed = changed

    async def __aenter__(self) -> McpProvider:
        try:
            await self._upstream.open()
        except BaseException as error:
            await self._let_go()
            if isinstance(error, UpstreamError):
                text = f"the server refused the greeting: {error.message[:500]} ({error.code})"
                raise ToolFailure(text, reason="tool_unavailable") from error
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._let_go()

    async def _let_go(self) -> None:
        try:
            await self._upstream.aclose()
        finally:
            await self._signer.aclose()
            await self._client.aclose()

    async def list_tools(self) -> Sequence[ToolSpec]:
        """The server's tools, in the order of their names; and tools for its resources and
        prompts."""
        try:
            listing = await list_tools(self._upstream, self._settings)
        except UpstreamError as error:
            text = f"the server does not list its tools: {error.message[:500]} ({error.code})"
            raise ToolFailure(text, reason="tool_unavailable") from error
        self._listing = listing
        self.relay.tools = listing.relays
        return [listing.specs[name] for name in sorted(listing.specs)]

    async def health(self) -> None:
        """Raise when the server does not answer. One that is at work is left alone: some answer
        nothing else meanwhile."""
        session = self._upstream.session
        if session.lost is not None:
            raise Lost(session.lost)
        if not session.busy:
            try:
                modern = session.era == "modern"
                await self._upstream.ask("server/discover" if modern else "ping")
            except UpstreamError:
                return  # an answer, if an unfriendly one

    def execute(self, ctx: ToolContext) -> Coroutine[Any, Any, Any]:
        """Run one call."""
        given = ctx.spec
        name = ctx.tool if given is None else given.name
        spec = self._listing.specs.get(name)
        if spec is None:
            raise ToolFailure(f"{self.name} has no tool {ctx.tool}", reason="unknown_tool")
        if given is not None and spec is not given and not spec.defines(given):
            # The list was read anew after the call was decided on.
            raise Denial("definition_changed", "the tool changed while the call waited")
        plain = self._listing.plain(spec)
        if plain is not None:
            return call_plain(self._upstream, plain, ctx)
        if "relay" in spec.config:
            return call_relay(self._upstream, spec, ctx)
        return call_tool(self._upstream, spec, ctx, self._listing.mirrors.get(name, ()))


def factory(
    name: str,
    settings: Mapping[str, Any],
    workshop: Workshop,
    *,
    client: Client | None = None,
    show: Any = None,
) -> McpProvider:
    """The provider that a configuration describes. `show` puts a page for signing in before a
    person; a gateway has nobody to show it to."""
    read = read_settings(name, settings, workshop)
    credentials: Credentials | None = None
    if settings.get("auth") is not None:
        from toolcrib.providers.mcp.oauth.build import oauth_for

        credentials = cast("Credentials | None", oauth_for(name, settings, workshop, show=show))
    return McpProvider(read, workshop, client=client, credentials=credentials)


def _nobody() -> None:
    """Nobody follows yet."""
