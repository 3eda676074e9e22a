"""The approvals and grants of a remote host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from toolcrib.approvals.inbox import Fate
from toolcrib.core.approval import ApprovalDecision, ApprovalRequest, Grant
from toolcrib.errors import ToolcribError

if TYPE_CHECKING:
    from toolcrib.client.client import Client

_Requests = list[ApprovalRequest]
_Grants = list[Grant]
_Fates = list[Fate]


class Approvals:
    """What waits for a person, and what is remembered of the answers: the caller's own, or
    everybody's with the right `approve`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(self, *, state: Any = "pending") -> _Requests:
        """The requests in a state, those that expire first in front; None means any."""
        answer = await self._client.ask("approvals.list", {"state": state or "any"})
        return cast("_Requests", answer.approvals)

    async def get(self, id: str) -> ApprovalRequest:
        """One request. Raises `NotFound`."""
        return cast("ApprovalRequest", await self._client.ask("approvals.get", {"id": id}))

    async def decide(
        self,
        id: str,
        allow: bool = True,
        *,
        note: str | None = None,
        reach: str = "once",
        arguments: dict[str, Any] | None = None,
    ) -> ApprovalRequest:
        """Answer a request. Raises `NotFound`, or `ValueError` when the answer does not count."""
        params = {"id": id, "allow": allow, "note": note, "reach": reach, "arguments": arguments}
        return cast("ApprovalRequest", await self._client.ask("approvals.decide", params))

    async def decide_many(self, ids: Iterable[str], **answer: Any) -> _Fates:
        """Give several requests the same answer; each one's fate is told."""
        if isinstance(ids, str):
            raise ValueError("ids must be a list of approval ids, not one text")
        fates: _Fates = []
        for each in ids:
            try:
                fates.append(Fate(id=each, request=await self.decide(each, **answer)))
            except (ToolcribError, ValueError) as error:
                fates.append(Fate(id=each, error=str(error)))
        return fates

    async def grants(self, *, live: bool = True) -> _Grants:
        """The remembered approvals."""
        answer = await self._client.ask("grants.list", {"live": live})
        return cast("_Grants", answer.grants)

    async def revoke(self, grant_id: str) -> bool:
        """Take a remembered approval back; false when it is gone already."""
        return bool((await self._client.ask("grants.revoke", {"id": grant_id})).revoked)


async def answer(approvals: Approvals, id: str, decision: ApprovalDecision) -> None:
    """Send what a callback decided."""
    await approvals.decide(
        id,
        decision.answer == "allow",
        note=decision.note,
        reach=decision.reach,
        arguments=decision.arguments,
    )
