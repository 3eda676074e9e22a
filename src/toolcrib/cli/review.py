"""`toolcrib providers review`: what changed in other people's tools, and whether that is wanted."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.options import common
from toolcrib.cli.output import Mistake, at_terminal, many, put, put_json, say
from toolcrib.observe.log import escape

if TYPE_CHECKING:
    from toolcrib.cli.source import Source

_UNKNOWN = "unpinnable"


@click.command()
@click.argument("name")
@click.argument("tools", nargs=-1, metavar="[TOOL]...")
@click.option("--accept", is_flag=True, help="Accept what is shown, without a question.")
@click.option("--reject", is_flag=True, help="Keep what is shown in quarantine for good.")
@common
def review(
    name: str, tools: tuple[str, ...], accept: bool, reject: bool, source: Source, as_json: bool
) -> int:
    """Show how a provider's tools differ from what was accepted, and accept it or not."""
    if accept and reject:
        raise Mistake("--accept and --reject are opposites. Give one of them")
    found = source.review(name)
    if tools:
        found["tools"] = list(_chosen(found, tools))
    for row in found["tools"]:
        row["difference"] = difference(row)
    if as_json:
        put_json(found)
    else:
        _show(found)
    if found.get("problem") is not None:
        say(found["problem"])
        return 1
    shown = {row["name"]: row["digest"] for row in found["tools"] if row["state"] != _UNKNOWN}
    if not shown and (found["tools"] or not _new(found)):
        return 1 if found["tools"] else 0
    if not accept and not reject and not _asked(found, as_json):
        return 1
    source.decide(name, shown, accept=not reject)
    what = "Rejected" if reject else "Accepted"
    say(f"{what}: {many(len(shown), 'tool')} of {name}. A running host takes it over in a second.")
    return 0


def _new(found: dict[str, Any]) -> bool:
    """Whether the server itself waits to be accepted, though it has no tools."""
    before = found["accepted_upstream"]
    waits = found["trust"] == "review" if before is None else before != found["upstream"]
    return found["trust"] != "off" and found["up"] and waits


def _chosen(found: dict[str, Any], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The differences of these tools, by their names here or at their server. Raises `Mistake`."""
    known: dict[str, dict[str, Any]] = {}
    for row in found["tools"]:
        known[(row["found"] or row["accepted"]).get("name", row["name"])] = row
    known |= {row["name"]: row for row in found["tools"]}
    for name in dict.fromkeys(names):
        if name not in known:
            provider = found["provider"]
            cure = f"`toolcrib providers review {provider}` shows those that do"
            raise Mistake(f"no tool {name!r} of {provider} waits for a review. {cure}")
        yield known[name]


def _asked(found: dict[str, Any], as_json: bool) -> bool:
    """Whether the person says yes; not, where nobody can be asked."""
    if as_json or not at_terminal():
        say(f"Accept with `toolcrib providers review {found['provider']} --accept`.")
        return False
    what = many(len(found["tools"]), "difference") if found["tools"] else "the server itself"
    say(f"Accept {what}? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _show(found: dict[str, Any]) -> None:
    name = found["provider"]
    if found["trust"] == "off":
        put(f"{name}: its tools are not pinned (trust: off)")
        return
    states = Counter(row["state"] for row in found["tools"])
    told = [f"{count} {state}" for state, count in sorted(states.items())]
    told.append(f"{found['same']} as accepted")
    put(f"{name} (trust: {found['trust']}): {', '.join(told)}")
    old, new = found["accepted_upstream"], found["upstream"]
    if old is not None and old != new:
        put(f"- {_line(old)}\n+ {_line(new)}")
    for row in found["tools"]:
        by = f"   (rejected by {row['rejected_by']})" if row["rejected_by"] else ""
        put(f"\n{row['state']}   {row['name']}{by}")
        for flag in row["flags"]:
            put(f"warning: {flag}")
        for line in row["difference"]:
            put(line)
    for warning in found["warnings"]:
        put(f"warning: {warning}")


def difference(row: dict[str, Any]) -> list[str]:
    """The lines of a unified difference between two definitions; what nobody sees in them is
    written as `\\u200b` is."""
    old, new = row["accepted"], row["found"]
    before = "nothing" if old is None else f"accepted {row['accepted_at']} by {row['accepted_by']}"
    after = "nothing" if new is None else "listed now"
    lines = unified_diff(_lines(old), _lines(new), before, after, lineterm="")
    return [escape(line) for line in lines]


def _lines(definition: Any) -> Sequence[str]:
    if definition is None:
        return ()
    return json.dumps(definition, indent=2, sort_keys=True, ensure_ascii=False).split("\n")


def _line(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
