"""The approvals and grants of a host, as an embedder answers them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from toolcrib.approvals.inbox import Fate, Inbox
from toolcrib.core.approval import ApprovalRequest, Grant

_Requests = list[ApprovalRequest]
_Fates = list[Fate]
_Grants = list[Grant]


class Approvals:
    """What waits for a person, and what is remembered of the answers."""

    def __init__(self, inbox: Callable[[], Awaitable[Inbox]]) -> None:
        self._inbox = inbox

    async def list(self, *, state: Any = "pending") -> _Requests:
        """The requests in a state, those that expire first in front."""
        return await (await self._inbox()).list(state=state)

    async def get(self, id: str) -> ApprovalRequest:
        """One request. Raises `NotFound`."""
        return await (await self._inbox()).get(id)

    async def decide(
        self,
        id: str,
        allow: bool = True,
        *,
        note: str | None = None,
        reach: str = "once",
        arguments: dict[str, Any] | None = None,
        by: str = "host",
        via: str = "host",
    ) -> ApprovalRequest:
        """Answer a request. Raises `NotFound`, or ValueError for an answer that was not offered."""
        inbox = await self._inbox()
        return await inbox.decide(
            id, allow=allow, note=note, reach=reach, arguments=arguments, by=by, via=via
        )

    async def decide_many(self, ids: Iterable[str], **answer: Any) -> _Fates:
        """Give several requests the same answer; each one's fate is told."""
        return await (await self._inbox()).decide_many(ids, **answer)

    async def grants(self, *, live: bool = True) -> _Grants:
        """The remembered approvals."""
        return await (await self._inbox()).grants(live=live)

    async def revoke(self, grant_id: str, *, by: str = "host") -> bool:
        """Take a remembered approval back; false when it is gone already."""
        return await (await self._inbox()).revoke(grant_id, by=by)
