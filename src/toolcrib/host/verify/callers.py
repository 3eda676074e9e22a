"""Which callers the rules tell apart. Enough of them, so that no other caller gets further."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from toolcrib.core.principal import Principal
from toolcrib.core.profile import Profile, Rule, When
from toolcrib.core.settings import HostConfig
from toolcrib.core.spec import ToolSpec


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The callers that are asked about; nothing given means all there could ever be."""

    roles: frozenset[str] | None = None
    """Callers that hold no role beyond these."""
    principals: tuple[str, ...] = ()
    """These principals, with the roles and permissions that the configuration gives them."""


ANYONE = Scope()
"""Every caller there could ever be."""


def callers(
    config: HostConfig,
    profile: Profile,
    spec: ToolSpec,
    groups: Sequence[Iterable[Rule]],
    scope: Scope,
) -> list[Principal]:
    """The callers to try: for each choice of one rule (or none) of every group, the smallest ones
    that meet the conditions of the rules chosen.

    More roles and permissions only make more rules hold. So if any caller gets a call through by
    one rule, a smallest caller that meets that rule's condition does, too.
    """
    if scope.principals:
        named = [config.principals.get(name) or Principal(name) for name in scope.principals]
        return [who for who in named if may_use(config, who.name, profile.name)]
    mentioned = {name for rule in profile.rules if rule.when for name in rule.when.principals}
    stranger = _unused("anyone", mentioned | set(config.principals))
    found: dict[Principal, None] = {}
    conditions = [{When(): None, **{_about_who(rule): None for rule in g}} for g in groups]
    for chosen in itertools.product(*conditions):
        for who in _smallest(chosen, spec, stranger):
            if scope.roles is not None and not who.roles <= scope.roles:
                continue
            if may_use(config, who.name, profile.name):
                found.setdefault(who)
    return list(found)


def also_known(
    config: HostConfig, profile: Profile, found: Sequence[Principal], scope: Scope
) -> list[Principal]:
    """Callers that only code tells apart: the configured ones, and one who holds everything."""
    if scope.principals:
        return []
    known = [*found, *config.principals.values()]
    everything = Principal(
        "anyone",
        frozenset[str]().union(*(who.roles for who in known)),
        frozenset[str]().union(*(who.permissions for who in known)),
    )
    return [
        who
        for who in (*config.principals.values(), everything)
        if who not in found
        and (scope.roles is None or who.roles <= scope.roles)
        and may_use(config, who.name, profile.name)
    ]


def may_use(config: HostConfig, principal: str, profile: str) -> bool:
    """Whether a principal may choose a profile."""
    chosen = config.principal_profiles.get(principal)
    return chosen is None or profile in chosen


def _about_who(rule: Rule) -> When:
    """The rule's condition without its part about the arguments."""
    return When() if rule.when is None else replace(rule.when, arguments=())


def _smallest(conditions: Sequence[When], spec: ToolSpec, stranger: str) -> list[Principal]:
    permissions = frozenset(spec.permissions).union(*(when.permissions for when in conditions))
    lists = [when.principals for when in conditions if when.principals]
    names = sorted(lists[0].intersection(*lists[1:])) if lists else [stranger]
    choices = [sorted(when.roles) for when in conditions if when.roles]
    return [
        Principal(name, roles, permissions)
        for name, roles in itertools.product(names, itertools.product(*choices))
    ]


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "-else"
    return name
