"""What counts as an answer: everything that is not clearly a yes is none."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from toolcrib.core.approval import Answer, ApprovalDecision, ApprovalRequest
from toolcrib.core.canonical import canonical
from toolcrib.errors import ToolcribError

_ANSWERS: tuple[str, ...] = get_args(Answer)


def read_decision(value: object) -> ApprovalDecision:
    """An approver's answer, if it is one: True, False or a well-formed `ApprovalDecision`."""
    if value is True:
        return ApprovalDecision(answer="allow")
    if value is False:
        return ApprovalDecision(answer="deny")
    if not isinstance(value, ApprovalDecision):
        raise ToolcribError(
            f"the approver answered with {type(value).__name__}, "
            "not with True, False or an ApprovalDecision"
        )
    # The fields of a struct are not checked when it is built.
    try:
        return msgspec.convert(msgspec.to_builtins(value), ApprovalDecision)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
        raise ToolcribError(
            f"the approver's decision is malformed; answer is one of {', '.join(_ANSWERS)}, "
            "note and by are text, arguments an object"
        ) from error


def check_answer(
    request: ApprovalRequest, *, allow: Any, note: Any, reach: Any, arguments: Any, by: Any
) -> None:
    """Raise ValueError for an answer that the request does not offer."""
    if allow is not True and allow is not False:
        raise ValueError(f"allow must be True or False, not {_shown(allow)}")
    if note is not None and not isinstance(note, str):
        raise ValueError(f"note must be text or None, not {_shown(note)}")
    if by is not None and not isinstance(by, str):
        raise ValueError(f"by must be text, not {_shown(by)}")
    offered = ", ".join(request.offered)
    if not isinstance(reach, str) or reach not in request.offered:
        raise ValueError(f"reach {_shown(reach)} is not offered here; offered: {offered}")
    if not allow:
        if reach != "once":
            raise ValueError("a refusal is for one call and is not remembered; leave reach out")
        if arguments is not None:
            raise ValueError("a refusal changes no arguments; leave arguments out")
        return
    if reach == "session" and request.session is None:
        raise ValueError("reach 'session' needs a lasting session, and this call has none")
    if arguments is None:
        return
    if not request.edit:
        raise ValueError(
            f"profile {request.profile!r} does not let approvers change arguments; "
            "leave arguments out, or set approval.edit in the profile"
        )
    if not isinstance(arguments, dict):
        raise ValueError(f"arguments must be an object, not {_shown(arguments)}")


def answered(
    request: ApprovalRequest,
    *,
    allow: bool,
    note: str | None,
    reach: str,
    arguments: dict[str, Any] | None,
    by: str,
    now: float,
) -> ApprovalRequest:
    """The request in its answered form."""
    return msgspec.structs.replace(
        request,
        state="allowed" if allow else "denied",
        note=note,
        by=by,
        reach=reach if allow else None,
        decided=now,
        edited=None if arguments is None else _frozen(arguments),
    )


def _frozen(arguments: dict[str, Any]) -> dict[str, Any]:
    # A copy: whoever holds the original could change it after it was approved.
    try:
        return msgspec.json.decode(canonical(arguments), type=dict[str, Any])
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"arguments must be plain JSON values: {error}") from error


def _shown(value: object) -> str:
    text = ascii(value) if isinstance(value, str | int | float | None) else type(value).__name__
    return text if len(text) <= 60 else f"{text[:60]}…"
