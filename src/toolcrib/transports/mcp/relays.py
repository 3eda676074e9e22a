"""What clients want of the servers behind the host besides their tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from toolcrib.core.link import Era
from toolcrib.core.result import ToolResult
from toolcrib.protocol.mcp import codes
from toolcrib.protocol.mcp.hops import passed_on
from toolcrib.protocol.mcp.keys import TASKS
from toolcrib.protocol.mcp.results import failure, upstream_error
from toolcrib.reasons import reason as reason_row
from toolcrib.transports.caller import Caller
from toolcrib.transports.mcp.asked import Asked, Channel, Endpoint
from toolcrib.transports.mcp.catalogue import Item
from toolcrib.transports.mcp.changes import Changes
from toolcrib.transports.mcp.completion import complete
from toolcrib.transports.mcp.definitions import PROMPTS, RESOURCES, TEMPLATES, Kind
from toolcrib.transports.mcp.faults import McpFault, invalid, unknown_method
from toolcrib.transports.mcp.levels import checked
from toolcrib.transports.mcp.offers import Offers, What, offers_for
from toolcrib.transports.mcp.paging import page
from toolcrib.transports.mcp.passing import passing
from toolcrib.transports.mcp.tasks import Tasks
from toolcrib.transports.mcp.watching import bounded
from toolcrib.transports.service import Service

MakeCall = Callable[
    [Caller, Endpoint, Asked, Channel, str, Mapping[str, Any]],
    Awaitable["ToolResult | dict[str, Any]"],
]
"""One call for a client: its ending, or an answer that input is needed."""

_KINDS = {kind.method: kind for kind in (PROMPTS, RESOURCES, TEMPLATES)}
_OF_CONNECTIONS = frozenset({"logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
_OF_TASKS = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})
_OF_MODERN = frozenset({"resultType", "ttlMs", "cacheScope"})


class Relays:
    """Answers what `METHODS` names, for every client of one service."""

    METHODS = frozenset(
        {*_KINDS, *_OF_CONNECTIONS, *_OF_TASKS}
        | {"prompts/get", "resources/read", "completion/complete"}
    )

    def __init__(self, service: Service, run: MakeCall, changes: Changes) -> None:
        """`run` makes calls for clients; those that a caller may not make it refuses."""
        self._service = service
        self._host = service.host
        self._run = run
        self._changes = changes
        self.tasks = Tasks(service.host, changes.upstreams)

    def capabilities(self, caller: Caller, endpoint: Endpoint, era: Era) -> dict[str, Any]:
        """What to advertise besides tools: what the caller may have of servers that are known."""
        held = offers_for(self._host, caller, endpoint)
        found: dict[str, Any] = {"logging": {}}
        for upstream in self._changes.upstreams.all():
            prompts = held.sees(upstream, "prompts") is not None
            resources = held.sees(upstream, "resources") is not None
            if prompts:
                found["prompts"] = {"listChanged": True}
            if resources:
                one = found.setdefault("resources", {"listChanged": True})
                if upstream.has("resources", "subscribe"):
                    one["subscribe"] = True
            if (prompts or resources) and upstream.has("completions"):
                found["completions"] = {}
        upstreams = self._changes.upstreams.all() if era == "modern" else ()
        if any(up.has("extensions", TASKS) and held.knows(up.name) for up in upstreams):
            found["extensions"] = {TASKS: {}}
        return found

    async def answer(
        self, caller: Caller, endpoint: Endpoint, asked: Asked, channel: Channel
    ) -> dict[str, Any]:
        """The result of one request. Raises `McpFault`."""
        method, modern = asked.method, asked.era == "modern"
        held = offers_for(self._host, caller, endpoint)
        if method in _OF_CONNECTIONS and not modern:
            return await self._on_connection(caller, endpoint, asked, channel)
        if method in _KINDS:
            made = await self._list(held, _KINDS[method], asked)
        elif method == "prompts/get":
            made = await self._get_prompt(held, caller, endpoint, asked, channel)
        elif method == "resources/read":
            made = await self._read_resource(held, caller, endpoint, asked, channel)
        elif method == "completion/complete":
            with passing(asked, channel, self._host.redactor.secrets_in):
                made = _for_era(await complete(self._changes.owners, held, asked.params), modern)
        elif method in _OF_TASKS and modern:
            with passing(asked, channel, self._host.redactor.secrets_in):
                made = _for_era(await self.tasks.answer(held, asked), modern)
        else:
            raise unknown_method(method)
        return made

    def _any(self, held: Offers, what: What) -> bool:
        """Whether any server has something of that for the caller: else it is not declared."""
        return any(held.sees(up, what) is not None for up in self._changes.upstreams.all())

    # Lists.

    async def _list(self, held: Offers, kind: Kind, asked: Asked) -> dict[str, Any]:
        view = await self._changes.catalogue.view(held, kind)
        settings = self._service.settings.mcp
        made = page(kind, view, asked.params.get("cursor"), settings.page, _may(held, kind))
        if asked.era == "modern":
            made["resultType"] = "complete"
            made["ttlMs"] = round(settings.ttl * 1000)
            made["cacheScope"] = "private"
        return made

    # Calls.

    async def _get_prompt(
        self, held: Offers, caller: Caller, endpoint: Endpoint, asked: Asked, channel: Channel
    ) -> dict[str, Any]:
        name = _text(asked, "name")
        arguments: dict[str, Any] = {}
        given = asked.params.get("arguments")
        if given is not None:
            if not isinstance(given, dict):
                raise invalid("prompts/get: arguments has to be an object")
            arguments["arguments"] = cast("dict[str, Any]", given)
        owners = self._changes.owners
        owner = await owners.prompt(held, name) or await owners.hidden(held, "prompts", name)
        if self._any(held, "prompts"):
            missing = invalid(f"prompts/get: there is no prompt called {ascii(name)[:200]}")
        else:
            missing = unknown_method(asked.method)
        if owner is None:
            raise missing
        tool = owner.upstream.tools["prompts"]
        arguments["name"] = owner.key
        result = await self._run(caller, endpoint, asked, channel, tool, arguments)
        return _for_era(_raw(result, asked, missing), asked.era == "modern")

    async def _read_resource(
        self, held: Offers, caller: Caller, endpoint: Endpoint, asked: Asked, channel: Channel
    ) -> dict[str, Any]:
        uri = _text(asked, "uri")
        modern = asked.era == "modern"
        owners = self._changes.owners
        # Of several servers one that is hidden may be meant; of none, nobody is.
        owner = await owners.uri(held, uri) or await owners.hidden(held, "resources", uri)
        seen = self._any(held, "resources")
        missing = _no_resource(uri, modern) if seen else unknown_method(asked.method)
        if owner is None:
            raise missing
        tool = owner.upstream.tools["resources"]
        result = await self._run(caller, endpoint, asked, channel, tool, {"uri": uri})
        made = _for_era(_raw(result, asked, missing), modern)
        if modern and made["resultType"] == "complete":
            ttl = made.get("ttlMs")
            made["ttlMs"] = ttl if type(ttl) is int and ttl >= 0 else 0
            made["cacheScope"] = "private"
        return made

    # What a connection keeps.

    async def _on_connection(
        self, caller: Caller, endpoint: Endpoint, asked: Asked, channel: Channel
    ) -> dict[str, Any]:
        connection: Any = getattr(channel, "connection", None)
        if connection is None:
            raise unknown_method(asked.method)
        if asked.method == "logging/setLevel":
            connection.log_level = checked(asked.params.get("level"))
            connection.follow()
            return {}
        uri = _text(asked, "uri")
        if asked.method == "resources/unsubscribe":
            connection.uris.discard(uri)
            connection.follow()
            return {}
        bounded({*connection.uris, uri})

        def join() -> None:
            connection.uris.add(uri)
            connection.follow()

        if uri not in connection.uris:
            await self._changes.subscribe(caller, endpoint, uri, join)
        return {}


def _may(held: Offers, kind: Kind) -> Callable[[Item], bool]:
    """Whether an entry may be shown: what rules refuse is not listed."""

    def may(item: Item) -> bool:
        plan = held.sees(item.upstream, kind.what)
        if plan is None:
            return False
        if kind is TEMPLATES:
            return True  # what it stands for is not known before it is filled in
        return held.may(plan, {"name" if kind.named else "uri": item.key})

    return may


def _raw(result: ToolResult | dict[str, Any], asked: Asked, missing: McpFault) -> dict[str, Any]:
    """What the server answered. Raises `McpFault` for a call that did not end well."""
    if isinstance(result, dict):
        return result
    error = upstream_error(result)
    if error is not None:
        code, data = error.code, error.data
        if missing.data is not None and code in (codes.RESOURCE_NOT_FOUND, codes.INVALID_PARAMS):
            # The eras have different codes for a resource that there is not.
            named = _uri_in(data) == missing.data["uri"]
            if code == codes.RESOURCE_NOT_FOUND or named:
                code, data = missing.code, data if named else missing.data
        raise McpFault(code, error.message, data, http=200)
    if result.reason == "unknown_tool":
        raise missing  # the caller is not to know that there is one
    if result.error is not None:
        row = reason_row(result.error.reason, result.status)
        code = row.http if row.http >= 400 else 500
        raise McpFault(code, result.error.message, failure(result), http=code)
    output: Any = result.output
    if not isinstance(output, dict):  # a text, cut where it became too long
        text = "what the server answered is larger than may be passed on. Ask for less of it"
        raise McpFault(413, text, {"reason": "output_too_large"}, http=200)
    return cast("dict[str, Any]", output)


def _for_era(raw: dict[str, Any], modern: bool) -> dict[str, Any]:
    """A server's answer without what its own hop said, as the client's revision writes it."""
    made = passed_on({k: v for k, v in raw.items() if modern or k not in _OF_MODERN})
    if modern:
        made.setdefault("resultType", "complete")
    return made


def _uri_in(data: Any) -> Any:
    return cast("dict[str, Any]", data).get("uri") if isinstance(data, dict) else None


def _no_resource(uri: str, modern: bool) -> McpFault:
    code = codes.INVALID_PARAMS if modern else codes.RESOURCE_NOT_FOUND
    return McpFault(code, f"there is no resource {ascii(uri)[:500]}", {"uri": uri})


def _text(asked: Asked, name: str) -> str:
    found = asked.params.get(name)
    if not isinstance(found, str) or not found:
        raise invalid(f"{asked.method}: {name} has to be text")
    return found
