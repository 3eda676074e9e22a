"""What is remembered of an answer, and which calls it covers."""

from __future__ import annotations

from toolcrib.core.approval import ApprovalRequest, Grant

HOUR = 3600.0


def grant_for(answered: ApprovalRequest, *, id: str, now: float) -> Grant | None:
    """What is remembered of an allowed request; None when it reaches this one call only."""
    if answered.reach is None or answered.reach == "once":
        return None
    return Grant(
        id=id,
        tool=answered.tool,
        digest=answered.digest,
        principal=answered.principal,
        session=answered.session if answered.reach == "session" else None,
        revision=answered.revision,
        reach=answered.reach,
        by=answered.by,
        created=now,
        expires=now + HOUR if answered.reach == "1h" else None,
        request=answered.id,
    )


def covers(
    grant: Grant,
    *,
    tool: str,
    digest: str,
    principal: str,
    session: str | None,
    revision: str,
    now: float,
) -> bool:
    """Whether the grant lets this call pass."""
    return (
        grant.revoked is None
        and (grant.expires is None or now < grant.expires)
        and grant.tool == tool
        and grant.digest == digest
        and grant.principal == principal
        and grant.revision == revision
        and (grant.reach != "session" or (session is not None and grant.session == session))
    )
