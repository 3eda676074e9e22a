"""The host's own settings."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from toolcrib.core.principal import Principal
from toolcrib.core.profile import Profile
from toolcrib.core.serving import ServeSettings

AuditSync = Literal["always", "effects", "never"]
"""When a call waits until its record is on disk: always, when its effects go beyond reading (or
are unknown), or never."""

LockMode = Literal["first_use", "frozen", "look"]
"""first_use: what a provider lists first is written to `toolcrib.lock` · frozen: the lock is never
written, and what it does not know is refused · look: like first_use, and nothing is written."""


class HostSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the `host:` part of a configuration says."""

    store: str | None = None
    """`memory` or `sqlite:PATH`."""
    profile: str | None = None
    """The profile of calls that name none."""
    audit_sync: AuditSync = "effects"
    audit_key: str | None = None
    """The file that holds the trail's key; beside the store unless said otherwise."""
    audit_anchor: str | None = None
    """A file in another place to which the chain's head is written."""
    audit_capture: int = 4096
    """Bytes of arguments and output kept in the trail; longer ones are cut, with size and hash."""
    timeout: float | None = 60.0
    """Seconds one attempt may take where the tool says nothing."""
    deadline: float | None = None
    """Seconds a call may take in all, people's time not counted."""
    max_output: int = 1_000_000
    """Characters of output; longer output is cut, visibly."""
    max_arguments: int = 1_048_576
    """Bytes of arguments."""
    threads: int = 32
    """Threads for synchronous functions."""
    guard_time: float = 5.0
    """Seconds that the gates and policies may take for one call; one that takes longer failed."""
    ready: float = 10.0
    """Seconds that `async with` waits for providers to come up; later ones come when they come."""
    drain: float = 10.0
    """Seconds that running calls get when the host stops."""
    lease: float = 20.0
    """Seconds after its host's last sign of life in which a durable call counts as lost."""
    lock: LockMode = "first_use"
    """What may be done with `toolcrib.lock`."""
    redact: tuple[str, ...] = ()
    """More key patterns whose values are hidden."""


class HostConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration, read and checked: data only, nothing is built yet."""

    settings: HostSettings = HostSettings()
    profiles: dict[str, Profile] = {}
    principals: dict[str, Principal] = {}
    principal_profiles: dict[str, tuple[str, ...]] = {}
    """The profiles a principal may choose from; a principal not listed may choose any."""
    tools: tuple[dict[str, Any], ...] = ()
    """Tool entries in one normal form, each with its `source` (`file:line`) and `base` folder."""
    providers: dict[str, dict[str, Any]] = {}
    sandboxes: dict[str, dict[str, Any]] = {}
    plugins: tuple[dict[str, Any], ...] = ()
    """Plug-ins that stand beside the configuration: `name` as written, `module`, `function`, and
    where they are named."""
    extensions: tuple[dict[str, Any], ...] = ()
    exporters: tuple[dict[str, Any], ...] = ()
    serve: dict[str, Any] = {}
    """What `serve:` says, as it is written."""
    serving: ServeSettings = ServeSettings()
    """What that means."""
    secrets: frozenset[str] = frozenset()
    """Values that came from `${…}`: hidden wherever they appear."""
    lines: dict[str, str] = {}
    """Where policy knobs stand: `profiles.NAME.policies.TOOL.KNOB` to `file:line`."""
    sources: tuple[str, ...] = ()
    """The files that were read, the main one first; none for a configuration in a mapping."""
