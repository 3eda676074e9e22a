"""Who stands at a door: a principal, what it may choose and what it may do besides calling."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Literal, get_args

from toolcrib.core.principal import Principal
from toolcrib.transports.faults import Fault

if TYPE_CHECKING:
    from toolcrib.host.session import Session

Right = Literal["approve", "audit", "admin"]
"""approve: answer for others · audit: see what others did · admin: run the host."""
RIGHTS: tuple[str, ...] = get_args(Right)
PREFIX = "toolcrib."
"""A right is a permission of this name in the configuration or in verified claims."""


class Badge:
    """The credentials that a caller showed, for as long as they hold. Whoever checked them takes
    the badge back when they are revoked; open connections then end."""

    __slots__ = ("expires", "revoked")

    def __init__(self, expires: float | None = None) -> None:
        self.revoked = False
        self.expires = expires
        """Seconds since 1970; None means never."""

    @property
    def over(self) -> bool:
        """Whether nothing may be done with it any more."""
        return self.revoked or (self.expires is not None and time.time() >= self.expires)


class Caller:
    """Made by whoever checked the credentials; a request can change nothing in it."""

    __slots__ = (
        "badge",
        "books",
        "door",
        "local",
        "plans",
        "principal",
        "profile",
        "profiles",
        "session",
    )

    def __init__(
        self,
        principal: Principal,
        *,
        door: str,
        profile: str | None = None,
        profiles: Collection[str] | None = (),
        local: bool = False,
        session: Session | None = None,
        badge: Badge | None = None,
    ) -> None:
        self.principal = principal
        self.badge = badge or Badge()
        self.door = door
        """Where it came in: `http`, `websocket`, `stdio`, `unix`."""
        self.profile = profile
        """What it is held to when it names no profile."""
        self.profiles = None if profiles is None else frozenset(profiles)
        """What it may choose from, beside `profile`; None means any."""
        self.local = local
        """Whether it sits at this machine: its answers to its own requests may count."""
        self.session = session
        """The session of its connection, where it has one."""
        self.books: Any = None
        """The plans that `plans` was taken from: other ones mean that the rules changed."""
        self.plans: Any = None
        """The plans of its profile, once it is known that it may use it."""

    def __repr__(self) -> str:
        return f"<Caller {self.principal.name} at {self.door} under {self.profile}>"

    def at(self, session: Session | None, door: str | None = None) -> Caller:
        """The same caller with a connection of its own."""
        return Caller(
            self.principal,
            door=door or self.door,
            profile=self.profile,
            profiles=self.profiles,
            local=self.local,
            session=session,
            badge=self.badge,
        )

    def may(self, right: Right) -> bool:
        """Whether it holds a right."""
        return f"{PREFIX}{right}" in self.principal.permissions

    @property
    def rights(self) -> list[str]:
        """The rights it holds."""
        return [name for name in RIGHTS if f"{PREFIX}{name}" in self.principal.permissions]

    def need(self, right: Right) -> None:
        """Raise a `Fault` unless it holds the right."""
        if not self.may(right):
            raise Fault(
                "not_permitted",
                f"{self.principal.name} needs the permission {PREFIX}{right} for this",
            )

    def may_use(self, profile: str | None) -> bool:
        """Whether it may be held to this profile by its own wish."""
        return (
            profile is None
            or profile == self.profile
            or (self.profiles is None or profile in self.profiles)
        )
