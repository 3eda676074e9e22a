"""Who asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

_EMPTY: Mapping[str, Any] = MappingProxyType({})


class Principal:
    """Who asks: a name, and what is known about it. Immutable."""

    __slots__ = ("_hash", "attributes", "name", "permissions", "roles")

    name: str
    roles: frozenset[str]
    """What the principal is, such as `releaser`; rules match on it."""
    permissions: frozenset[str]
    """What the principal holds, such as `repo.read`; specs ask for it."""
    attributes: Mapping[str, Any]
    """Anything else that is known, such as verified claims."""

    def __init__(
        self,
        name: str,
        roles: Iterable[str] = (),
        permissions: Iterable[str] = (),
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"a principal's name must be non-empty text, not {name!r}")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ValueError(f"a principal's name must be text, not {name!r}") from None
        if isinstance(roles, str) or isinstance(permissions, str):
            raise ValueError("roles and permissions are lists of names, not one string")
        put = object.__setattr__
        put(self, "name", name)
        put(self, "roles", frozenset(roles))
        put(self, "permissions", frozenset(permissions))
        put(self, "attributes", MappingProxyType(dict(attributes)) if attributes else _EMPTY)
        put(self, "_hash", hash((name, self.roles, self.permissions)))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Principal does not change: cannot set {name!r}")

    def __repr__(self) -> str:
        more = "".join(
            f", {key}={sorted(value)}"
            for key, value in (("roles", self.roles), ("permissions", self.permissions))
            if value
        )
        return f"Principal({self.name!r}{more})"

    def __hash__(self) -> int:
        return self._hash  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Principal) and (
            (self.name, self.roles, self.permissions, self.attributes)
            == (other.name, other.roles, other.permissions, other.attributes)
        )
