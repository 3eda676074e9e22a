"""A spec together with what runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from toolcrib.core.context import ToolContext
from toolcrib.core.policy import ToolPolicy
from toolcrib.core.spec import ToolSpec

Execute = Callable[[ToolContext], Awaitable[Any]]


class Unavailable(NamedTuple):
    """Why a known tool cannot be called now, and since when."""

    reason: str
    message: str
    since: float


class Entry:
    """What the catalog holds under a name. Never changes; a new registration is a new entry."""

    __slots__ = ("convert", "defaults", "execute", "owner", "policy", "spec", "unavailable")

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

    def under(self, policy: ToolPolicy) -> Entry:
        """The same entry with another policy."""
        return Entry(
            self.spec,
            self.execute,
            owner=self.owner,
            policy=policy,
            defaults=self.defaults,
            convert=self.convert,
            unavailable=self.unavailable,
        )

    @property
    def name(self) -> str:
        """The registered name."""
        return self.spec.name

    def __repr__(self) -> str:
        return f"Entry({self.spec.name!r}, version={self.spec.version!r}, owner={self.owner!r})"
