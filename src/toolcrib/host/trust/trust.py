"""What is trusted of other people's tools: one lock for all providers of a host."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from toolcrib.core.clock import Clock
from toolcrib.core.settings import LockMode
from toolcrib.errors import ConfigError
from toolcrib.host.provider_settings import TrustMode
from toolcrib.host.publishing import Publish
from toolcrib.host.trust.lockfile import EMPTY, FILE, FIRST_USE, Lock, LockFile, Part, part_of

if TYPE_CHECKING:
    from toolcrib.host.host import ToolHost
    from toolcrib.host.trust.keeper import Keeper

_log = logging.getLogger("toolcrib")
_BETWEEN = 0.5
"""Seconds between two looks at the file of a running host."""
_IDENTITY = ("command", "args", "url", "spec", "base_url")
"""The settings that say which server a provider is."""


class Trust:
    """Holds the lock, and a keeper for each provider whose tools are pinned."""

    def __init__(self, host: ToolHost) -> None:
        self._host = host
        self._alone = threading.RLock()
        self._file = LockFile(None)
        self._lock: Lock | None = None
        self._broken: ConfigError | None = None
        self._signature: object = None
        self._names: dict[str, frozenset[str]] = {}
        self.keepers: dict[str, Keeper] = {}
        self._watching: asyncio.Task[None] | None = None

    @property
    def path(self) -> Path | None:
        """The lock's file; None for a host that was not made from a configuration file."""
        return self._file.path

    @property
    def mode(self) -> LockMode:
        """What may be done with the lock."""
        return self._host.settings.lock

    @property
    def clock(self) -> Clock:
        """The host's clock."""
        return self._host.clock

    def hide(self, value: Any) -> Any:
        """The value without secrets."""
        return self._host.redactor.value(value)

    def keeper(
        self, name: str, mode: TrustMode, type: str, settings: Mapping[str, Any], publish: Publish
    ) -> Keeper:
        """What stands between this provider and the catalog."""
        # Loaded with the first one: most hosts that are started often have no such provider.
        from toolcrib.host.trust.keeper import Keeper

        def upstream() -> dict[str, Any]:
            return identity(type, settings, self._host.redactor.text)

        made = self.keepers[name] = Keeper(name, mode, upstream, publish, self)
        return made

    def drop(self, name: str) -> None:
        """A provider is gone."""
        self.keepers.pop(name, None)
        self._names.pop(name, None)

    def named(self, provider: str, names: Mapping[str, tuple[str, str]]) -> None:
        """What the tools of a provider are called."""
        self._names[provider] = frozenset(name for pair in names.values() for name in pair)

    def names(self, provider: str) -> set[str]:
        """What everybody else's tools are called."""
        mine = {key.partition("@")[0] for key in self.keepers[provider].seen}
        found = {name for name in self._host.catalog.snapshot() if name not in mine}
        for other, names in self._names.items():
            if other != provider:
                found |= names
        return found

    # The lock.

    def load(self, *, needed: bool) -> None:
        """Read the lock of the configuration in force. One that is needed and missing is made,
        where that may be done: what is there can be kept from commands that write the folder."""
        sources = self._host.config.sources
        path = Path(sources[0]).absolute().parent / FILE if sources else None
        with self._alone:
            if path != self._file.path:
                self._file, self._lock = LockFile(path), None
            self._read(forget=path is not None)
            if needed and self._lock is None and self._broken is None and self.mode == "first_use":
                try:
                    self._change(lambda lock: lock)
                except ConfigError as error:
                    _log.warning("%s", error)

    def _read(self, *, forget: bool) -> None:
        self._signature = self._file.signature()
        try:
            found = self._file.read()
        except ConfigError as error:
            _log.error("%s; the tools that it speaks of are refused", error)
            self._broken = error
            return
        self._broken = None
        if found is not None or forget:
            # It does not stop to count by being removed under a running host.
            self._lock = found

    def known(self, provider: str) -> Part | None:
        """What was accepted of a provider, as far as it is known."""
        return None if self._lock is None else self._lock.providers.get(provider)

    def part(self, provider: str) -> Part | None:
        """What was accepted of a provider. Raises `ConfigError` where that cannot be known."""
        if self._broken is not None:
            raise self._broken
        return self.known(provider)

    @property
    def problem(self) -> str | None:
        """Why the lock cannot be trusted."""
        return None if self._broken is None else str(self._broken)

    def first_use(self, keeper: Keeper) -> Part | None:
        """Pin what a provider lists for the first time, where that may be done. Raises
        `ConfigError` when it cannot be kept."""
        if self.mode != "first_use":
            return None
        made = part_of(keeper.upstream, keeper.pins(FIRST_USE))

        def first(lock: Lock) -> Lock:
            # Another process may have been quicker.
            return lock if keeper.name in lock.providers else lock.having(keeper.name, made)

        self._change(first)
        part = self.known(keeper.name)
        if part == made:
            data = {"provider": keeper.name, "by": FIRST_USE, "tools": sorted(made.tools)}
            self.announce("provider.accepted", data)
        return part

    def decide(
        self, provider: str, shown: Mapping[str, str | None], by: str, *, accept: bool
    ) -> None:
        """Accept or reject tools as a person was shown them: by name, with the digest that was
        looked at (None for one that is gone). Raises `ConfigError`."""
        keeper = self.keepers[provider]
        for key, digest in shown.items():
            seen = keeper.seen.get(key)
            if (None if seen is None else seen.digest) != digest or (not digest and seen):
                raise ConfigError(
                    f"{key} is not what was shown: it changed meanwhile, or cannot be pinned",
                    cure=f"Look again: toolcrib providers review {provider}",
                )
        chosen = list(shown)

        def decided(lock: Lock) -> Lock:
            part = lock.providers.get(provider)
            made = keeper.accepted(part, chosen, by) if accept else None
            return lock.having(provider, made or keeper.rejected(part, chosen, by))

        with self._alone:
            self._change(decided)
        what = "provider.accepted" if accept else "provider.rejected"
        self.announce(what, {"provider": provider, "by": by, "tools": sorted(chosen)})

    def _change(self, work: Callable[[Lock], Lock]) -> None:
        with self._alone:
            base = self._lock

            def renewed(lock: Lock) -> Lock:
                # What was removed under a running host is written again, not forgotten.
                return work(base if lock is EMPTY and base is not None else lock)

            self._lock, self._signature = self._file.change(renewed)
            self._broken = None

    def announce(self, event: str, data: dict[str, Any]) -> None:
        """Put an event on the trail."""
        self._host.announce_fact(event, data)

    # Following the file.

    def follow(self, changed: Callable[[], None]) -> None:
        """Have `changed` called when somebody else changed the file, while this loop runs."""
        task = self._watching
        if self.path is None or not self.keepers or (task is not None and not task.done()):
            return
        self._watching = asyncio.get_running_loop().create_task(
            self._watch(changed), name="watch of toolcrib.lock"
        )

    async def _watch(self, changed: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(_BETWEEN)
            try:
                if self._file.signature() != self._signature:
                    self._renew(changed)
            except Exception:  # whoever follows the lock must not stop to do so
                _log.exception("a changed %s could not be taken over", FILE)

    def _renew(self, changed: Callable[[], None]) -> None:
        before = self._lock
        with self._alone:
            self._read(forget=False)
        changed()
        self._tell(before)

    def _tell(self, before: Lock | None) -> None:
        """Put on the trail what somebody accepted in the file."""
        for name in self.keepers:
            old = None if before is None else before.providers.get(name)
            part = self.known(name)
            if part is None or part == old or self._broken is not None:
                continue
            pins = {k: p for k, p in part.tools.items() if old is None or old.tools.get(k) != p}
            for by in sorted({pin.by for pin in pins.values()}):
                tools = sorted(key for key, pin in pins.items() if pin.by == by)
                self.announce("provider.accepted", {"provider": name, "by": by, "tools": tools})

    async def stop(self) -> None:
        """Follow no more."""
        task, self._watching = self._watching, None
        if task is None or task.done():
            return
        home = task.get_loop()
        if home is asyncio.get_running_loop():
            task.cancel()
            await asyncio.wait({task})
        elif home.is_running():
            home.call_soon_threadsafe(task.cancel)


def identity(type: str, settings: Mapping[str, Any], hide: Callable[[str], str]) -> dict[str, Any]:
    """Which server a provider is, by its settings as they are written: no secrets in it, so that
    the lock may be shown to anybody and a new password is no other server."""
    found: dict[str, Any] = {"type": type}
    for key in _IDENTITY:
        value = settings.get(key)
        if isinstance(value, str):
            found[key] = hide(_address(value) if "://" in value else value)
        elif isinstance(value, Sequence) and value:
            found[key] = [hide(str(each)) for each in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return found


def _address(url: str) -> str:
    """A URL without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return url.partition("?")[0]
    name = parts.hostname or ""
    host = f"[{name}]" if ":" in name else name
    return urlunsplit((parts.scheme, f"{host}{port}", parts.path, "", ""))
