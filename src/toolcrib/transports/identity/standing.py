"""What a caller is held to and may choose from, by what the configuration says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from toolcrib.core.context import LOCAL
from toolcrib.core.principal import Principal
from toolcrib.core.serving import ServeSettings, StdioSettings
from toolcrib.host.host import ToolHost
from toolcrib.transports.caller import PREFIX, RIGHTS
from toolcrib.transports.faults import Fault

if TYPE_CHECKING:
    from toolcrib.transports.identity.claims import Holder


class Standing(msgspec.Struct, frozen=True):
    """Who a caller is, what it is held to, and what it may choose from (None: anything)."""

    principal: Principal
    profile: str | None
    profiles: frozenset[str] | None
    expires: float | None = None
    """Seconds since 1970; None means never."""


def configured(host: ToolHost, name: str, profile: str | None, usual: str | None) -> Standing:
    """A principal of the configuration, held to a profile of its own or to the usual one of its
    door. Raises `Fault` for one that there is not."""
    who = host.config.principals.get(name)
    if who is None:
        raise Fault("unauthenticated", f"there is no principal {name!r} any more")
    return _standing(host, who, profile, usual)


def at_stdio(host: ToolHost, settings: StdioSettings) -> Standing:
    """The client that started this process: the operator, unless the settings name a principal,
    which the configuration need not know. A profile that they name is no choice."""
    if settings.principal is not None:
        who = host.callers.principal(settings.principal)
        return _standing(host, who, settings.profile, None)
    found = operator(host, settings.profile)
    if settings.profile is None or found.profiles is not None:
        return found
    return msgspec.structs.replace(found, profiles=frozenset[str]())


def operator(host: ToolHost, profile: str | None) -> Standing:
    """Whoever runs the host: every right, any profile (unless the principal `local` is limited)."""
    who = host.config.principals.get(LOCAL.name, LOCAL)
    rights = {f"{PREFIX}{right}" for right in RIGHTS}
    who = Principal(who.name, who.roles, who.permissions | rights, who.attributes)
    allowed = host.config.principal_profiles.get(LOCAL.name)
    chosen = profile or host.callers.default
    if allowed is not None and chosen not in allowed:
        chosen = allowed[0] if allowed else None
    return Standing(who, chosen, None if allowed is None else frozenset(allowed))


def claimed(host: ToolHost, settings: ServeSettings, who: Holder, profile: str | None) -> Standing:
    """The holder of verified claims, which may name its profiles."""
    name = who.principal.name
    allowed = host.config.principal_profiles.get(name)
    if who.profiles is None:
        held = _held(host, profile, settings.http.profile, name, allowed)
        return Standing(who.principal, held, frozenset(allowed or ()))
    known = [each for each in who.profiles if each in host.config.profiles]
    usable = tuple(each for each in known if allowed is None or each in allowed)
    if not usable:
        # The usual profile may be wider than what the issuer meant.
        raise Fault("unauthenticated", f"no profile that the token names is for {name} here")
    return Standing(who.principal, usable[0], frozenset(usable))


def _standing(host: ToolHost, who: Principal, profile: str | None, usual: str | None) -> Standing:
    allowed = host.config.principal_profiles.get(who.name)
    held = _held(host, profile, usual, who.name, allowed)
    return Standing(who, held, frozenset(allowed or ()))


def _held(
    host: ToolHost,
    own: str | None,
    usual: str | None,
    name: str,
    allowed: tuple[str, ...] | None,
) -> str | None:
    """The profile of a caller that names none: its own, the usual one where it may use it, else
    the first it may use."""
    profiles = host.config.profiles
    chosen = own or usual or host.callers.default
    if own is None and allowed is not None and chosen not in allowed:
        chosen = allowed[0] if allowed else None
    if chosen is None and not profiles and allowed is None:
        return None
    if chosen not in profiles or (allowed is not None and chosen not in allowed):
        raise Fault("unauthenticated", f"there is no profile that {name} could be held to")
    return chosen
