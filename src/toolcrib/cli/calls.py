"""`toolcrib calls`: what was called, and how it ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.options import UsualGroup, common, seconds
from toolcrib.cli.output import clock, put, put_json, say, table, took

if TYPE_CHECKING:
    from toolcrib.cli.source import Source


@click.group(cls=UsualGroup)
def calls() -> None:
    """Recent calls; show ID, the trail of one call; cancel ID; tail."""


@calls.command("list")
@click.option("--tool", help="Of this tool.")
@click.option("--principal", help="Of this principal.")
@click.option("--status", type=click.Choice(["ok", "error", "denied"]))
@click.option("--reason", help="That ended for this reason.")
@click.option("--since", type=seconds, metavar="DURATION", help="Of the last 5m, 2h, 7d …")
@click.option("--limit", type=click.IntRange(1), default=20, help="The newest so many.")
@common
def list_calls(
    since: float | None, limit: int, source: Source, as_json: bool, **given: Any
) -> None:
    """Recent calls, the newest last."""
    from toolcrib.host.history import Wanted

    wanted = Wanted(since=None if since is None else time.time() - since, **given)
    found = source.calls(wanted, limit)
    if as_json:
        put_json([call.to_dict() for call in found or ()])
    elif not found:
        say(source.nothing_kept() if found is None else "No call fits.")
    else:
        columns = ("time", "id", "tool", "principal", "door", "status", "reason", "took")
        rows = [
            (
                clock(call.time),
                call.id,
                call.tool,
                call.principal,
                call.door or "",
                call.status or "open",
                call.reason or "",
                took(call.seconds),
            )
            for call in found
        ]
        table(columns, rows)


@calls.command("show")
@click.argument("id")
@common
def show_call(id: str, source: Source, as_json: bool) -> None:
    """The trail of one call. ID may be the beginning of one, as long as it fits no other."""
    from toolcrib.cli.describing import show_trail

    events = source.trail(id)
    if as_json:
        put_json([event.to_dict() for event in events])
    else:
        show_trail(events[0].call_id or id, events)


@calls.command("cancel")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@common
def cancel_calls(ids: tuple[str, ...], source: Source, as_json: bool) -> int:
    """Stop calls that run or wait at a host (--url). ID may be the beginning of one."""
    fates = source.cancel(ids)
    if as_json:
        put_json([{"id": each, "cancelled": stopped} for each, stopped in fates])
    for each, stopped in fates:
        if not stopped:
            say(f"{each} does not run there. `toolcrib calls show {each}` says what became of it")
        elif not as_json:
            put(f"{each}   cancelled")
    return 0 if all(stopped for _, stopped in fates) else 2


@calls.command("tail")
@click.option("--tool", help="Of this tool.")
@click.option("--principal", help="Of this principal.")
@click.option("--status", type=click.Choice(["ok", "error", "denied"]))
@common
def tail_calls(source: Source, as_json: bool, **given: Any) -> None:
    """Print each call as it ends, whichever process runs it. Ctrl-C stops."""
    from toolcrib.cli.following import tail_calls
    from toolcrib.host.history import Wanted

    tail_calls(source, Wanted(**given), as_json)
