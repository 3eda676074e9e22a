"""Calls that reached no tool: they end like any other, and are on the trail like any other."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from toolcrib.core.decision import Explanation, Step
from toolcrib.core.events import NOTHING, CallRecord
from toolcrib.core.principal import Principal
from toolcrib.core.result import Failure, ToolResult
from toolcrib.reasons import reason as reason_row

if TYPE_CHECKING:
    from toolcrib.host.host import ToolHost
    from toolcrib.host.parts import Parts
    from toolcrib.host.session import Session


def stray(
    host: ToolHost,
    parts: Parts,
    name: str,
    who: Principal,
    reason: str,
    message: str,
    *,
    call_id: str | None = None,
    session: Session | None = None,
    parent: str | None = None,
    door: str = "python",
) -> ToolResult:
    """The ending of such a call."""
    row = reason_row(reason)
    call_id = call_id or parts.new_call_id()
    session_id = None if session is None else session.id
    name = name.encode("utf-8", "backslashreplace").decode()
    record = CallRecord(
        time.time(), call_id, name[:128], who.name, session_id, None, door, parent,
        "deny", "find", None, None, NOTHING, 0, None, 0.0,
        row.status, reason, host.redactor.text(message), NOTHING, 0, None,
        0, 0.0, 0.0, 0.0, 0.0,
    )  # fmt: skip
    parts.trail.append(record)
    host.metrics.other.ended(row.status, reason, 0.0)
    failure = Failure(
        reason=reason, message=message, details={"gate": "find"}, retryable=row.retry == "yes"
    )
    return ToolResult(call_id=call_id, status=row.status, error=failure)


def unexplained(
    name: str, who: Principal, profile: str | None, reason: str, message: str
) -> Explanation:
    """Why such a call would go nowhere."""
    return Explanation(
        tool=name,
        principal=who.name,
        profile=profile,
        verdict="deny",
        reason=reason,
        message=message,
        steps=(Step(gate="find", verdict="deny", reason=reason, message=message),),
    )


def unreachable(reason: str, message: str | None, call_id: str | None) -> ToolResult:
    """The ending of a call that came to a host without a trail: stopped, or unable to start."""
    row = reason_row(reason)
    failure = Failure(reason=reason, message=message or row.meaning, retryable=row.retry == "yes")
    return ToolResult(call_id=call_id or "", status=row.status, error=failure)


_CALL_ID = r"[A-Za-z0-9_.:-]{1,128}"


def slip(name: object, principal: object, timeout: object, call_id: object) -> str | None:
    """What is wrong with how `call` was written, as opposed to what it asks for."""
    if not isinstance(name, str):
        return f"call() takes a tool's name, not {type(name).__name__}: write call('name', {{…}})"
    if principal is not None and not isinstance(principal, str | Principal):
        return f"principal is a name or a Principal, not {type(principal).__name__}"
    if timeout is not None and (not isinstance(timeout, int | float) or not timeout > 0):
        return f"timeout is a number of seconds above 0, not {timeout!r}"
    if call_id is not None and (
        not isinstance(call_id, str) or not re.fullmatch(_CALL_ID, call_id)
    ):
        return f"call_id is 1 to 128 letters, digits and _ . : -, not {ascii(call_id)[:80]}"
    return None
