"""What a connection or a stream wants to be told of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from toolcrib.transports.caller import Caller
from toolcrib.transports.mcp.asked import Endpoint
from toolcrib.transports.mcp.faults import invalid

if TYPE_CHECKING:
    from toolcrib.transports.mcp.changes import Changes

Tell = Callable[[str, dict[str, Any]], None]
MOST_URIS = 1000
_FLAGS = {
    "tools": "toolsListChanged",
    "prompts": "promptsListChanged",
    "resources": "resourcesListChanged",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """Which changes somebody wants to know of."""

    tools: bool = False
    prompts: bool = False
    resources: bool = False
    uris: frozenset[str] = frozenset()
    """Resources whose updates are wanted."""
    messages: str | None = None
    """The level from which on log messages are wanted that belong to no call; handshake only."""

    @classmethod
    def of(cls, notifications: Any) -> Wanted:
        """What `subscriptions/listen` asks for. Raises `McpFault`."""
        if not isinstance(notifications, dict):
            raise invalid("subscriptions/listen: notifications has to be an object")
        given = cast("dict[str, Any]", notifications)
        flags: dict[str, bool] = {}
        for name, member in _FLAGS.items():
            flag = given.get(member, False)
            if not isinstance(flag, bool):
                raise invalid(f"subscriptions/listen: {member} has to be true or false")
            flags[name] = flag
        uris: Any = given.get("resourceSubscriptions", [])
        if not isinstance(uris, list) or not all(
            isinstance(uri, str) and uri for uri in cast("list[Any]", uris)
        ):
            raise invalid("subscriptions/listen: resourceSubscriptions has to be a list of URIs")
        return cls(
            tools=flags["tools"],
            prompts=flags["prompts"],
            resources=flags["resources"],
            uris=bounded(cast("list[str]", uris)),
        )

    def filter(self) -> dict[str, Any]:
        """The same as the protocol writes it; what is not wanted is left out."""
        made: dict[str, Any] = {
            member: True for name, member in _FLAGS.items() if getattr(self, name)
        }
        if self.uris:
            made["resourceSubscriptions"] = sorted(self.uris)
        return made


def bounded(uris: list[str] | set[str]) -> frozenset[str]:
    """As many subscriptions as one connection may have. Raises `McpFault`."""
    if len(uris) > MOST_URIS:
        raise invalid(f"one connection may subscribe to {MOST_URIS} resources at most")
    return frozenset(uris)


class Watch:
    """Somebody who is told, until it is closed."""

    __slots__ = ("caller", "closed", "endpoint", "followed", "tell", "wanted", "_changes")

    def __init__(
        self, changes: Changes, caller: Caller, endpoint: Endpoint, wanted: Wanted, tell: Tell
    ) -> None:
        self._changes = changes
        self.caller = caller
        self.endpoint = endpoint
        self.wanted = wanted
        self.tell = tell
        self.closed = False
        self.followed: dict[str, str] = {}
        """The provider that each wanted resource belongs to."""

    def renew(self, wanted: Wanted) -> None:
        """Be told of other things from now on."""
        if not self.closed:
            self._changes.renew(self, wanted)

    def close(self) -> None:
        """Be told nothing more; calling it again does nothing."""
        if not self.closed:
            self.closed = True
            self._changes.forget(self)
