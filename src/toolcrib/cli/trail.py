"""`toolcrib audit`: search, verify and export the trail."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from toolcrib.cli.options import common, seconds
from toolcrib.cli.output import Mistake, clock, many, put, put_json, reader_may_leave, say
from toolcrib.cli.project import Project, me, open_project
from toolcrib.errors import StoreError
from toolcrib.host.history import History, Wanted, verify_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolcrib.core.chain import RunReport
    from toolcrib.core.events import Event
    from toolcrib.core.protocols import Store

F = TypeVar("F", bound="Callable[..., Any]")


@click.group()
def audit() -> None:
    """Search, verify and export the trail."""


def _filters(function: F) -> F:
    for option in reversed(
        (
            click.option("--tool", help="Of this tool."),
            click.option("--principal", help="Of this principal."),
            click.option("--reason", help="That ended for this reason."),
            click.option("--status", type=click.Choice(["ok", "error", "denied"])),
            click.option(
                "--since", type=seconds, metavar="DURATION", help="Of the last 5m, 2h, 7d …"
            ),
            click.option("--text", help="With these words somewhere."),
            click.option("--call", "call_id", metavar="ID", help="Of this call."),
            click.option("--type", "type_", help="Events of this type, such as call.denied."),
        )
    ):
        function = option(function)
    return function


def _wanted(given: dict[str, Any]) -> Wanted:
    since = given.pop("since")
    start = None if since is None else time.time() - since
    return Wanted(type=given.pop("type_"), since=start, **given)


def nothing_kept(project: Project) -> str:
    """Why there is no trail to read."""
    if project.store is None:
        return "Nothing is kept: host.store is memory."
    return "Nothing is on the trail yet."


def warn_unreadable(history: History) -> None:
    """Say that records were passed over."""
    if history.unreadable:
        run, seq = history.unreadable[0]
        say(
            f"{many(len(history.unreadable), 'record')} cannot be read, the first is record {seq} "
            f"of run {run}. `toolcrib audit verify` says more."
        )


@audit.command()
@_filters
@click.option("--limit", type=click.IntRange(1), default=1000, help="The newest so many.")
@common
def search(limit: int, config: str | None, as_json: bool, **given: Any) -> None:
    """Find events, over everything that is kept."""
    project = open_project(config)
    wanted = _wanted(given)

    async def work(store: Store) -> list[Event]:
        history = History(store)
        found = await history.search(wanted, limit=limit)
        warn_unreadable(history)
        return found

    found = project.read(work, None)
    if as_json:
        put_json([event.to_dict() for event in found or ()])
    elif not found:
        say(nothing_kept(project) if found is None else "Nothing fits.")
    else:
        for event in found:
            put(_line(event))


def _line(event: Event) -> str:
    shown = {k: v for k, v in event.data.items() if v not in (None, "", [], {})}
    words = " ".join(f"{k}={_short(v)}" for k, v in shown.items())
    return f"{clock(event.time)}   {event.type:<18}   {event.call_id or '-'}   {words}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:119]}…"


@audit.command()
@common
def verify(config: str | None, as_json: bool) -> int:
    """Whether the trail is what was written: per run, and the first broken record."""
    from toolcrib.observe.trail import read_anchors
    from toolcrib.stores.keys import load_key

    project = open_project(config)
    if project.store is None or not project.store.exists():
        if as_json:
            put_json({"ok": True, "runs": [], "anchor": None})
        else:
            say(nothing_kept(project))
        return 0
    key = project.key
    if key is None or not key.exists():
        raise StoreError(f"{key}: the key is missing, so nothing can be verified. Restore it")
    secret = load_key(key)
    anchored = project.anchor is not None and project.anchor.exists()
    if project.anchor is not None and not anchored:
        raise StoreError(
            f"{project.anchor}: the anchor is missing, so a cut tail would not show. Restore it"
        )
    anchors = read_anchors(str(project.anchor)) if anchored else []

    async def work(store: Store) -> list[RunReport]:
        return await verify_store(store, secret, anchors)

    reports = project.read(work, [])
    good = all(report.ok for report in reports)
    if as_json:
        anchor = None if project.anchor is None else str(project.anchor)
        put_json({"ok": good, "runs": [r.to_dict() for r in reports], "anchor": anchor})
    else:
        _show_reports(project, reports, good)
    return 0 if good else 1


def _show_reports(project: Project, reports: list[RunReport], good: bool) -> None:
    for report in reports:
        loose = report.records - min(report.anchored, report.records)
        word = "ok" if report.ok else "BROKEN"
        put(
            f"{report.run}   {word}   {many(report.records, 'record')}, "
            f"{report.records - loose} anchored, {loose} unanchored"
        )
        if report.findings:
            first = report.findings[0]
            put(f"  first broken record: {first.seq}, {first.problem}")
    total = sum(report.records for report in reports)
    count = f"{many(total, 'record')} in {many(len(reports), 'run')}"
    say(f"{'The chain holds' if good else 'The chain is broken'}: {count}.")
    say(f"What {me()} could still forge: the key is in {_here(project.key)}, and whoever can")
    if project.anchor is None:
        say("read it can write another chain in place of this one, or cut runs off, unseen.")
        say("Set host.audit.anchor to a file that this user cannot change, to see that too.")
    else:
        say("read it can write other records behind the last anchor, or cut those off, unseen;")
        say(f"and the anchored ones too, if they can also change {_here(project.anchor)}.")


def _here(path: Path | None) -> str:
    shown = os.path.relpath(path or "")
    return str(path) if shown.startswith("..") else shown


@audit.command()
@_filters
@click.option("--format", "format_", type=click.Choice(["jsonl"]), default="jsonl")
@click.option("-o", "--output", metavar="FILE", help="Write there; else to standard output.")
@common
def export(
    format_: str, output: str | None, config: str | None, as_json: bool, **given: Any
) -> None:
    """Write events as JSON lines, oldest first. With --json: how many were written where."""
    if as_json and output is None:
        raise Mistake("--json tells what was written to a file. Name one with --output")
    project = open_project(config)
    wanted = _wanted(given)
    draft = None if output is None else Path(f"{output}.new")
    count = project.read(lambda store: _write(store, wanted, draft), None)
    if draft is not None and output is not None:
        if count is None:
            draft.touch(mode=0o600)
        draft.replace(output)
    if as_json:
        put_json({"events": count or 0, "output": output})
    elif count is None:
        say(nothing_kept(project))
    elif output is not None:
        say(f"Wrote {count} events to {output}")


async def _write(store: Store, wanted: Wanted, draft: Path | None) -> int:
    """One event a line; the trail may hold what others should not read, so a file is private."""
    history, count = History(store), 0
    with reader_may_leave(), _opened(draft) as stream:
        async for event in history.events(wanted):
            stream.write(json.dumps(event.to_dict(), ensure_ascii=False) + "\n")
            count += 1
        stream.flush()
    warn_unreadable(history)
    return count


def _opened(draft: Path | None) -> AbstractContextManager[TextIO]:
    if draft is None:
        return nullcontext(sys.stdout)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    return os.fdopen(descriptor, "w", encoding="utf-8")
