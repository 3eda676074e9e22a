"""`toolcrib grants`: what is remembered of approvals, and which calls it covers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from toolcrib.approvals.grants import covers
from toolcrib.cli.options import UsualGroup, common
from toolcrib.cli.output import Mistake, clock, put, put_json, say, table
from toolcrib.cli.project import Project, me, open_project, run

if TYPE_CHECKING:
    from toolcrib.core.approval import ApprovalRequest, Grant
    from toolcrib.core.decision import Explanation
    from toolcrib.core.protocols import Store
    from toolcrib.host.host import ToolHost


@click.group(cls=UsualGroup)
def grants() -> None:
    """What is remembered of approvals; revoke ID."""


@grants.command("list")
@click.option("--all", "every", is_flag=True, help="Those revoked and expired too.")
@common
def list_grants(every: bool, config: str | None, as_json: bool) -> None:
    """The remembered approvals."""

    async def work(store: Store) -> list[Grant]:
        return await store.grants(live=not every)

    found = open_project(config).read(work, [])
    if as_json:
        put_json([grant.to_dict() for grant in found])
        return
    if not found:
        say("No approval is remembered.")
        return
    columns = ("id", "tool", "principal", "reach", "by", "since", "until")
    table(
        columns,
        [
            (
                grant.id,
                grant.tool,
                grant.principal,
                grant.reach,
                grant.by or "",
                clock(grant.created),
                "revoked" if grant.revoked else clock(grant.expires) if grant.expires else "",
            )
            for grant in found
        ],
    )


@grants.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@common
def revoke(ids: tuple[str, ...], config: str | None, as_json: bool) -> int:
    """Take remembered approvals back."""
    project = open_project(config)
    if project.store is None or not project.store.exists():
        raise Mistake(f"there is no grant {ids[0]!r}: nothing was approved yet")

    async def work() -> list[tuple[str, bool]]:
        async with project.desk() as host:
            return [(each, await host.approvals.revoke(each, by=me())) for each in ids]

    fates = run(work())
    if as_json:
        put_json([{"id": each, "revoked": gone} for each, gone in fates])
    for each, gone in fates:
        if not gone:
            say(f"there is no live grant {each!r}. `toolcrib grants` lists them")
        elif not as_json:
            put(f"{each}   revoked")
    return 0 if all(gone for _, gone in fates) else 2


def covering_call(found: list[Grant], host: ToolHost, said: Explanation) -> Grant | None:
    """The one of these grants that lets an explained call pass without a question."""
    plan = host.planner.plan(said.tool, host.callers.profile(said.profile), None)
    if plan is None or said.verdict != "ask":
        return None
    # A call from the command line has no session that outlives it.
    return _first(found, said.tool, plan.spec.digest, said.principal, None, plan.revision)


def covering_request(project: Project, request: ApprovalRequest) -> Grant | None:
    """The grant that lets calls like the one in question pass."""
    return _first(
        live_grants(project),
        request.tool,
        request.digest,
        request.principal,
        request.session,
        request.revision,
    )


def told(grant: Grant) -> str:
    """`g1a2 until 2026-01-01 12:00:00`"""
    until = clock(grant.expires) if grant.expires else "it is revoked"
    return f"{grant.id} until {until}"


def live_grants(project: Project) -> list[Grant]:
    async def work(store: Store) -> list[Grant]:
        return await store.grants(live=True)

    return project.read(work, [])


def _first(
    found: list[Grant],
    tool: str,
    digest: str,
    principal: str,
    session: str | None,
    revision: str,
) -> Grant | None:
    now = time.time()
    for grant in found:
        if covers(
            grant,
            tool=tool,
            digest=digest,
            principal=principal,
            session=session,
            revision=revision,
            now=now,
        ):
            return grant
    return None
