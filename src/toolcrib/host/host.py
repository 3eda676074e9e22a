"""The running whole."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.catalog.catalog import Catalog, Change
from toolcrib.core.clock import SYSTEM, Clock
from toolcrib.core.context import LOCAL, ToolContext
from toolcrib.core.decision import Explanation
from toolcrib.core.entry import Entry
from toolcrib.core.events import Event
from toolcrib.core.principal import Principal
from toolcrib.core.result import ToolResult
from toolcrib.core.settings import HostConfig, HostSettings
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import ConfigError, HostStopped, NotFound, SpecError
from toolcrib.executors.python import PythonExecutor
from toolcrib.host.approvals import Approvals
from toolcrib.host.artifacts import Artifacts
from toolcrib.host.builtin import register_builtins
from toolcrib.host.callers import Callers
from toolcrib.host.calling import Calling
from toolcrib.host.entries import Entries
from toolcrib.host.finding import Finding
from toolcrib.host.kept import KeptSecrets, written_secrets
from toolcrib.host.own_files import OwnFiles
from toolcrib.host.parts import DEFAULT_STORE, Parts, start_parts
from toolcrib.host.planner import Planner
from toolcrib.host.plugins import Registrar
from toolcrib.host.search_tools import SearchTools
from toolcrib.host.session import Session
from toolcrib.host.sources import Source, Sources
from toolcrib.host.tool import Tool
from toolcrib.host.workshop import Sandboxes
from toolcrib.observe.bus import Bus
from toolcrib.observe.metrics import Metrics
from toolcrib.observe.redact import Redactor

if TYPE_CHECKING:
    from toolcrib.core.protocols import (
        Approver,
        Executor,
        Exporter,
        Extension,
        Gate,
        Provider,
        Store,
    )


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
        store: str | Store = DEFAULT_STORE,
        approver: Any = None,
        gates: Sequence[Gate] = (),
        extensions: Sequence[Extension] = (),
        exporters: Sequence[Exporter] = (),
        clock: Clock = SYSTEM,
    ) -> None:
        self.folder: str | None = None
        """Where calls without a session work; None means the process's own folder."""
        self.clock = clock
        """What limits, grants and approvals go by; a test brings its own."""
        self.catalog = Catalog()
        self.bus = Bus()
        self.metrics = Metrics(tools=self.catalog.__len__, exporters=self.bus.counts)
        self.artifacts = Artifacts()
        self.approvals = Approvals(self)
        self.redactor = Redactor()
        self._config_source = config
        self._config = HostConfig()
        self._loaded = config is None
        self._store = store
        self._approver = None if approver is None else _approver(approver)
        self.approvals.lend_to(self._approver)
        self._extensions = tuple(extensions)
        self._exporters = tuple(exporters)
        self._python = PythonExecutor()
        self.own_files = OwnFiles()
        """What nothing in a sandbox may see."""
        self.own_files.note_store(store)
        self.kept_secrets = KeptSecrets(lambda: self.redactor)
        """What has come up at run time and is hidden too."""
        self._entries = Entries(self._python, self.own_files, self.kept_secrets)
        self.sandboxes = Sandboxes()
        """Where commands may run, by name."""
        self.registrar = Registrar()
        """What plug-ins and built-in parts offer by name."""
        register_builtins(self.registrar)
        self.configured: frozenset[str] = frozenset()
        """The tools that came from the configuration; a reload replaces them."""
        self.planner = Planner(self.catalog, self.metrics, clock)
        self.planner.gates = tuple(gates)
        self.planner.redactor = self.redactor
        self.planner.extensions = self._extensions
        self.planner.search_tools = SearchTools(self)
        self.finding = Finding(self)
        """Finds tools by words."""
        self.callers = Callers()
        """Who is who: principals, sessions, and the profiles they may use."""
        self.calling = Calling(self)
        self.sources = Sources(self)
        """The providers, and how they are."""
        self._probing: list[asyncio.Task[Any]] = []
        """Searches for sandboxes that can be used; an earlier one may still go on."""
        self._parts: Parts | None = None
        self._run: Callable[..., Coroutine[Any, Any, ToolResult]] | None = None
        self._lock = threading.RLock()
        self._exporting: list[str] = []
        """The exporters that came from the configuration."""
        self._closed = False
        self._local = LOCAL
        self.catalog.on_change(self._catalog_changed)
        if callable(tools) or isinstance(tools, str | ToolSpec):
            raise SpecError("ToolHost takes a list of tools", cure="Write ToolHost([…])")
        for thing in tools:
            self.register(thing)

    def __repr__(self) -> str:
        state = "stopped" if self._closed else "started" if self._parts else "not started"
        count = f"{len(self.catalog)} tool{'' if len(self.catalog) == 1 else 's'}"
        return f"<ToolHost {count}, {len(self._config.profiles)} profiles, {state}>"

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
        if self._parts is not None:
            await self.sources.renew()
            self._probe()

    @property
    def config(self) -> HostConfig:
        """The configuration in force."""
        if not self._loaded:
            self.load()
        return self._config

    def apply(
        self,
        config: HostConfig,
        extensions: Sequence[Extension] = (),
        exporters: Sequence[Exporter] = (),
        sources: Sequence[Source] = (),
    ) -> None:
        """Put a configuration in force, with the extensions and exporters built for it beside the
        embedder's own; plans are made anew."""
        with self._lock:
            self.planner.extensions = (*self._extensions, *extensions)
            for name in self._exporting:
                self.bus.remove_exporter(name)
            self._exporting = [self.bus.add_exporter(exporter) for exporter in exporters]
            self._config = config
            self.sources.want(sources)
            self.callers.renew(config)
            self._python.threads = config.settings.threads
            self._local = self.callers.principal(None)
            hidden = config.secrets | self.kept_secrets.values
            hidden |= written_secrets(config.providers)
            self.redactor = Redactor(config.settings.redact, hidden)
            self.planner.renew(
                config.settings,
                self.redactor,
                config.profiles,
                config.lines,
                self.callers.default,
            )
            if self._parts is not None:
                self._parts.renew(config.settings, self.redactor)
                self._open_fast_lane(self._parts)

    def _open_fast_lane(self, parts: Parts) -> None:
        """Let calls skip what needs no looking at: possible when anybody may use any profile."""
        if not parts.opened or parts.pipeline.stopping:
            return
        restricted = bool(self._config.profiles) and self.callers.restricted
        self._run = None if restricted else parts.pipeline.run

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
        """Makes catalog entries."""
        return self._entries

    async def add_provider(self, name: str, factory: Callable[[], Provider]) -> None:
        """Keep a provider alive beside those of the configuration; `factory()` builds it, again
        after each time it went down. Its first attempt has ended when this returns."""
        self.sources.bring(name, factory, self._entries.workshop(None))
        await self.start()
        await self.sources.renew()
        await self.sources.settle(self.settings.ready)

    def add_executor(self, executor: Executor) -> None:
        """Run tools of the executor's kind with it, from the next registration on."""
        self._entries.executors[executor.kind] = executor

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
        who, name, held, problem, reason = self.callers.resolve(principal, profile, session)
        if problem is not None:
            if reason == "unauthenticated":
                raise NotFound(problem)
            return []  # who cannot be held to the profile can call nothing under it
        names = [*self.catalog.snapshot(), *(held.entries if held is not None else ())]
        names += SearchTools.names(self.callers.profile(name))
        found: list[Tool] = []
        for tool in sorted(set(names)):
            plan = self.calling.plan(tool, name, held)
            if plan is not None and plan.listed(who):
                down = None if plan.outage is None else plan.outage.message
                found.append(
                    Tool(
                        plan.spec, self, principal=who, profile=name, session=held, unavailable=down
                    )
                )
        if format is None:
            return found
        from toolcrib.catalog.formats import export

        return export([tool.spec for tool in found], format)

    def _catalog_changed(self, change: Change) -> None:
        self.planner.changed(change)
        self.finding.note(change)
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
        if run is not None and session is None and call_id is None and type(principal) is not str:
            book = self.planner.books.get(profile)
            if book is not None:
                plan = book.get(name)
                if plan is not None:
                    who = principal or self._local
                    return run(plan, who, None, arguments, timeout, None)
        return self.calling.call(name, arguments, principal, profile, session, timeout, call_id)

    async def nested(
        self,
        ctx: ToolContext,
        name: str,
        arguments: Mapping[str, Any] | None,
        timeout: float | None,
    ) -> ToolResult:
        """A call made by a tool: the same principal, profile and session, one level deeper."""
        return await self.calling.nested(ctx, name, arguments, timeout)

    def announce(self, ctx: ToolContext, type: str, data: dict[str, Any]) -> None:
        """Something a running tool has to say."""
        if self._parts is not None:
            self._parts.say(ctx, type, data)

    def announce_fact(self, type: str, data: dict[str, Any], call_id: str | None = None) -> None:
        """Put an event on the trail, secrets hidden."""
        if self._parts is not None:
            shown = self.redactor.value(data)
            self._parts.trail.fact(type, call_id, shown)
            self.bus.tell(Event(id="", type=type, time=time.time(), call_id=call_id, data=shown))

    def output(self, call_id: str, *, principal: Principal | str | None = None) -> str:
        """The whole output of a call whose result was cut, as text. Raises `NotFound`."""
        return self.artifacts.get(call_id, self.callers.principal(principal).name)

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
        return self.calling.explain(name, arguments, principal, profile, session)

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
        ephemeral: bool = False,
        idle: float | None = None,
        lifetime: float | None = None,
    ) -> Session:
        """A principal's stay: `async with host.session(…) as session`. Nothing is remembered for
        an `ephemeral` one: its approvals bind to principal and door. It is over after `idle`
        seconds without use, and after its `lifetime` in any case."""
        self.load()
        who, chosen, _, problem, _ = self.callers.resolve(principal, profile, None)
        if problem is not None:
            raise ConfigError(problem)
        return Session(
            self,
            principal=who,
            profile=chosen,
            cwd=str(Path(cwd or Path.cwd()).absolute()),
            environment=environment,
            metadata=metadata,
            door=door,
            ephemeral=ephemeral,
            idle=idle,
            lifetime=lifetime,
        )

    # Life.

    async def __aenter__(self) -> ToolHost:
        await self.start()
        await self.sources.settle(self.settings.ready)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def start(self) -> Parts:
        """Open the store and begin to take calls; the first call does it by itself."""
        if self._closed:
            raise HostStopped("this host was stopped; make a new ToolHost")
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
                self.own_files.note_store(self._parts.store)
            parts = self._parts
        if await parts.open():
            await self.sources.renew()
            self._probe()
        if self._run is None:
            self._open_fast_lane(parts)
        return parts

    def _probe(self) -> None:
        """Find out in the background which sandboxes can be used here."""
        if any(entry.sandboxes for entry in self.catalog.snapshot().values()):
            from toolcrib.host.probing import try_sandboxes

            going = [task for task in self._probing if not task.done()]
            self._probing = [*going, asyncio.ensure_future(try_sandboxes(self.catalog))]

    async def stop(self) -> None:
        """Let running calls end, close sessions, write what is left, close the store."""
        parts = self._parts
        if parts is None or self._closed or parts.pipeline.stopping:
            self._closed = self._closed or parts is None
            return
        self._run = None
        parts.pipeline.stopping = True
        await parts.drain(self.settings.drain)
        try:
            for session in list(self.callers.sessions.values()):
                await session.close()
            await self.sources.stop()
            for probing in self._probing:
                from toolcrib.host.probing import stop_probing

                await stop_probing(probing)
            await self._entries.close()
        finally:
            self._closed = True
            await parts.close()

    async def events(self, after: str | None = None) -> AsyncIterator[Event]:
        """Events as they happen; with `after`, first those on the trail behind that event id."""
        async for event in (await self.start()).follow(after):
            yield event

    def on_event(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Have `callback` told of every event; returns a function that ends it."""
        return self.bus.on_event(callback)

    async def trail(self, *, call_id: str | None = None, limit: int = 1000) -> list[Event]:
        """The newest events on the trail, oldest first; those of one call when its id is given."""
        return await (await self.start()).read_trail(call_id=call_id, limit=limit)


def _approver(given: Any) -> Approver | None:
    from toolcrib.approvals.approvers import as_approver

    return as_approver(given)
