"""A host for a test, in one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.core.protocols import Executor, Exporter, Extension, Gate, Store
from toolcrib.core.settings import HostConfig
from toolcrib.core.units import did_you_mean
from toolcrib.errors import ConfigError
from toolcrib.host.host import ToolHost
from toolcrib.host.load import read_config
from toolcrib.pipeline.limits import Limits
from toolcrib.testing.mocks import with_executors

if TYPE_CHECKING:
    from toolcrib.host.parts import Parts
    from toolcrib.testing.clock import FakeClock

OWN_PROFILE = "test"
"""The name of a profile that is given as settings."""


def make_host(
    tools: Iterable[Any] = (),
    *,
    profile: str | Mapping[str, Any] | None = None,
    config: str | Path | Mapping[str, Any] | HostConfig | None = None,
    store: str | Store = "memory",
    approver: Any = None,
    gates: Sequence[Gate] = (),
    extensions: Sequence[Extension] = (),
    exporters: Sequence[Exporter] = (),
    executors: Sequence[Executor] = (),
    clock: FakeClock | None = None,
) -> ToolHost:
    """A host whose configuration is read at once, so that what is wrong with it shows here.

    `profile` is what calls are held to that name no other: the name of one in `config`, or the
    settings of one (`{"rules": [{"allow": "add"}]}`). `executors` take the place of the real ones
    of their kinds. `clock` runs limits, grants and approvals.
    """
    if clock is not None and store == "memory":
        from toolcrib.stores.memory import MemoryStore

        store = MemoryStore(clock=clock.time)
    made = (_ClockedHost if clock is not None else ToolHost)(
        config=_with_profile(config, profile),
        store=store,
        approver=approver,
        gates=gates,
        extensions=extensions,
        exporters=exporters,
    )
    if isinstance(made, _ClockedHost) and clock is not None:
        made.follow(clock)
    with_executors(made, *executors)
    for thing in tools:
        made.register(thing)
    made.load()
    return made


class _ClockedHost(ToolHost):
    """A host that lives by a test's clock."""

    _fake: FakeClock

    def follow(self, clock: FakeClock) -> None:
        """Count limits and approvals by `clock`."""
        self._fake = clock
        self._limits = Limits(clock.monotonic)

    async def start(self) -> Parts:
        fresh = self._parts is None
        parts = await super().start()
        if fresh:
            inbox = parts.inbox
            inbox._clock = self._fake.time  # pyright: ignore[reportPrivateUsage]
            inbox._waiting._clock = self._fake.time  # pyright: ignore[reportPrivateUsage]
        return parts


def _with_profile(
    config: str | Path | Mapping[str, Any] | HostConfig | None,
    profile: str | Mapping[str, Any] | None,
) -> HostConfig:
    if profile is None:
        return read_config(config)
    if isinstance(profile, str):
        read = read_config(config)
        if profile not in read.profiles:
            near = did_you_mean(profile, read.profiles)
            known = ", ".join(read.profiles) or "none"
            raise ConfigError(
                f"there is no profile {profile!r}",
                cure=f"Did you mean {near}?"
                if near
                else f"Known: {known}. Give config=, or the profile's settings as a mapping",
            )
        return replace(read, settings=replace(read.settings, profile=profile))
    # Merged as written where that is possible, so that the profile may extend one of the config.
    base = dict(config) if isinstance(config, Mapping) else {}
    own = {**base, "profiles": {**base.get("profiles", {}), OWN_PROFILE: dict(profile)}}
    if OWN_PROFILE in base.get("profiles", {}):
        raise ConfigError(
            f"the configuration has a profile {OWN_PROFILE!r} already",
            cure=f"Name it with profile={OWN_PROFILE!r}, or call it something else",
        )
    built = read_config(own)
    if config is not None and not isinstance(config, Mapping):
        read = read_config(config)
        built = replace(read, profiles={**read.profiles, OWN_PROFILE: built.profiles[OWN_PROFILE]})
    return replace(built, settings=replace(built.settings, profile=OWN_PROFILE))
