"""What became of one entry of `tools:`, or of one tool."""

from __future__ import annotations

from typing import NamedTuple

from toolcrib.core.entry import Entry
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import ConfigError
from toolcrib.pipeline.plan import held_spec


class Fate(NamedTuple):
    """What became of one entry."""

    entry: str
    tool: str | None
    fate: str
    """`ok`, `warn` for what can be used and should be looked at, `fail`."""
    remark: str | None


def of_entry(place: str, entry: Entry) -> Fate:
    """The fate of a tool under its policy."""
    return of_spec(place, held_spec(entry.spec, entry.policy))


def of_spec(place: str, spec: ToolSpec) -> Fate:
    """The fate of a tool that can be used."""
    remarks: list[str] = []
    if not spec.description:
        remarks.append("no description: models do not know what it is for")
    if spec.effects is None:
        remarks.append("effects are unknown, treated as the worst case")
    remarks += _export_problems(spec)
    return Fate(place, spec.name, "warn" if remarks else "ok", "; ".join(remarks) or None)


def _export_problems(spec: ToolSpec) -> list[str]:
    """Formats of model providers that this tool cannot be told in."""
    from toolcrib.catalog.formats import FORMATS

    found: list[str] = []
    for name, made in FORMATS.items():
        try:
            made(spec)
        except (ConfigError, ValueError) as error:
            found.append(f"not in the format {name}: {error}")
    return found
