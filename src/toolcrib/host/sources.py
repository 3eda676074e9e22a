"""The providers of a host: what the configuration asks for, and what runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from toolcrib.core.entry import Entry
from toolcrib.errors import ConfigError, NameTaken, NotFound, ToolcribError

if TYPE_CHECKING:
    from toolcrib.core.link import Relay
    from toolcrib.core.protocols import Provider
    from toolcrib.host.host import ToolHost
    from toolcrib.host.provider_settings import ProviderSettings, ProviderStatus, TrustMode
    from toolcrib.host.publishing import Publish
    from toolcrib.host.supervisor import Supervisor
    from toolcrib.host.trust.keeper import Keeper
    from toolcrib.host.trust.trust import Trust
    from toolcrib.host.workshop import Workshop


class Source(msgspec.Struct, frozen=True):
    """One provider as configured."""

    name: str
    type: str
    settings: Mapping[str, Any]
    """For its type."""
    alive: ProviderSettings
    """How it is kept alive."""
    factory: Callable[..., Provider]
    workshop: Workshop
    owner: str
    """Where it stands in the configuration."""
    sandboxes: Mapping[str, Any]
    """The sandboxes as configured: a provider that could use a changed one is built anew."""

    @property
    def trust(self) -> TrustMode:
        """What is believed of the tools it lists."""
        from toolcrib.host.provider_settings import trust_of

        return trust_of(self.type, self.alive.trust)

    def build(self) -> Provider:
        """A new provider; nothing is connected yet. Raises `ConfigError`."""
        try:
            made = self.factory(self.name, self.settings, self.workshop)
        except ToolcribError:
            raise
        except Exception as error:
            # Not in its words: they may quote a secret.
            text = f"the provider {self.name} could not be built: {type(error).__name__}"
            raise ConfigError(text, cure="Compare its settings with its documentation") from error
        if not all(hasattr(made, part) for part in ("name", "list_tools", "execute")):
            text = f"the provider {self.name}: its type built a {type(made).__name__}"
            raise ConfigError(text, cure="A provider has name, kind, list_tools and execute")
        return made

    def same(self, other: Source) -> bool:
        """Whether what runs for the other one can go on for this one."""
        ours, theirs = (
            (s.type, s.settings, s.alive, s.workshop.folder, s.sandboxes) for s in (self, other)
        )
        return ours == theirs


class Sources:
    """Starts, follows and stops the providers of one host."""

    def __init__(self, host: ToolHost) -> None:
        self._host = host
        self._wanted: tuple[Source, ...] = ()
        self._added: dict[str, Source] = {}
        """Those that the program brought itself; a new configuration leaves them alone."""
        self._running: dict[str, tuple[Source, Supervisor]] = {}
        self._settled = False

    @cached_property
    def trust(self) -> Trust:
        """What is trusted of their tools."""
        from toolcrib.host.trust.trust import Trust

        return Trust(self._host)

    @property
    def pending(self) -> bool:
        """Whether a provider may still be at its first attempt."""
        return bool(self._running) and not self._settled

    @property
    def wanted(self) -> bool:
        """Whether there are any to start."""
        return bool(self._wanted or self._added)

    def bring(self, name: str, factory: Callable[[], Provider], workshop: Workshop) -> None:
        """One more that a program brings itself. Raises `NameTaken`."""
        from toolcrib.host.provider_settings import ProviderSettings

        alive = ProviderSettings()
        self.add(Source(name, "own", {}, alive, lambda *_: factory(), workshop, "code", {}))

    def add(self, source: Source) -> None:
        """One more, whatever the configuration says. Raises `NameTaken`."""
        if source.name in self._added or any(s.name == source.name for s in self._wanted):
            text = f"there is a provider {source.name!r} already"
            raise NameTaken(text, cure="Choose another name")
        self._added[source.name] = source

    def want(self, sources: Sequence[Source]) -> None:
        """What the configuration in force asks for; `renew` makes it so."""
        self._wanted = tuple(sources)

    async def renew(self) -> None:
        """Stop what is not wanted any more, leave alone what is unchanged, start the rest."""
        wanted = {source.name: source for source in self._wanted} | self._added
        if not wanted and "trust" not in vars(self):
            return  # there never was one
        gone = [
            name
            for name, (source, _) in self._running.items()
            if name not in wanted or not wanted[name].same(source)
        ]
        await asyncio.gather(*(self._running.pop(name)[1].stop() for name in gone))
        for name in gone:
            self.trust.drop(name)
        self.trust.load(needed=any(source.trust != "off" for source in wanted.values()))
        self._republish()
        for name, source in wanted.items():
            if name not in self._running:
                supervisor = self._supervisor(source)
                self._running[name] = (source, supervisor)
                self._settled = False
                supervisor.start()
        self.trust.follow(self._republish)

    def _republish(self) -> None:
        """The lock is another one: what it says holds for everybody now."""
        for name in self.trust.keepers:
            if name in self._running:
                self._running[name][1].republish()

    def _supervisor(self, source: Source) -> Supervisor:
        from toolcrib.host.publishing import Publisher
        from toolcrib.host.supervisor import Supervisor

        host = self._host
        publish: Publish = Publisher(host.catalog)
        if source.trust != "off":
            publish = self.trust.keeper(
                source.name, source.trust, source.type, source.settings, publish
            )
        return Supervisor(
            source.name,
            source.build,
            publish=publish,
            announce=host.announce_fact,
            settings=source.alive,
            clock=host.clock,
            hide=lambda text: host.redactor.text(text),
            owner=f"provider {source.name} ({source.owner})",
        )

    async def settle(self, seconds: float | None = None) -> None:
        """Wait until every provider's first attempt has ended, well or not; at most so long."""
        if self._settled:
            return
        waits = [asyncio.ensure_future(s.first()) for _, s in list(self._running.values())]
        if waits:
            _, late = await asyncio.wait(waits, timeout=seconds)
            for wait in late:
                wait.cancel()
            self._settled = not late

    async def arrival(self, find: Callable[[], Entry | None], seconds: float | None) -> None:
        """Wait for a tool that is missing, or whose provider is just coming up, at most so long.
        A provider that hangs keeps nobody waiting who does not need it."""
        end = None if seconds is None else time.monotonic() + seconds
        while waits := self._coming(find()):
            left = None if end is None else max(0.0, end - time.monotonic())
            firsts = [asyncio.ensure_future(supervisor.first()) for supervisor in waits]
            done, late = await asyncio.wait(firsts, timeout=left, return_when="FIRST_COMPLETED")
            for wait in late:
                wait.cancel()
            if not done:
                return

    def _coming(self, entry: Entry | None) -> list[Supervisor]:
        """The providers at their first attempt that may bring the tool, or that it belongs to."""
        if entry is not None and entry.unavailable is None:
            return []
        return [
            supervisor
            for _, supervisor in self._running.values()
            if supervisor.trying and (entry is None or entry.owner == supervisor.owner)
        ]

    async def stop(self) -> None:
        """Let go of all of them; their tools leave the catalog with the host."""
        if "trust" in vars(self):
            await self.trust.stop()
        running, self._running = self._running, {}
        await asyncio.gather(*(s.stop(withdraw=False) for _, s in running.values()))

    async def forget(self, session_id: str) -> None:
        """A session has ended: have providers drop what they keep for it."""
        if self._running:
            await asyncio.gather(*(s.forget(session_id) for _, s in self._running.values()))

    def relays(self) -> list[Relay]:
        """What the providers that are up offer besides tools, in the order of the names."""
        providers = (self._running[name][1].provider for name in sorted(self._running))
        found: list[Any] = [getattr(each, "relay", None) for each in providers]
        return [relay for relay in found if relay is not None]

    def status(self, *, warnings: bool = False) -> list[ProviderStatus]:
        """How each provider is now, by name; with what looks odd in its tools' words if wanted."""
        return [self._status(name, warnings) for name in sorted(self._running)]

    def _status(self, name: str, warnings: bool) -> ProviderStatus:
        status, keeper = self._running[name][1].status(), self.trust.keepers.get(name)
        if keeper is None:
            return status
        odd = keeper.warnings if warnings else ()
        return replace(status, trust=keeper.mode, quarantined=keeper.held, warnings=odd)

    def review(self, name: str) -> dict[str, Any]:
        """What a provider lists that is not what was accepted. Raises `NotFound`."""
        keeper = self._keeper(name)
        if keeper is None:
            return {"provider": name, "trust": "off", "up": True, "tools": [], "warnings": []}
        from toolcrib.host.trust.review import review

        found = review(self.trust, keeper)
        status = self._running[name][1].status()
        if not keeper.up and status.state not in ("up", "open"):
            found["problem"] = f"the provider is {status.state}: {status.error or 'no word of why'}"
        return found

    def decide(
        self, name: str, shown: Mapping[str, str | None], by: str, *, accept: bool
    ) -> dict[str, Any]:
        """Accept or reject tools of a provider as they were shown. Raises `ConfigError`."""
        if self._keeper(name) is None:
            text = f"the tools of the provider {name} are not pinned: trust is off"
            raise ConfigError(text, cure=f"Write trust: pin at providers.{name}")
        self.trust.decide(name, shown, by, accept=accept)
        self._republish()
        return self.review(name)

    def _keeper(self, name: str) -> Keeper | None:
        if name not in self._running:
            known = ", ".join(sorted(self._running)) or "none"
            raise NotFound(f"there is no provider {name!r}; there are: {known}")
        return self.trust.keepers.get(name)

    async def restart(self, name: str) -> ProviderStatus:
        """Start one anew, now. Raises `NotFound`."""
        if name not in self._running:
            known = ", ".join(sorted(self._running)) or "none"
            raise NotFound(f"there is no provider {name!r}; there are: {known}")
        return await self._running[name][1].restart()
