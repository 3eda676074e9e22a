"""What verified claims make of their holder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from toolcrib.core.principal import Principal
from toolcrib.core.serving import JwtSettings
from toolcrib.transports.faults import Fault

_MOST = 500
_LONGEST_NAME = 128
_RESERVED = "local"
"""The operator's name, whether or not the configuration has a principal so called."""


class Holder(msgspec.Struct, frozen=True):
    """Who holds a signed token."""

    principal: Principal
    profiles: tuple[str, ...] | None
    """What the claims let it choose from; None when they say nothing."""


def holder(
    settings: JwtSettings,
    claims: Mapping[str, Any],
    configured: Mapping[str, Principal],
    others: Iterable[JwtSettings],
) -> Holder:
    """The principal that claims name. Raises `Fault`: an issuer can name neither a principal of
    the configuration (unless it may) nor one of another issuer."""
    name = _name(settings, claims)
    known = configured.get(name)
    if (known is not None or name == _RESERVED) and not (known is not None and settings.principals):
        raise Fault(
            "unauthenticated",
            f"the token names {name!r}, which is the name of a principal of this host; "
            "its operator can permit that with serve.jwt.principals",
        )
    mine = settings.prefix
    if any(len(o.prefix) > len(mine) and name.startswith(o.prefix) for o in others):
        raise Fault("unauthenticated", f"the token names {name!r}, as another issuer's tokens do")
    roles = _words(claims, settings.roles)
    if settings.role_names:
        meaning = dict(settings.role_names)
        roles = [meaning[role] for role in roles if role in meaning]
    permissions = _words(claims, settings.permissions)
    attributes: dict[str, Any] = dict(claims)
    if known is not None:
        roles = [*known.roles, *roles]
        permissions = [*known.permissions, *permissions]
        attributes |= known.attributes
    given = None if settings.profiles is None else found(claims, settings.profiles)
    return Holder(
        Principal(name, roles, permissions, attributes),
        None if given is None else tuple(_words(claims, settings.profiles)),
    )


def found(claims: Mapping[str, Any], path: str) -> Any:
    """The value of a claim: of that very name, or reached by the dots in it; None without one."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for step in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = cast("Mapping[str, Any]", value).get(step)
    return value


def _name(settings: JwtSettings, claims: Mapping[str, Any]) -> str:
    value = found(claims, settings.principal)
    if isinstance(value, str) and value.strip() == value != "":
        name = settings.prefix + value
        if name.isprintable() and len(name) <= _LONGEST_NAME:
            return name
    raise Fault("unauthenticated", f"the claim {settings.principal!r} of the token names nobody")


def _words(claims: Mapping[str, Any], path: str | None) -> list[str]:
    value = None if path is None else found(claims, path)
    if isinstance(value, str):
        return value.split()[:_MOST]
    listed: Sequence[Any] = cast("list[Any]", value) if isinstance(value, list) else ()
    return [word for word in listed[:_MOST] if isinstance(word, str) and word]
