"""Profiles as people name them."""

from __future__ import annotations

from collections.abc import Collection

from toolcrib.cli.output import Mistake
from toolcrib.core.settings import HostConfig
from toolcrib.core.units import did_you_mean


def check_profile(profile: str | None, known: Collection[str]) -> None:
    """Refuse a profile that there is not."""
    if profile is not None and profile not in known:
        near = did_you_mean(profile, known)
        hint = f"Did you mean {near}?" if near else f"Known: {', '.join(known) or 'none'}"
        raise Mistake(f"there is no profile {profile!r}. {hint}")


def default_profile(config: HostConfig) -> str | None:
    """The profile of calls that name none."""
    return config.settings.profile or next(iter(config.profiles), None)
