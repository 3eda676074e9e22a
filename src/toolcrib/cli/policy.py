"""`toolcrib policy`: proofs about profiles, and tests of what they decide."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from toolcrib.cli.local import INVARIANTS
from toolcrib.cli.options import PlainGroup, common, local
from toolcrib.cli.output import put, put_json, say
from toolcrib.cli.project import open_project

if TYPE_CHECKING:
    from toolcrib.cli.source import Source
    from toolcrib.host.verify import Failed, Finding, Report


@click.group(cls=PlainGroup)
def policy() -> None:
    """Prove what profiles can never allow, and test what they decide."""


@policy.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@common
def verify(file: Path | None, source: Source, as_json: bool) -> int:
    """Look for calls that break the invariants in FILE (policy.yaml beside the configuration).

    Rules that can never change an outcome and knobs that contradict each other are reported, too.
    Exits with 0 when all is well, 1 with findings, 2 when a file cannot be used.
    """
    report, invariants = source.prove(file)
    if as_json:
        put_json(report.to_dict())
    else:
        for finding in report.findings:
            put(_finding(finding))
        say(_summary(report, invariants))
    return 0 if report.ok else 1


@policy.command()
@click.argument("file", type=click.Path(path_type=Path))
@local
def test(file: Path, config: str | None, as_json: bool) -> int:
    """Check the table of calls and verdicts in FILE.

    FILE is a YAML list; each row has tool and expect (allow, ask or deny), and may have profile,
    arguments, principal, roles, permissions and reason. Exits with 0 when every row comes true,
    1 when one does not, 2 when a file cannot be used.
    """
    from toolcrib.host.verify import run_table

    report = open_project(config).look(lambda host: run_table(host, file))
    if as_json:
        put_json(report.to_dict())
    else:
        for failure in report.failures:
            put(_failure(failure))
        say(f"{report.rows - len(report.failures)} of {_count(report.rows, 'row')} came true.")
    return 0 if report.ok else 1


def _finding(finding: Finding) -> str:
    mark = f"{finding.source}: " if finding.source else ""
    lines = [f"{mark}{finding.sentence}"]
    rows: list[tuple[str, str | None]] = [("kind", f"{finding.kind}, {finding.certainty}")]
    if finding.principal is not None:
        rows.append(("caller", _caller(finding)))
    if finding.kind in ("never", "widened"):
        rows.append(("rule", finding.rule))
        demanded = finding.invariant
        if finding.invariant_source:
            demanded = f"{demanded} ({finding.invariant_source})"
        rows.append(("breaks", demanded))
    lines += [f"    {name:<7} {value}" for name, value in rows if value]
    return "\n".join(lines)


def _caller(finding: Finding) -> str:
    parts = [str(finding.principal)]
    if finding.roles:
        parts.append(f"with role {', '.join(finding.roles)}")
    if finding.permissions:
        parts.append(f"with permission {', '.join(finding.permissions)}")
    return " ".join(parts)


def _failure(failure: Failed) -> str:
    mark = f"{failure.source}: " if failure.source else ""
    lines = [f"{mark}{failure.sentence}"]
    if failure.message:
        lines.append(f"    said    {failure.message}")
    if failure.rule:
        place = f" ({failure.rule_source})" if failure.rule_source else ""
        lines.append(f"    rule    {failure.rule}{place}")
    return "\n".join(lines)


def _summary(report: Report, invariants: str | None) -> str:
    lines = [f"Note: {note}." for note in report.notes]
    if invariants is None:
        lines.append(f"Note: no {INVARIANTS} beside the configuration: only rules were checked.")
    if report.tested:
        names = ", ".join(report.tested)
        lines.append(f"Note: the policy code of {names} was tested with calls, not proved.")
    found = _count(len(report.findings), "finding") if report.findings else "No findings"
    lines.append(
        f"{found}: {_count(report.invariants, 'invariant')}, "
        f"{_count(report.profiles, 'profile')}, {_count(report.tools, 'tool')}, "
        f"{_count(report.decisions, 'decision')} asked."
    )
    return "\n".join(lines)


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
