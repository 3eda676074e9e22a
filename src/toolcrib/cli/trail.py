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
from toolcrib.cli.output import Mistake, clock, many, put, put_json, say
from toolcrib.host.history import Wanted
from toolcrib.host.reports.audit import Verified

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from toolcrib.cli.source import Source
    from toolcrib.core.chain import RunReport
    from toolcrib.core.events import Event

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


@audit.command()
@_filters
@click.option("--limit", type=click.IntRange(1), default=1000, help="The newest so many.")
@common
def search(limit: int, source: Source, as_json: bool, **given: Any) -> None:
    """Find events, over everything that is kept."""
    found = source.events(_wanted(given), limit)
    if as_json:
        put_json([event.to_dict() for event in found or ()])
    elif not found:
        say(source.nothing_kept() if found is None else "Nothing fits.")
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
def verify(every: bool, source: Source, as_json: bool) -> int:
    """Whether the trail is what was written: in all, and the first broken record of each run."""
    found = source.verified()
    if as_json:
        put_json((found or Verified()).to_dict())
    elif found is None:
        say(source.nothing_kept())
    else:
        _show_reports(found.runs, every)
        _show_outlook(found)
    return 0 if found is None or found.ok else 1


def _show_reports(reports: Sequence[RunReport], every: bool) -> None:
    for report in reports:
        if every or not report.ok:
            put(f"{report.run}   {_counted([report])}")
        if report.findings:
            first = report.findings[0]
            put(f"  first broken record: {first.seq}, {first.problem}")
    put(f"{many(len(reports), 'run')}   {_counted(reports)}")


def _counted(reports: Sequence[RunReport]) -> str:
    total = sum(report.records for report in reports)
    anchored = sum(min(report.anchored, report.records) for report in reports)
    broken = [report for report in reports if not report.ok]
    word = "ok" if not broken else "BROKEN" if len(reports) == 1 else f"{len(broken)} BROKEN"
    return f"{word}   {many(total, 'record')}, {anchored} anchored, {total - anchored} unanchored"


def _show_outlook(found: Verified) -> None:
    total = sum(report.records for report in found.runs)
    count = f"{many(total, 'record')} in {many(len(found.runs), 'run')}"
    say(f"{'The chain holds' if found.ok else 'The chain is broken'}: {count}.")
    say(f"What {found.user} could still forge: the key is in {_here(found.key)}, and whoever can")
    if found.anchor is None:
        say("read it can write another chain in place of this one, or cut runs off, unseen.")
        say("Set host.audit.anchor to a file that this user cannot change, to see that too.")
    else:
        say("read it can write other records behind the last anchor, or cut those off, unseen;")
        say(f"and the anchored ones too, if they can also change {_here(found.anchor)}.")


def _here(path: str | None) -> str:
    shown = os.path.relpath(path or "")
    return str(path) if shown.startswith("..") else shown


@audit.command()
@_filters
@click.option("--format", "format_", type=click.Choice(["jsonl"]), default="jsonl")
@click.option("-o", "--output", metavar="FILE", help="Write there; else to standard output.")
@common
def export(format_: str, output: str | None, source: Source, as_json: bool, **given: Any) -> None:
    """Write events as JSON lines, oldest first. With --json: how many were written where."""
    if as_json and output is None:
        raise Mistake("--json tells what was written to a file. Name one with --output")
    wanted = _wanted(given)
    if output is None:
        count = source.export(wanted, sys.stdout)
    else:
        with _private_file(Path(output)) as stream:
            count = source.export(wanted, stream)
    if as_json:
        put_json({"events": count or 0, "output": output})
    elif count is None:
        say(source.nothing_kept())
    elif output is not None:
        say(f"Wrote {count} events to {output}")


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
