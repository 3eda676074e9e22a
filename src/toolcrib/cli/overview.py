"""`toolcrib explain --all`: every tool, and what a caller may do with it."""

from __future__ import annotations

from toolcrib.cli.output import put_json, say, table
from toolcrib.host.reports.overview import Overview


def show_overview(found: Overview, as_json: bool) -> None:
    """The table on standard output, the rest as talk."""
    if as_json:
        put_json(found.rows)
    else:
        table(
            ("tool", "verdict", "reason", "because", "source"),
            [
                (r["tool"], r["verdict"], r["reason"] or "", r["message"] or "", r["source"] or "")
                for r in found.rows
            ],
        )
        if any(row["verdict"] == "depends" for row in found.rows):
            say("depends: the answer depends on the arguments; explain one call to see it.")
    for words in found.missing:
        say(words)
