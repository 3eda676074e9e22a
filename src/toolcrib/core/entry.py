"""A spec together with what runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.core.context import ToolContext
from toolcrib.core.policy import ToolPolicy
from toolcrib.core.spec import ToolSpec

if TYPE_CHECKING:
    from toolcrib.core.protocols import Sandbox

Execute = Callable[[ToolContext], Awaitable[Any]]
Places = Callable[[ToolPolicy], "tuple[Sandbox, ...]"]


class Unavailable(msgspec.Struct, frozen=True):
    """Why a known tool cannot be called now, and since when."""

    reason: str
    message: str
    since: float


class Entry:
    """What the catalog holds under a name. Never changes; a new registration is a new entry."""

    __slots__ = (
        "convert",
        "defaults",
        "execute",
        "owner",
        "places",
        "policy",
        "sandboxes",
        "spec",
        "unavailable",
    )

    def __init__(
        self,
        spec: ToolSpec,
        execute: Execute,
        *,
        owner: str,
        policy: ToolPolicy | None = None,
        defaults: Mapping[str, Any] | None = None,
        convert: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        unavailable: Unavailable | None = None,
        sandboxes: tuple[Sandbox, ...] = (),
        places: Places | None = None,
    ) -> None:
        self.spec = spec
        self.execute = execute
        self.owner = owner
        """Who registered it: a file and line, a provider, a session."""
        self.policy = policy
        """The policy as configured for the tool; a profile may narrow it further."""
        self.defaults = defaults
        self.convert = convert
        """From JSON arguments to the types that the function is annotated with."""
        self.unavailable = unavailable
        self.sandboxes = sandboxes
        """Where its commands run under its own policy."""
        self.places = places
        """Says where they run under another one; None when the policy does not decide it."""

    def under(self, policy: ToolPolicy) -> Entry:
        """The same entry with another policy."""
        return self._with(policy=policy)

    def described(self, spec: ToolSpec) -> Entry:
        """The same entry under another description."""
        return self._with(spec=spec)

    def within(self, sandboxes: Iterable[Sandbox], places: Places | None = None) -> Entry:
        """The same entry, whose commands run in these sandboxes."""
        return self._with(sandboxes=tuple(sandboxes), places=places)

    def sandboxes_under(self, policy: ToolPolicy | None) -> tuple[Sandbox, ...]:
        """Where its commands run under the policy of a profile. Raises `ConfigError`."""
        if self.places is None or policy is None or policy == self.policy:
            return self.sandboxes
        return self.places(policy)

    def marked(self, unavailable: Unavailable | None) -> Entry:
        """The same entry, unavailable or available again."""
        return self._with(unavailable=unavailable)

    def _with(self, **changes: Any) -> Entry:
        given = {name: getattr(self, name) for name in self.__slots__} | changes
        return Entry(**given)

    @property
    def name(self) -> str:
        """The registered name."""
        return self.spec.name

    def __repr__(self) -> str:
        return f"Entry({self.spec.name!r}, version={self.spec.version!r}, owner={self.owner!r})"
