"""`toolcrib audit`: search, verify and export the trail."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from toolcrib.cli.options import PlainGroup, common, seconds
from toolcrib.cli.output import Mistake, clock, many, put, put_json, reader_may_leave, say
from toolcrib.cli.project import Project, me, open_project
from toolcrib.errors import StoreError
from toolcrib.host.history import History, Wanted, verify_store

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from toolcrib.core.chain import RunReport
    from toolcrib.core.events import Event
    from toolcrib.core.protocols import Store

F = TypeVar("F", bound="Callable[..., Any]")


@click.group(cls=PlainGroup)
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
@click.option("--all", "every", is_flag=True, help="A line for every run, also the good ones.")
@common
def verify(every: bool, config: str | None, as_json: bool) -> int:
    """Whether the trail is what was written: in all, and the first broken record of each run."""
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
        _show_reports(reports, every)
        _show_outlook(project, reports, good)
    return 0 if good else 1


def _show_reports(reports: list[RunReport], every: bool) -> None:
    for report in reports:
        if every or not report.ok:
            put(f"{report.run}   {_counted([report])}")
        if report.findings:
            first = report.findings[0]
            put(f"  first broken record: {first.seq}, {first.problem}")
    put(f"{many(len(reports), 'run')}   {_counted(reports)}")


def _counted(reports: list[RunReport]) -> str:
    total = sum(report.records for report in reports)
    anchored = sum(min(report.anchored, report.records) for report in reports)
    broken = [report for report in reports if not report.ok]
    word = "ok" if not broken else "BROKEN" if len(reports) == 1 else f"{len(broken)} BROKEN"
    return f"{word}   {many(total, 'record')}, {anchored} anchored, {total - anchored} unanchored"


def _show_outlook(project: Project, reports: list[RunReport], good: bool) -> None:
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
    if output is None:
        count = project.read(lambda store: _write(store, wanted, sys.stdout), None)
    else:
        with _private_file(Path(output)) as stream:
            count = project.read(lambda store: _write(store, wanted, stream), None)
    if as_json:
        put_json({"events": count or 0, "output": output})
    elif count is None:
        say(nothing_kept(project))
    elif output is not None:
        say(f"Wrote {count} events to {output}")


async def _write(store: Store, wanted: Wanted, stream: TextIO) -> int:
    """One event a line."""
    history, count = History(store), 0
    with reader_may_leave():
        async for event in history.events(wanted):
            stream.write(json.dumps(event.to_dict(), ensure_ascii=False) + "\n")
            count += 1
        stream.flush()
    warn_unreadable(history)
    return count


@contextmanager
def _private_file(path: Path) -> Generator[TextIO]:
    """A file that takes its place when all is written. Only its owner may read it: the trail may
    hold what others should not know."""
    if path.is_symlink():
        raise Mistake(f"{path} is a link, and the trail is not written through one. Name a file")
    if not path.parent.is_dir():
        raise Mistake(f"there is no folder {path.parent}. Make it first, or name another file")
    if path.exists() and not path.is_file():
        raise Mistake(f"{path} is not a file. Name another one")
    # A new file of a name that nobody can foresee: what lies in wait under one is not opened.
    descriptor, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            yield stream
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
