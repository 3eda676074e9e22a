"""`toolcrib doctor`: what is well and what is not, each with a cure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from toolcrib.cli.options import common
from toolcrib.cli.output import put_json, put_lines, say

if TYPE_CHECKING:
    from toolcrib.cli.source import Source


@click.command()
@common
def doctor(source: Source, as_json: bool) -> int:
    """What is well and what is not, each with a cure."""
    findings = source.findings()
    if as_json:
        put_json([finding._asdict() for finding in findings])
    else:
        lines: list[list[tuple[str, bool]]] = []
        for finding in findings:
            lines.append(
                [
                    (f"{finding.name:<11} ", False),
                    (finding.state, True),
                    (" " * (7 - len(finding.state)) + finding.text, False),
                ]
            )
            if finding.cure is not None:
                lines.append([(f"{'':<19}{finding.cure}", False)])
        put_lines(lines)
    failed = sum(finding.state == "fail" for finding in findings)
    if failed:
        say(f"{failed} of {len(findings)} need a cure.")
    return 1 if failed else 0
