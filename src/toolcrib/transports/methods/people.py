"""Approvals and grants, for those who may see or answer them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib.core.approval import ApprovalRequest, Grant
from toolcrib.errors import NotFound
from toolcrib.host.approvals import UnfitArguments
from toolcrib.transports import models as m
from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault

if TYPE_CHECKING:
    from toolcrib.transports.service import Service


async def approvals_list(
    service: Service, caller: Caller, asked: m.ApprovalsList
) -> m.ApprovalsPage:
    state = None if asked.state == "any" else asked.state
    found = await service.host.approvals.list(state=state)
    return m.ApprovalsPage(approvals=[each for each in found if _may_see(caller, each)])


async def approvals_get(service: Service, caller: Caller, asked: m.ApprovalsGet) -> ApprovalRequest:
    nothing = Fault("not_found", f"there is no approval {asked.id!r}; list what is pending")
    try:
        request = await service.host.approvals.get(asked.id)
    except NotFound:
        raise nothing from None
    if not _may_see(caller, request):
        raise nothing
    return request


async def approvals_decide(
    service: Service, caller: Caller, asked: m.ApprovalsDecide
) -> ApprovalRequest:
    request = await approvals_get(service, caller, m.ApprovalsGet(id=asked.id))
    via = "cli"
    if not caller.may("approve"):
        if not caller.local or request.principal != caller.principal.name:
            caller.need("approve")
        via = "client"
    try:
        return await service.host.approvals.decide(
            request.id,
            asked.allow,
            note=asked.note,
            reach=asked.reach,
            arguments=asked.arguments,
            by=caller.principal.name,
            via=via,
        )
    except UnfitArguments as error:
        problems = [f"{p.path} {p.message}".strip() for p in error.problems]
        raise Fault("invalid_request", str(error), problems=problems) from None
    except ValueError as error:
        raise Fault("answer_refused", str(error)) from None


async def grants_list(service: Service, caller: Caller, asked: m.GrantsList) -> m.GrantsPage:
    found = await service.host.approvals.grants(live=asked.live)
    return m.GrantsPage(grants=[grant for grant in found if _may_see(caller, grant)])


async def grants_revoke(service: Service, caller: Caller, asked: m.GrantsRevoke) -> m.Revoked:
    grants = await service.host.approvals.grants(live=False)
    found = next((grant for grant in grants if grant.id == asked.id), None)
    if found is None or not _may_see(caller, found):
        raise Fault("not_found", f"there is no grant {asked.id!r}")
    if found.principal != caller.principal.name:
        caller.need("approve")
    gone = await service.host.approvals.revoke(asked.id, by=caller.principal.name)
    return m.Revoked(revoked=gone)


def _may_see(caller: Caller, thing: ApprovalRequest | Grant) -> bool:
    return thing.principal == caller.principal.name or caller.may("approve") or caller.may("audit")
