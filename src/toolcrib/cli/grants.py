"""`toolcrib grants`: what is remembered of approvals, and which calls it covers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from toolcrib.approvals.grants import covers
from toolcrib.cli.options import UsualGroup, common
from toolcrib.cli.output import clock, put, put_json, say, table

if TYPE_CHECKING:
    from toolcrib.cli.source import Source
    from toolcrib.core.approval import ApprovalRequest, Grant
    from toolcrib.core.decision import Explanation


@click.group(cls=UsualGroup)
def grants() -> None:
    """What is remembered of approvals; revoke ID."""


@grants.command("list")
@click.option("--all", "every", is_flag=True, help="Those revoked and expired too.")
@common
def list_grants(every: bool, source: Source, as_json: bool) -> None:
    """The remembered approvals."""
    found = source.grants(live=not every)
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
def revoke(ids: tuple[str, ...], source: Source, as_json: bool) -> int:
    """Take remembered approvals back."""
    fates = source.revoke(ids)
    if as_json:
        put_json([{"id": each, "revoked": gone} for each, gone in fates])
    for each, gone in fates:
        if not gone:
            say(f"there is no live grant {each!r}. `toolcrib grants` lists them")
        elif not as_json:
            put(f"{each}   revoked")
    return 0 if all(gone for _, gone in fates) else 2


def covering_call(
    found: Sequence[Grant], said: Explanation, digest: str, revision: str
) -> Grant | None:
    """The one of these grants that lets an explained call pass without a question."""
    # A call from the command line has no session that outlives it.
    return _first(found, said.tool, digest, said.principal, None, revision)


def covering_request(found: Sequence[Grant], request: ApprovalRequest) -> Grant | None:
    """The grant that lets calls like the one in question pass."""
    return _first(
        found,
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


def _first(
    found: Sequence[Grant],
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
