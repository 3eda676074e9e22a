"""What the trail says about requests, answers and grants."""

from __future__ import annotations

from typing import Any

from toolcrib.core.approval import ApprovalRequest, Grant

_ANSWERS = {"allowed": "allow", "denied": "deny", "expired": "expired"}


def request_facts(request: ApprovalRequest) -> dict[str, Any]:
    """The data of `approval.requested`."""
    return {
        "request": request.id,
        "tool": request.tool,
        "principal": request.principal,
        "session": request.session,
        "profile": request.profile,
        "door": request.door,
        "effects": None if request.effects is None else list(request.effects),
        "gate": request.gate,
        "rule": request.rule,
        "source": request.source,
        "message": request.message,
        "offered": list(request.offered),
        "via": list(request.via),
        "expires": request.expires,
    }


def answer_facts(request: ApprovalRequest) -> dict[str, Any]:
    """The data of `approval.decided`; `answer` is allow, deny or expired."""
    return {
        "request": request.id,
        "tool": request.tool,
        "principal": request.principal,
        "session": request.session,
        "answer": _ANSWERS[request.state],
        "state": request.state,
        "reach": request.reach,
        "by": request.by,
        "note": request.note,
        "edited": request.edited is not None,
        "wait_s": max(0.0, (request.decided or request.created) - request.created),
    }


def grant_facts(grant: Grant) -> dict[str, Any]:
    """The data of `grant.created`, `grant.used` and `grant.revoked`."""
    return {
        "grant": grant.id,
        "tool": grant.tool,
        "principal": grant.principal,
        "session": grant.session,
        "reach": grant.reach,
        "by": grant.by,
        "expires": grant.expires,
        "request": grant.request,
    }
