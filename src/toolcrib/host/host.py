"""The running whole."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolcrib.approvals.approvers import as_approver
from toolcrib.catalog.catalog import Catalog, Change
from toolcrib.core.context import LOCAL, ToolContext
from toolcrib.core.decision import Decision, Explanation, Step
from toolcrib.core.entry import Entry
from toolcrib.core.events import NOTHING, CallRecord, Event
from toolcrib.core.principal import Principal
from toolcrib.core.profile import Profile
from toolcrib.core.protocols import Exporter, Extension, Gate, Store
from toolcrib.core.result import Failure, ToolResult
from toolcrib.core.settings import HostConfig, HostSettings
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import ConfigError, NotFound, SpecError
from toolcrib.executors.python import PythonExecutor
from toolcrib.host.approvals import Approvals
from toolcrib.host.entries import Entries
from toolcrib.host.parts import Parts, start_parts
from toolcrib.host.plugins import Registrar
from toolcrib.host.session import Session
from toolcrib.host.tool import Tool
from toolcrib.observe.bus import Bus
from toolcrib.observe.metrics import Metrics
from toolcrib.observe.redact import Redactor
from toolcrib.pipeline.explain import explain
from toolcrib.pipeline.limits import Limits
from toolcrib.pipeline.plan import Plan
from toolcrib.reasons import reason as reason_row

_MOST_PLANS = 8192


class ToolHost:
    """Holds tools and runs calls: the one object an embedder needs.

    The constructor does no input or output; `register`, `tools` and `explain` work at once.
    `async with`, or the first call, starts it.
    """

    def __init__(
        self,
        tools: Iterable[Any] = (),
        *,
        config: str | Path | Mapping[str, Any] | HostConfig | None = None,
        store: str | Store = "memory",
        approver: Any = None,
        gates: Sequence[Gate] = (),
        extensions: Sequence[Extension] = (),
        exporters: Sequence[Exporter] = (),
    ) -> None:
        self.catalog = Catalog()
        self.metrics = Metrics()
        self.approvals = Approvals(self._ready_inbox)
        self.bus = Bus()
        self.redactor = Redactor()
        self._config_source = config
        self._config = HostConfig()
        self._loaded = config is None
        self._store = store
        self._approver = as_approver(approver)
        self._gates = tuple(gates)
        self._extensions = tuple(extensions)
        self._exporters = tuple(exporters)
        self._python = PythonExecutor()
        self._entries = Entries(self._python)
        self.registrar = Registrar()
        """What plug-ins and built-in parts offer by name."""
        self.configured: frozenset[str] = frozenset()
        """The tools that came from the configuration; a reload replaces them."""
        self._limits = Limits()
        self._plans: dict[str | None, dict[str, Plan]] = {None: {}}
        self._default_profile: str | None = None
        self._parts: Parts | None = None
        self._run: Callable[..., Coroutine[Any, Any, ToolResult]] | None = None
        self._lock = threading.RLock()
        self._sessions: dict[str, Session] = {}
        self._named: dict[str, Principal] = {}
        """Callers that were given by name only; the same object each time."""
        self._closed = False
        self.catalog.on_change(self._catalog_changed)
        for thing in tools:
            self.register(thing)

    @classmethod
    def from_config(cls, path: str | Path, **options: Any) -> ToolHost:
        """A host as the configuration file says. Raises `ConfigError` with file and line."""
        host = cls(config=path, **options)
        host.load()
        return host

    # Configuration.

    def load(self) -> None:
        """Read and apply the configuration, if that has not happened yet."""
        if self._loaded:
            return
        with self._lock:
            if self._loaded:
                return
            from toolcrib.host.load import load_into, read_config

            config = read_config(self._config_source)
            load_into(self, config)
            self._loaded = True

    async def reload(self) -> None:
        """Read the configuration again. A wrong file changes nothing and raises `ConfigError`."""
        from toolcrib.host.load import load_into, read_config

        try:
            with self._lock:
                load_into(self, read_config(self._config_source))
                self._loaded = True
        except ConfigError as error:
            self.announce_fact("config.rejected", {"message": str(error)})
            raise
        self.announce_fact("config.loaded", {"files": list(self._config.sources)})

    @property
    def config(self) -> HostConfig:
        """The configuration in force."""
        self.load()
        return self._config

    def apply(self, config: HostConfig) -> None:
        """Put profiles and settings in force; plans are made anew."""
        with self._lock:
            self._config = config
            if config.settings.profile is not None:
                self._default_profile = config.settings.profile
            else:
                self._default_profile = next(iter(config.profiles), None)
            self.redactor = Redactor(config.settings.redact, config.secrets)
            self._plans = {name: {} for name in config.profiles}
            chosen = config.settings.profile is not None or len(config.profiles) == 1
            default = self._default_profile if chosen else None
            # Calls that name no profile find the plans of the default one.
            self._plans[None] = self._plans[default] if default in self._plans else {}
            if self._parts is not None:
                self._parts.renew(config.settings, self.redactor)

    @property
    def settings(self) -> HostSettings:
        """The host's own settings."""
        return self._config.settings

    # Tools.

    def register(self, thing: Any, *, replace: bool = False) -> None:
        """Add a function, a `ToolSpec` or a tool object. Raises `NameTaken` or `SpecError`."""
        self.catalog.register(self._entries.make(thing), replace=replace)

    def unregister(self, name: str) -> bool:
        """Remove a tool; calls that run finish. False when there is none of that name."""
        return self.catalog.unregister(name)

    def get(self, name: str) -> ToolSpec | None:
        """The spec under a name, `name@version` or wire name."""
        self.load()
        entry = self.catalog.get(name)
        return None if entry is None else entry.spec

    def entry_for(self, thing: Any, *, owner: str | None = None) -> Entry:
        """What `register` would put into the catalog."""
        return self._entries.make(thing, owner=owner)

    @property
    def entries(self) -> Entries:
        """Makes catalog entries; plug-ins add executors to it."""
        return self._entries

    def tools(
        self,
        *,
        profile: str | None = None,
        principal: Principal | str | None = None,
        session: Session | str | None = None,
        format: str | None = None,
    ) -> list[Any]:
        """The tools a caller may call: bound `Tool`s, or a model provider's list of dicts.

        What is listed and what can be called is decided by the same code.
        """
        self.load()
        held = self._session(session)
        who = held.principal if held is not None else self._principal(principal)
        name = self._profile_name(held.profile if held is not None else profile)
        found: list[Tool] = []
        seen = dict(self.catalog.snapshot())
        if held is not None:
            seen |= held.entries
        for tool_name, entry in seen.items():
            plan = self._plan(tool_name, name, held)
            if plan is None:
                continue
            down = entry.unavailable
            refusal = plan.refused(who)
            if refusal is None or (down is not None and refusal.reason == down.reason):
                found.append(
                    Tool(
                        plan.spec,
                        self,
                        principal=who,
                        profile=name,
                        session=held,
                        unavailable=None if down is None else down.message,
                    )
                )
        found.sort(key=lambda tool: tool.name)
        if format is None:
            return found
        from toolcrib.catalog.formats import export

        return export([tool.spec for tool in found], format)

    def _catalog_changed(self, change: Change) -> None:
        for plans in self._plans.values():
            plans.pop(change.name, None)
        if self._parts is not None:
            data = {"change": change.kind, "tool": change.name, "version": change.version}
            self.announce_fact("catalog.changed", data)

    def session_changed(self, session: Session) -> None:
        """A session's own tools changed."""
        data = {"change": "session", "session": session.id}
        self.announce_fact("catalog.changed", data)

    # Calls.

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        principal: Principal | str | None = None,
        profile: str | None = None,
        session: Session | str | None = None,
        timeout: float | None = None,
        call_id: str | None = None,
    ) -> Coroutine[Any, Any, ToolResult]:
        """Call a tool. Never raises for something that is about the call: the result says it.

        `timeout` limits the tool's own work in seconds; waiting for a person has its own clock.
        """
        run = self._run
        if run is not None and session is None and type(principal) is not str:
            plans = self._plans.get(profile)
            if plans is not None and name in plans:
                return run(plans[name], principal or LOCAL, None, arguments, timeout, call_id)
        return self._call(name, arguments, principal, profile, session, timeout, call_id)

    async def _call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        principal: Principal | str | None,
        profile: str | None,
        session: Session | str | None,
        timeout: float | None,
        call_id: str | None,
        door: str = "python",
        parent: ToolContext | None = None,
    ) -> ToolResult:
        parts = await self.start()
        try:
            held = self._session(session)
        except NotFound as error:
            return self._stray(name, self._principal(principal), "unauthenticated", str(error))
        who = held.principal if held is not None else self._principal(principal)
        wanted = profile
        if held is not None:
            door = held.door
            if profile is None:
                wanted = held.profile
        problem = self._profile_problem(who, wanted)
        if problem is not None:
            return self._stray(name, who, "not_in_profile", problem, call_id, held)
        plan = self._plan(name, self._profile_name(wanted), held)
        if plan is None:
            close = self.catalog.suggest(name)
            hint = f". Did you mean {close}?" if close else ""
            return self._stray(
                name, who, "unknown_tool", f"{name}: no such tool{hint}", call_id, held
            )
        return await parts.pipeline.run(plan, who, held, arguments, timeout, call_id, door, parent)

    async def nested(
        self,
        ctx: ToolContext,
        name: str,
        arguments: Mapping[str, Any] | None,
        timeout: float | None,
    ) -> ToolResult:
        """A call made by a tool: the same principal, profile and session, one level deeper."""
        left = ctx.remaining
        if left is not None:
            timeout = left if timeout is None else min(timeout, left)
        profile = ctx.profile.name if ctx.profile is not None else None
        session: Any = ctx.session
        return await self._call(
            name, arguments, ctx.principal, profile, session, timeout, None, ctx.door, ctx
        )

    def announce(self, ctx: ToolContext, type: str, data: dict[str, Any]) -> None:
        """Something a running tool has to say."""
        if self._parts is None:
            return
        if type == "tool.emitted":
            self._parts.trail.fact(type, ctx.call_id, self.redactor.value(data))
        elif self.bus.active:
            self.bus.publish(
                Event(
                    id="",
                    type=type,
                    time=time.time(),
                    call_id=ctx.call_id,
                    data={"tool": ctx.tool, **self.redactor.value(data)},
                )
            )

    def announce_fact(self, type: str, data: dict[str, Any], call_id: str | None = None) -> None:
        """Put an event on the trail, secrets hidden."""
        if self._parts is not None:
            self._parts.trail.fact(type, call_id, self.redactor.value(data))

    def cancel(self, call_id: str) -> bool:
        """Stop a running or waiting call; false when there is none of that id."""
        return self._parts is not None and self._parts.pipeline.cancel(call_id)

    def explain(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        principal: Principal | str | None = None,
        profile: str | None = None,
        session: Session | str | None = None,
    ) -> Explanation:
        """What would happen to a call, and why. The code of the real decision; nothing runs."""
        self.load()
        held = self._session(session)
        who = held.principal if held is not None else self._principal(principal)
        wanted = profile if profile is not None or held is None else held.profile
        chosen = self._profile_name(wanted)
        problem = self._profile_problem(who, wanted)
        if problem is not None:
            return _refused(name, who, chosen, "not_in_profile", problem)
        plan = self._plan(name, chosen, held)
        if plan is None:
            close = self.catalog.suggest(name)
            hint = f". Did you mean {close}?" if close else ""
            return _refused(name, who, chosen, "unknown_tool", f"no such tool{hint}")
        return explain(plan, who, held, arguments, self.redactor, self.settings.max_arguments)

    # Sessions.

    def session(
        self,
        *,
        principal: Principal | str | None = None,
        profile: str | None = None,
        cwd: str | Path | None = None,
        environment: Mapping[str, str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        door: str = "python",
    ) -> Session:
        """A principal's stay: `async with host.session(…) as session`."""
        self.load()
        who = self._principal(principal)
        problem = self._profile_problem(who, profile)
        if problem is not None:
            raise ConfigError(problem)
        return Session(
            self,
            principal=who,
            profile=self._profile_name(profile),
            cwd=str(Path(cwd or Path.cwd()).absolute()),
            environment=environment,
            metadata=metadata,
            door=door,
        )

    async def open_session(self, session: Session) -> None:
        """Called by a session that begins."""
        parts = await self.start()
        self._sessions[session.id] = session
        await parts.store.put_session(session.row())
        data = {"session": session.id, "principal": session.principal.name}
        self.announce_fact("session.opened", {**data, "profile": session.profile})

    async def close_session(self, session: Session) -> None:
        """Called by a session that ends."""
        if self._sessions.pop(session.id, None) is None or self._parts is None:
            return
        self._limits.forget_session(session.id)
        await self._parts.store.end_session(session.id, time.time())
        data = {"session": session.id, "principal": session.principal.name}
        self.announce_fact("session.closed", data)

    # Life.

    async def __aenter__(self) -> ToolHost:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def start(self) -> Parts:
        """Open the store and begin to take calls; the first call does it by itself."""
        if self._parts is not None:
            return self._parts
        if self._closed:
            raise SpecError("this host was stopped", cure="Make a new ToolHost")
        self.load()
        with self._lock:
            if self._parts is None:
                self._parts = start_parts(
                    self,
                    store=self._store,
                    settings=self.settings,
                    approver=self._approver,
                    exporters=self._exporters,
                )
            parts = self._parts
        await parts.open()
        if not self._config.principal_profiles:
            self._run = parts.pipeline.run
        return parts

    async def stop(self) -> None:
        """Let running calls end, close sessions, write what is left, close the store."""
        parts = self._parts
        if parts is None or self._closed:
            self._closed = True
            return
        self._closed = True
        self._run = None
        parts.pipeline.stopping = True
        await parts.drain(self.settings.drain)
        for session in list(self._sessions.values()):
            await session.close()
        await parts.close()
        self._python.close()

    async def _ready_inbox(self) -> Any:
        return (await self.start()).inbox

    # Events.

    async def events(self, after: str | None = None) -> AsyncIterator[Event]:
        """Events as they happen; with `after`, first those on the trail behind that event id."""
        parts = await self.start()
        subscription = self.bus.subscribe()
        last = after
        try:
            if after is not None:
                async for event in parts.replay(after):
                    last = event.id
                    yield event
            async for event in subscription:
                if last is not None and event.id and parts.not_after(event.id, last):
                    continue
                yield event
        finally:
            subscription.close()

    def on_event(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Have `callback` told of every event; returns a function that ends it."""
        return self.bus.on_event(callback)

    async def trail(self, *, call_id: str | None = None, limit: int = 1000) -> list[Event]:
        """The newest events on the trail, oldest first; those of one call when its id is given."""
        return await (await self.start()).read_trail(call_id=call_id, limit=limit)

    # Who and what.

    def _principal(self, principal: Principal | str | None) -> Principal:
        if principal is None:
            return self._config.principals.get("local", LOCAL)
        if isinstance(principal, str):
            known = self._config.principals.get(principal) or self._named.get(principal)
            if known is None:
                if len(self._named) > 1000:
                    self._named.clear()
                known = self._named[principal] = Principal(principal)
            return known
        return principal

    def _session(self, session: Session | str | None) -> Session | None:
        if session is None or isinstance(session, Session):
            if session is not None and session.closed:
                raise NotFound(f"the session {session.id} has ended")
            return session
        found = self._sessions.get(session)
        if found is None:
            raise NotFound(f"there is no session {session!r}")
        return found

    def _profile_name(self, profile: str | None) -> str | None:
        return profile if profile is not None else self._default_profile

    def _profile_problem(self, who: Principal, profile: str | None) -> str | None:
        """Why this caller cannot be held to this profile; None when it can."""
        profiles = self._config.profiles
        name = self._profile_name(profile)
        if name is None:
            return None
        if name not in profiles:
            known = ", ".join(profiles) or "none"
            return f"there is no profile {name!r}; known: {known}"
        allowed = self._config.principal_profiles.get(who.name)
        if allowed is not None and name not in allowed:
            return f"{who.name} may not use the profile {name}"
        if profile is None and len(profiles) > 1 and self.settings.profile is None:
            return (
                f"there are several profiles ({', '.join(profiles)}) and none was chosen; "
                "name one, or set host.profile"
            )
        return None

    def _plan(self, name: str, profile: str | None, session: Session | None) -> Plan | None:
        """The compiled plan for a tool under a profile; None when there is no such tool."""
        rules: Profile | None = None if profile is None else self._config.profiles.get(profile)
        if session is not None and name in session.entries:
            return self._compile(session.entries[name], rules)
        entry: Entry | None = None
        if rules is not None and name in rules.versions:
            entry = self.catalog.version(name, rules.versions[name])
        if entry is None:
            entry = self.catalog.get(name)
        if entry is None:
            return None
        plans = self._plans.setdefault(profile, {})
        plan = plans.get(name)
        if plan is None or plan.entry is not entry:
            if len(plans) >= _MOST_PLANS:
                plans.pop(next(iter(plans)), None)
            plan = plans[name] = self._compile(entry, rules)
            if self.catalog.get(name) is not entry and name not in getattr(rules, "versions", ()):
                plans.pop(name, None)  # it changed meanwhile: nobody else may find this plan
        return plan

    def _compile(self, entry: Entry, profile: Profile | None) -> Plan:
        return Plan(
            entry,
            profile,
            gates=self._gates,
            extensions=self._extensions,
            settings=self.settings,
            hider=self.redactor,
            counter=self.metrics.for_tool(entry.name),
            limits=self._limits,
        )

    def replan(self, ctx: ToolContext) -> Plan | None:
        """Today's plan for a call that waited."""
        session: Any = ctx.session
        return self._plan(ctx.tool, ctx.profile.name if ctx.profile else None, session)

    def _stray(
        self,
        name: str,
        who: Principal,
        reason: str,
        message: str,
        call_id: str | None = None,
        session: Session | None = None,
    ) -> ToolResult:
        """The ending of a call that reached no tool; it is on the trail like any other."""
        parts = self._parts
        assert parts is not None  # noqa: S101 - only called after start
        row = reason_row(reason)
        call_id = call_id or parts.new_call_id()
        session_id = None if session is None else session.id
        shown = name[:128]
        record = CallRecord(
            time.time(), call_id, shown, who.name, session_id, None, "python", None,
            "deny", "find", None, None, NOTHING, 0, None, 0.0,
            row.status, reason, self.redactor.text(message), NOTHING, 0, None,
            0, 0.0, 0.0, 0.0, 0.0,
        )  # fmt: skip
        parts.trail.append(record)
        self.metrics.other.ended(row.status, reason, 0.0)
        failure = Failure(
            reason=reason, message=message, details={"gate": "find"}, retryable=row.retry == "yes"
        )
        return ToolResult(call_id=call_id, status=row.status, error=failure)


def _refused(
    name: str, who: Principal, profile: str | None, reason: str, message: str
) -> Explanation:
    said = Decision.deny(reason, message)
    return Explanation(
        tool=name,
        principal=who.name,
        profile=profile,
        verdict="deny",
        reason=reason,
        message=message,
        steps=(Step(gate="find", verdict=said.verdict, reason=reason, message=message),),
    )
