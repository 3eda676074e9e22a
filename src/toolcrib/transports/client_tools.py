"""Tools that run in a connected client: the host asks it, and the whole path of a call applies."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol, cast

import msgspec

from toolcrib.core.context import ToolContext
from toolcrib.core.entry import Entry
from toolcrib.core.result import ToolResult
from toolcrib.core.schema import admit, fill_defaults
from toolcrib.core.spec import NO_ARGUMENTS, Effect, ToolSpec
from toolcrib.errors import ConfigError, NameTaken, ToolFailure
from toolcrib.host.host import ToolHost
from toolcrib.host.session import Session
from toolcrib.protocol.jsonrpc import Response
from toolcrib.transports import models as m
from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault

KIND = "client"
MOST_TOOLS = 256
"""Tools of one connection."""
MOST_BYTES = 1_048_576
"""All their descriptions and schemas, as JSON."""
LONGEST = 65_536
"""One of them."""
_WORDS = 4000
"""Characters of what a client says went wrong."""


class Client(Protocol):
    """A connection, as far as its tools need it."""

    caller: Caller

    def ask(self, method: str, params: Any) -> asyncio.Future[Response]: ...
    def notify(self, method: str, params: Any) -> None: ...


class ClientTools:
    """The tools that one connection offers. Only its own session has them, and only it answers."""

    def __init__(self, client: Client, host: ToolHost) -> None:
        self._client = client
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._sizes: dict[str, int] = {}
        """By name; those that are registered."""
        self._running: dict[str, ToolContext] = {}
        """By call id; those that the client works on."""

    def register(self, asked: m.ToolsRegister) -> m.Names:
        """Offer tools: all of them, or none and a `Fault` that says why."""
        session = self._session()
        sizes = {tool.name: len(msgspec.json.encode(tool)) for tool in asked.tools}
        self._check_limits(asked, sizes)
        entries = [self._entry(tool, session) for tool in asked.tools]
        before = dict(session.entries)
        try:
            for entry in entries:
                self._add(session, entry, asked.replace)
        except NameTaken as error:
            for name, entry in list(session.entries.items()):
                if entry is not before.get(name):
                    session.unregister(name)
            for name in before.keys() - session.entries.keys():
                session.register(before[name])
            raise self._taken(session, error) from None
        self._sizes |= sizes
        return m.Names(names=[entry.name for entry in entries])

    def unregister(self, asked: m.ToolsUnregister) -> m.Names:
        """Take tools back; calls that run finish. Gives those that were there."""
        session = self._session()
        gone = [name for name in asked.names if self._sizes.pop(name, None) is not None]
        return m.Names(names=[name for name in gone if session.unregister(name)])

    def progress(self, params: Any) -> None:
        """A client says how far a call is; what is not about a call of this connection's own
        tools is not heard."""
        try:
            said = msgspec.convert(params, m.ClientProgress)
        except msgspec.ValidationError:
            return
        ctx = self._running.get(said.call_id)
        if ctx is not None:
            words = None if said.message is None else said.message[:_WORDS]
            ctx.progress(said.fraction, words)

    def _session(self) -> Session:
        session = self._client.caller.session
        if session is None or session.closed:
            raise Fault("not_found", "this connection has no open session to offer tools in")
        return session

    def _check_limits(self, asked: m.ToolsRegister, sizes: dict[str, int]) -> None:
        if len(sizes) < len(asked.tools):
            raise Fault("invalid_request", "two of the tools have the same name")
        long = next((name for name, size in sizes.items() if size > LONGEST), None)
        if long is not None:
            raise Fault(
                "quota_exceeded", f"the tool {long[:128]!r} is over {LONGEST} bytes of JSON"
            )
        after = self._sizes | sizes
        if len(after) > MOST_TOOLS:
            raise Fault("quota_exceeded", f"a connection may offer {MOST_TOOLS} tools")
        if sum(after.values()) > MOST_BYTES:
            raise Fault(
                "quota_exceeded", f"a connection's tools may have {MOST_BYTES} bytes of JSON"
            )

    def _entry(self, tool: m.ClientTool, session: Session) -> Entry:
        """A tool as the catalog takes it. Raises `Fault` for a description that cannot be used."""
        schema = tool.input_schema or NO_ARGUMENTS
        owner = f"the client of session {session.id}"
        try:
            admit(schema)
            if tool.output_schema is not None:
                admit(tool.output_schema, where="output_schema")
            effects = None if tool.effects is None else frozenset(tool.effects)
            spec = ToolSpec(
                name=tool.name,
                description=tool.description,
                title=tool.title,
                kind=KIND,
                input_schema=schema,
                output_schema=tool.output_schema,
                effects=cast("frozenset[Effect] | None", effects),
                idempotent=tool.idempotent,
                timeout=tool.timeout,
                category=tool.category,
                tags=frozenset(tool.tags),
                requires_approval=tool.requires_approval,
            )
        except ConfigError as error:
            text = f"the tool {tool.name[:128]!r} cannot be used: {error}"
            raise Fault("invalid_request", text) from None
        entry = Entry(spec, self._execute, owner=owner, defaults=fill_defaults(schema))
        if self._conceals(session) and not self._listed(session, entry):
            # The same words whether or not there is such a tool that the client must not know of.
            text = f"the tool {tool.name!r} cannot be offered: the profile lists none of that name"
            raise Fault("not_permitted", text)
        return entry

    def _add(self, session: Session, entry: Entry, replace: bool) -> None:
        catalog = self._host.catalog
        # Models call tools by their wire names, which must not lead to another tool either.
        if catalog.get(entry.name) is not None or catalog.get(entry.spec.wire_name) is not None:
            raise NameTaken(f"the name {entry.name!r} is taken", cure="Choose another name")
        if replace and entry.name in self._sizes:
            session.unregister(entry.name)
        session.register(entry)

    def _taken(self, session: Session, error: NameTaken) -> Fault:
        text = "a name is taken, or looks like one that is. Choose another name"
        return Fault("invalid_request", text if self._conceals(session) else str(error))

    def _conceals(self, session: Session) -> bool:
        rules = self._host.callers.profile(self._profile(session))
        return rules is not None and rules.conceal

    def _listed(self, session: Session, entry: Entry) -> bool:
        rules = self._host.callers.profile(self._profile(session))
        return self._host.planner.compile(entry, rules).listed(session.principal)

    def _profile(self, session: Session) -> str | None:
        return self._host.callers.resolve(None, None, session).profile

    # Running them.

    async def _execute(self, ctx: ToolContext) -> Any:
        if asyncio.get_running_loop() is self._loop:
            return await self._ask(ctx)
        # Whoever calls from another thread waits there; the connection stays in its own.
        asking = asyncio.run_coroutine_threadsafe(self._ask(ctx), self._loop)
        return await asyncio.wrap_future(asking)

    async def _ask(self, ctx: ToolContext) -> Any:
        asked = m.ClientCall(
            call_id=ctx.call_id, tool=ctx.tool, arguments=ctx.arguments, timeout=ctx.remaining
        )
        answer = self._client.ask("client.call", asked)
        sent = not answer.done()
        self._running[ctx.call_id] = ctx
        try:
            return _result(ctx, await answer)
        except Fault as fault:
            text = f"the client that offers {ctx.tool} went away"
            raise ToolFailure(text, reason=fault.reason, still_running=sent) from None
        except asyncio.CancelledError:
            # It is asked to stop; whether it does is not for the host to say.
            ctx.still_running = True
            self._client.notify("client.cancel", {"call_id": ctx.call_id})
            raise
        finally:
            self._running.pop(ctx.call_id, None)


def _result(ctx: ToolContext, response: Response) -> ToolResult:
    """What a client answered. Raises `ToolFailure` for anything but an output."""
    if response.error is not None:
        words = response.error.get("message")
        text = words if isinstance(words, str) and words else f"{ctx.tool} failed in the client"
        raise ToolFailure(text[:_WORDS])
    try:
        answer = msgspec.convert(response.result, m.ClientAnswer)
    except msgspec.ValidationError:
        text = "the client answered with something that is no answer"
        raise ToolFailure(text, reason="invalid_output") from None
    if answer.error is not None:
        raise ToolFailure(answer.error[:_WORDS], reason=answer.reason or "tool_error")
    return ToolResult(output=answer.output, content=answer.content)
