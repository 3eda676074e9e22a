"""`toolcrib approvals`: what people are asked, and what they said."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, cast

import click

from toolcrib.cli.options import UsualGroup, common
from toolcrib.cli.output import Mistake, clock, left, put, put_json, say, table

if TYPE_CHECKING:
    from toolcrib.cli.source import Source
    from toolcrib.core.approval import ApprovalDecision, ApprovalRequest

_IDS = click.argument("ids", nargs=-1, required=True, metavar="ID...")


@click.group(cls=UsualGroup)
def approvals() -> None:
    """What waits for a person; show ID; watch; allow ID; deny ID."""


@approvals.command("list")
@click.option("--all", "every", is_flag=True, help="Those answered and expired too.")
@common
def list_approvals(every: bool, source: Source, as_json: bool) -> None:
    """What waits for a person, what expires first in front."""
    now = time.time()
    found = source.requests(every=every)
    if not every:
        found = [request for request in found if request.expires > now]
    if as_json:
        put_json([request.to_dict() for request in found])
        return
    if not found:
        say("Nothing waits for approval." if not every else "Nothing was asked yet.")
        return
    columns = ("id", "state", "tool", "arguments", "principal", "because", "source", "left")
    rows = [_row(request, now) for request in found]
    if every:
        columns = (*columns, "by", "answered", "note")
        rows = [(*row, *_answer_of(request)) for row, request in zip(rows, found, strict=True)]
    table(columns, rows)
    if not every:
        say("Answer with `toolcrib approvals allow ID` or `toolcrib approvals deny ID`.")


def _answer_of(request: ApprovalRequest) -> tuple[str, str, str]:
    """Who answered, when, and with what words."""
    note = request.note or ""
    return (
        request.by or "",
        clock(request.decided) if request.decided else "",
        note if len(note) <= 60 else f"{note[:59]}…",
    )


def _state(request: ApprovalRequest, now: float) -> str:
    over = request.state == "pending" and request.expires <= now
    return "expired" if over else request.state


def _row(request: ApprovalRequest, now: float) -> tuple[str, ...]:
    arguments = " ".join(f"{k}={v}" for k, v in request.arguments.items())
    state = _state(request, now)
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


@approvals.command("show")
@click.argument("id")
@common
def show_approval(id: str, source: Source, as_json: bool) -> None:
    """One request: what is asked, why, who answered, and whether a grant covers its like.

    ID may be the beginning of one, as long as it fits no other.
    """
    from toolcrib.cli.grants import told

    request = source.request(id)
    if as_json:
        put_json(request.to_dict())
        return
    grant = source.covering(request)
    _show(request, None if grant is None else told(grant))


def _show(request: ApprovalRequest, grant: str | None) -> None:
    now = time.time()
    state = _state(request, now)
    source = f"     {request.source}" if request.source else ""
    effects = None if request.effects is None else ", ".join(request.effects) or "none"
    facts = {
        "arguments": json.dumps(request.arguments, ensure_ascii=False),
        "effects": effects or "unknown, treated as the worst case",
        "asked because": f"{request.message or request.rule or request.gate}{source}",
        "profile": request.profile,
        "session": request.session,
        "call": request.call_id,
        "asked": clock(request.created),
        "expires": clock(request.expires),
        "left": left(request.expires - now) if state == "pending" else None,
        "offered": ", ".join(request.offered),
        "counts from": ", ".join(request.via) or "nobody",
        "answered": clock(request.decided) if request.decided else None,
        "by": request.by,
        "reach": request.reach,
        "note": request.note,
        "run with": request.edited and json.dumps(request.edited, ensure_ascii=False),
        "grant": None if grant is None else f"a grant covers this: {grant}",
    }
    put(f"{request.id}   {state}   {request.tool} for {request.principal}")
    put("")
    for name, value in facts.items():
        if value:
            put(f"  {name:<13} {value}")


@approvals.command()
@common
def watch(source: Source, as_json: bool) -> None:
    """Ask each request at the terminal as it comes, also those of other processes.

    With --json each request is printed as one line, and nothing is asked. Ctrl-C stops.
    """
    from toolcrib.cli.following import watch_approvals

    watch_approvals(source, as_json)


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
    source: Source,
    as_json: bool,
) -> int:
    """Let the calls run."""
    from toolcrib.core.approval import ApprovalDecision
    from toolcrib.core.jsontext import parse

    changed: Any = None if arguments is None else parse(arguments)
    if changed is not None and not isinstance(changed, dict):
        raise Mistake("--arguments must be a JSON object")
    if changed is not None and len(ids) > 1:
        raise Mistake("--arguments are for one approval. Answer one at a time")
    answer = ApprovalDecision(
        answer="allow", note=note, reach=reach, arguments=cast("Any", changed)
    )
    return _answer(source, ids, answer, as_json)


@approvals.command()
@_IDS
@click.option("--note", help="Words for the model.")
@common
def deny(ids: tuple[str, ...], note: str | None, source: Source, as_json: bool) -> int:
    """Refuse the calls."""
    from toolcrib.core.approval import ApprovalDecision

    return _answer(source, ids, ApprovalDecision(answer="deny", note=note), as_json)


def _answer(source: Source, ids: tuple[str, ...], answer: ApprovalDecision, as_json: bool) -> int:
    fates = source.answer(ids, answer)
    if as_json:
        put_json(
            [
                {"id": f.id, "error": f.error, "request": f.request and f.request.to_dict()}
                for f in fates
            ]
        )
    for fate in fates:
        if fate.request is None:
            say(f"{fate.id}: {fate.error}" if fate.known else str(fate.error))
        elif not as_json:
            request = fate.request
            put(f"{request.id}   {request.state}   {request.tool} for {request.principal}")
    return 2 if any(fate.request is None for fate in fates) else 0
