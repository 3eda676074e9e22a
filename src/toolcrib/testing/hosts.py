"""A host for a test, in one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolcrib.approvals.inbox import Inbox
from toolcrib.core.approval import ApprovalRequest
from toolcrib.core.clock import SYSTEM
from toolcrib.core.protocols import Executor, Exporter, Extension, Gate, Store
from toolcrib.core.settings import HostConfig
from toolcrib.core.units import did_you_mean
from toolcrib.errors import ConfigError, Denial
from toolcrib.host.host import ToolHost
from toolcrib.host.load import read_config
from toolcrib.host.parts import Parts
from toolcrib.pipeline.asking import Asking
from toolcrib.testing.mocks import with_executors

if TYPE_CHECKING:
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
    of their kinds. `clock` runs limits, grants and approvals. Without an `approver` a call that
    has to be asked about is denied at once (`no_approver`); with
    `ApprovalSimulator(default="escalate")` it waits for `host.approvals.decide`.
    """
    made = (ToolHost if approver is not None else _Unattended)(
        config=_with_profile(config, profile),
        store=store,
        approver=approver,
        gates=gates,
        extensions=extensions,
        exporters=exporters,
        clock=clock or SYSTEM,
    )
    with_executors(made, *executors)
    for thing in tools:
        made.register(thing)
    made.load()
    return made


class _Unattended(ToolHost):
    """A host with nobody to ask: a test must not wait for a person who never comes."""

    async def start(self) -> Parts:
        """Start as any host does, and let no call wait."""
        parts = await super().start()
        # Each time: every call under new rules begins here, and they come with a new desk.
        parts.pipeline.asking = Asking(_Nobody(parts.inbox), self.redactor, self.clock)
        return parts


class _Nobody:
    """Knows the grants, and nobody who could give another."""

    def __init__(self, inbox: Inbox) -> None:
        self.find_grant = inbox.find_grant
        self.redeem = inbox.redeem

    async def ask(self, request: ApprovalRequest, **_: Any) -> ApprovalRequest:
        """Nobody answers."""
        raise Denial(
            "no_approver",
            f"{request.tool} has to be asked about and this host has no approver. "
            "Give make_host one: approver=ApprovalSimulator(…)",
        )


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
