"""Tools that run in a connected client: the host asks it, and the whole path of a call applies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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


class _Offered(msgspec.Struct, frozen=True):
    """A tool of the connection's, and the session that has it."""

    session: Session
    entry: Entry
    size: int

    @property
    def there(self) -> bool:
        """Whether it is: the session may have ended, or another connection taken its place."""
        return self.session.entries.get(self.entry.name) is self.entry


class ClientTools:
    """The tools that one connection offers. Only its own session has them, or another one of the
    same principal that it names; and only it answers."""

    def __init__(self, client: Client, host: ToolHost, find: Callable[[str], Session]) -> None:
        """`find` gives a session of the caller's own by its id, or raises `Fault`."""
        self._client = client
        self._host = host
        self._find = find
        self._loop = asyncio.get_running_loop()
        self._offered: dict[tuple[str, str], _Offered] = {}
        """By session and name."""
        self._running: dict[str, ToolContext] = {}
        """By call id; those that the client works on."""

    def register(self, asked: m.ToolsRegister) -> m.Names:
        """Offer tools: all of them, or none and a `Fault` that says why."""
        session = self._session(asked.session)
        self._offered = {key: each for key, each in self._offered.items() if each.there}
        sizes = {tool.name: len(msgspec.json.encode(tool)) for tool in asked.tools}
        self._check_limits(asked, session, sizes)
        entries = [self._entry(tool, session, asked.session) for tool in asked.tools]
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
        for entry in entries:
            offered = _Offered(session, entry, sizes[entry.name])
            self._offered[session.id, entry.name] = offered
        return m.Names(names=[entry.name for entry in entries])

    def unregister(self, asked: m.ToolsUnregister) -> m.Names:
        """Take tools back; calls that run finish. Gives those that were there."""
        session = self._session(asked.session)
        found = [(name, self._offered.pop((session.id, name), None)) for name in asked.names]
        return m.Names(names=[name for name, each in found if each and _taken_back(each)])

    def close(self) -> None:
        """The connection ends, and its session with it: take back what other sessions have."""
        for each in self._offered.values():
            if each.session is not self._client.caller.session:
                _taken_back(each)
        self._offered.clear()

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

    def _session(self, id: str | None) -> Session:
        session = self._client.caller.session if id is None else self._find(id)
        if session is None or session.closed:
            raise Fault("not_found", "this connection has no open session to offer tools in")
        return session

    def _check_limits(
        self, asked: m.ToolsRegister, session: Session, sizes: dict[str, int]
    ) -> None:
        if len(sizes) < len(asked.tools):
            raise Fault("invalid_request", "two of the tools have the same name")
        long = next((name for name, size in sizes.items() if size > LONGEST), None)
        if long is not None:
            raise Fault(
                "quota_exceeded", f"the tool {long[:128]!r} is over {LONGEST} bytes of JSON"
            )
        after = {key: each.size for key, each in self._offered.items()}
        after |= {(session.id, name): size for name, size in sizes.items()}
        if len(after) > MOST_TOOLS:
            raise Fault("quota_exceeded", f"a connection may offer {MOST_TOOLS} tools")
        if sum(after.values()) > MOST_BYTES:
            raise Fault(
                "quota_exceeded", f"a connection's tools may have {MOST_BYTES} bytes of JSON"
            )

    def _entry(self, tool: m.ClientTool, session: Session, named: str | None) -> Entry:
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

        async def execute(ctx: ToolContext) -> Any:
            return await self._execute(ctx, named)

        entry = Entry(spec, execute, owner=owner, defaults=fill_defaults(schema))
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
        if replace and self._replaceable(session, entry.name):
            session.unregister(entry.name)
        session.register(entry)

    def _replaceable(self, session: Session, name: str) -> bool:
        """Whether a session's tool is this connection's; or a client's in a session that outlives
        connections, where a client that comes back may be here before its loss is noticed."""
        if (session.id, name) in self._offered:
            return True
        there = session.entries.get(name)
        return there is not None and there.spec.kind == KIND and session.idle is not None

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

    async def _execute(self, ctx: ToolContext, named: str | None) -> Any:
        if self._host.catalog.get(ctx.tool) is not None:
            # One of the host came later; the host's own tools rely on it, and not on a client.
            held: Any = ctx.session
            mine = self._offered.pop((held.id, ctx.tool), None)
            if mine is not None:
                _taken_back(mine)
            text = f"{ctx.tool} is a tool of the host now, and not the client's. Call it again"
            raise ToolFailure(text, reason="tool_unavailable", retryable=True)
        if asyncio.get_running_loop() is self._loop:
            return await self._ask(ctx, named)
        # Whoever calls from another thread waits there; the connection stays in its own.
        asking = asyncio.run_coroutine_threadsafe(self._ask(ctx, named), self._loop)
        return await asyncio.wrap_future(asking)

    async def _ask(self, ctx: ToolContext, named: str | None) -> Any:
        asked = m.ClientCall(
            call_id=ctx.call_id,
            tool=ctx.tool,
            arguments=ctx.arguments,
            timeout=ctx.remaining,
            session=named,
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


def _taken_back(offered: _Offered) -> bool:
    """Whether a tool was there; it is not any more."""
    return offered.there and offered.session.unregister(offered.entry.name)


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
