"""Putting a question to an approver, who may answer, fail, talk nonsense or be too late."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from toolcrib.approvals.answers import check_answer, read_decision
from toolcrib.core.approval import ApprovalDecision, ApprovalRequest
from toolcrib.errors import ToolcribError

if TYPE_CHECKING:
    from toolcrib.core.protocols import Approver


_log = logging.getLogger("toolcrib")

GRACE = 2.0
"""Seconds an approver gets to tidy up when its answer is no longer wanted."""


def vias(approver: object) -> tuple[str, ...]:
    """The channels an approver answers through: its `via`, a name or several; else `host`."""
    via = getattr(approver, "via", "host")
    return (via,) if isinstance(via, str) else tuple(via)


def counted(approver: object, request: ApprovalRequest) -> tuple[str, ...]:
    """Those of an approver's channels whose answers count for this request."""
    return tuple(via for via in vias(approver) if via in request.via)


async def consult(
    approver: Approver, request: ApprovalRequest, settled: asyncio.Future[ApprovalRequest]
) -> tuple[ApprovalDecision | None, str | None]:
    """The approver's decision and, when it is a no for want of a proper answer, the fault.

    No decision at all when the request is settled before the approver answers.
    """
    asking = asyncio.ensure_future(_ask(approver, request))
    try:
        await asyncio.wait({asking, settled}, return_when=asyncio.FIRST_COMPLETED)
        return (None, None) if settled.done() else asking.result()
    finally:
        if not asking.done():
            asking.cancel()
            await asyncio.wait({asking}, timeout=GRACE)


async def _ask(approver: Approver, request: ApprovalRequest) -> tuple[ApprovalDecision, str | None]:
    try:
        decision = read_decision(await approver.ask(request))
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return _no("the approver was cancelled from within")
    except ToolcribError as error:
        return _no(str(error))
    except TimeoutError:
        return _no("the approver did not answer in time")
    except Exception as error:
        # Its words may hold anything, secrets too; they go to the log and not on the trail.
        _log.warning("the approver failed on approval %s", request.id, exc_info=True)
        return _no(f"the approver raised {type(error).__name__}")
    if decision.answer == "escalate":
        return decision, None
    try:
        check_answer(
            request,
            allow=decision.answer == "allow",
            note=decision.note,
            reach=decision.reach,
            arguments=decision.arguments,
            by=decision.by,
        )
    except ValueError as error:
        return _no(str(error))
    return decision, None


def _no(fault: str) -> tuple[ApprovalDecision, str]:
    return ApprovalDecision(answer="deny", by="approver"), fault
