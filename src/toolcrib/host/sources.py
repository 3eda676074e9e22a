"""The providers of a host: what the configuration asks for, and what runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolcrib.core.entry import Entry
from toolcrib.core.protocols import Provider
from toolcrib.errors import ConfigError, NameTaken, NotFound, ToolcribError
from toolcrib.host.provider_settings import ProviderSettings, ProviderStatus
from toolcrib.host.publishing import Publisher
from toolcrib.host.supervisor import Supervisor
from toolcrib.host.workshop import Workshop

if TYPE_CHECKING:
    from toolcrib.host.host import ToolHost


@dataclass(frozen=True, slots=True)
class Source:
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

    @property
    def pending(self) -> bool:
        """Whether a provider may still be at its first attempt."""
        return bool(self._running) and not self._settled

    @property
    def wanted(self) -> bool:
        """Whether there are any to start."""
        return bool(self._wanted or self._added)

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
        gone = [
            name
            for name, (source, _) in self._running.items()
            if name not in wanted or not wanted[name].same(source)
        ]
        await asyncio.gather(*(self._running.pop(name)[1].stop() for name in gone))
        for name, source in wanted.items():
            if name not in self._running:
                supervisor = self._supervisor(source)
                self._running[name] = (source, supervisor)
                self._settled = False
                supervisor.start()

    def _supervisor(self, source: Source) -> Supervisor:
        host = self._host
        return Supervisor(
            source.name,
            source.build,
            publish=Publisher(host.catalog),
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
        running, self._running = self._running, {}
        await asyncio.gather(*(s.stop(withdraw=False) for _, s in running.values()))

    async def forget(self, session_id: str) -> None:
        """A session has ended: have providers drop what they keep for it."""
        if self._running:
            await asyncio.gather(*(s.forget(session_id) for _, s in self._running.values()))

    def status(self) -> list[ProviderStatus]:
        """How each provider is now, by name."""
        return [self._running[name][1].status() for name in sorted(self._running)]

    async def restart(self, name: str) -> ProviderStatus:
        """Start one anew, now. Raises `NotFound`."""
        if name not in self._running:
            known = ", ".join(sorted(self._running)) or "none"
            raise NotFound(f"there is no provider {name!r}; there are: {known}")
        return await self._running[name][1].restart()
