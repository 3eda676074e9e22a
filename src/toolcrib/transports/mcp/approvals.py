"""A person's answer to "may it?" through the MCP client that made the call."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, cast

from toolcrib.approvals.rendering import asks, remaining, visible, written
from toolcrib.core.approval import ApprovalRequest
from toolcrib.core.result import Failure, ToolResult
from toolcrib.errors import NotFound, StoreError
from toolcrib.transports.caller import Caller
from toolcrib.transports.service import Service

_log = logging.getLogger("toolcrib")
WAITING = "awaiting_approval"
"""The reason of an answer that is none yet: the call has not run, and a person is still asked."""
_LONGEST_NOTE = 2000


def may_answer(caller: Caller, request: ApprovalRequest) -> bool:
    """Whether what this caller's client says counts: it sits at this machine, it is about its own
    call, and the profile lets clients answer. The same rule as for `approvals.decide`; a caller's
    right to approve counts there, and not here, where its program asks on behalf of a model."""
    return caller.local and request.principal == caller.principal.name and "client" in request.via


async def find(service: Service, id: str) -> ApprovalRequest | None:
    """The question, while it is open."""
    try:
        request = await service.host.approvals.get(id)
    except (NotFound, StoreError):
        return None
    return request if request.state == "pending" else None


def key_of(request: ApprovalRequest) -> str:
    """The key under which the client is asked."""
    return f"toolcrib_approval_{request.id}"


def form(request: ApprovalRequest) -> dict[str, Any]:
    """The question as an elicitation. Nothing is filled in, and the first choice is the no."""
    effects = "unknown" if request.effects is None else ", ".join(request.effects) or "none"
    why = request.message or request.rule or f"{request.gate} asks"
    lines = [
        asks(request).strip(),
        f"Arguments: {written(request.arguments)}",
        f"Effects: {visible(effects, 200)}",
        f"Asked because: {visible(why, 500)}",
    ]
    properties: dict[str, Any] = {
        "decision": {
            "type": "string",
            "title": "May it run?",
            "enum": ["deny", "allow"],
        },
        "note": {
            "type": "string",
            "title": "Words for the model",
            "maxLength": _LONGEST_NOTE,
        },
    }
    if len(request.offered) > 1:
        properties["reach"] = {
            "type": "string",
            "title": "How far a yes reaches",
            "enum": list(request.offered),
        }
    return {
        "message": "\n".join(lines),
        "requestedSchema": {
            "type": "object",
            "properties": properties,
            "required": ["decision"],
        },
    }


async def decide(service: Service, caller: Caller, request: ApprovalRequest, answer: Any) -> bool:
    """Take what the client answered to the form. False when that is no answer: then the question
    stays open, and nothing has been allowed."""
    said = _read(answer, request)
    if said is None or not may_answer(caller, request) or caller.badge.over:
        return False
    allow, note, reach = said
    try:
        await service.host.approvals.decide(
            request.id,
            allow,
            note=note,
            reach=reach,
            by=caller.principal.name,
            via="client",
        )
    except (NotFound, ValueError) as error:  # somebody else was quicker, or it is too late
        _log.info("the answer of %s does not count: %s", caller.principal.name, error)
        return await find(service, request.id) is None
    except StoreError as error:
        _log.warning("the answer of %s could not be kept: %s", caller.principal.name, error)
        return False
    return True


def _read(answer: Any, request: ApprovalRequest) -> tuple[bool, str | None, str] | None:
    """Whether it may run, the note and the reach. Only a clear yes is one."""
    if not isinstance(answer, Mapping):
        return None
    given = cast("Mapping[str, Any]", answer)
    action = given.get("action")
    if action == "decline":
        return False, None, "once"
    content: Any = given.get("content")
    if action != "accept" or not isinstance(content, Mapping):
        return None
    fields = cast("Mapping[str, Any]", content)
    decision, note, reach = fields.get("decision"), fields.get("note"), fields.get("reach")
    if note is not None and (not isinstance(note, str) or len(note) > _LONGEST_NOTE):
        return None
    if decision == "deny":
        return False, note or None, "once"
    reach = "once" if reach is None else reach
    if decision != "allow" or not isinstance(reach, str) or reach not in request.offered:
        return None
    return True, note or None, reach


def waiting(request: ApprovalRequest, call_id: str) -> ToolResult:
    """What the caller is told when the answer takes longer than its request may."""
    left = remaining(request.expires - time.time())
    how = _how(request)
    text = (
        f"{request.tool} has not run: it waits for approval {request.id}, which expires in {left}. "
        f"{how} Then call it again with the same arguments."
    )
    details = {
        "approval": {
            "id": request.id,
            "state": "pending",
            "tool": request.tool,
            "expires": request.expires,
            "via": list(request.via),
            "how": how,
        },
        "rule": request.rule,
        "source": request.source,
    }
    return ToolResult(
        call_id=call_id,
        status="denied",
        error=Failure(reason=WAITING, message=text, details=details, retryable=True),
    )


def _how(request: ApprovalRequest) -> str:
    if "cli" in request.via:
        return f"A person can answer with `toolcrib approvals allow {request.id}`."
    if "console" in request.via:
        return "A person can answer in the console."
    return "A person has to answer first."
