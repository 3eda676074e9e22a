"""`toolcrib approvals` and `toolcrib grants`: what people are asked, and what they said."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

import click

from toolcrib.cli.options import UsualGroup, common
from toolcrib.cli.output import Mistake, clock, left, put, put_json, say, table
from toolcrib.cli.project import Project, me, open_project, run

if TYPE_CHECKING:
    from toolcrib.core.approval import ApprovalRequest, Grant
    from toolcrib.core.protocols import Store

_IDS = click.argument("ids", nargs=-1, required=True, metavar="ID...")


@click.group(cls=UsualGroup)
def approvals() -> None:
    """What waits for a person; allow ID; deny ID."""


@approvals.command("list")
@click.option("--all", "every", is_flag=True, help="Those answered and expired too.")
@common
def list_approvals(every: bool, config: str | None, as_json: bool) -> None:
    """What waits for a person, what expires first in front."""
    project = open_project(config)

    async def work(store: Store) -> list[ApprovalRequest]:
        return await store.requests(state=None if every else "pending")

    now = time.time()
    found = project.read(work, [])
    if not every:
        found = [request for request in found if request.expires > now]
    if as_json:
        put_json([request.to_dict() for request in found])
        return
    if not found:
        say("Nothing waits for approval." if not every else "Nothing was asked yet.")
        return
    columns = ("id", "state", "tool", "arguments", "principal", "because", "source", "left")
    table(columns, [_row(request, now) for request in found])
    if not every:
        say("Answer with `toolcrib approvals allow ID` or `toolcrib approvals deny ID`.")


def _row(request: ApprovalRequest, now: float) -> tuple[str, ...]:
    arguments = " ".join(f"{k}={v}" for k, v in request.arguments.items())
    state = "expired" if request.state == "pending" and request.expires <= now else request.state
    return (
        request.id,
        state,
        request.tool,
        arguments if len(arguments) <= 60 else f"{arguments[:59]}…",
        request.principal,
        request.message or request.rule or request.gate,
        request.source or "",
        left(request.expires - now) if state == "pending" else "",
    )


@approvals.command()
@_IDS
@click.option("--note", help="Words for the model.")
@click.option("--reach", default="once", help="How far it reaches: once, session, 1h or always.")
@click.option("--arguments", metavar="JSON", help="Changed arguments, where the profile permits.")
@common
def allow(
    ids: tuple[str, ...],
    note: str | None,
    reach: str,
    arguments: str | None,
    config: str | None,
    as_json: bool,
) -> int:
    """Let the calls run."""
    from toolcrib.core.jsontext import parse

    changed: Any = None if arguments is None else parse(arguments)
    if changed is not None and not isinstance(changed, dict):
        raise Mistake("--arguments must be a JSON object")
    if changed is not None and len(ids) > 1:
        raise Mistake("--arguments are for one approval. Answer one at a time")
    answer: dict[str, Any] = {"allow": True, "note": note, "reach": reach}
    answer["arguments"] = cast("Any", changed)
    return _answer(open_project(config), ids, answer, as_json)


@approvals.command()
@_IDS
@click.option("--note", help="Words for the model.")
@common
def deny(ids: tuple[str, ...], note: str | None, config: str | None, as_json: bool) -> int:
    """Refuse the calls."""
    return _answer(open_project(config), ids, {"allow": False, "note": note}, as_json)


def _answer(project: Project, ids: tuple[str, ...], answer: dict[str, Any], as_json: bool) -> int:
    if project.store is None or not project.store.exists():
        raise Mistake(f"there is no approval {ids[0]!r}: nothing was asked yet")

    async def work() -> list[Any]:
        async with project.desk() as host:
            return await host.approvals.decide_many(ids, **answer, by=me(), via="cli")

    fates = run(work())
    if as_json:
        put_json(
            [
                {"id": f.id, "error": f.error, "request": f.request and f.request.to_dict()}
                for f in fates
            ]
        )
    for fate in fates:
        if fate.request is None:
            say(f"{fate.id}: {fate.error}")
        elif not as_json:
            request: ApprovalRequest = fate.request
            put(f"{request.id}   {request.state}   {request.tool} for {request.principal}")
    return 2 if any(fate.request is None for fate in fates) else 0


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
@_IDS
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
