"""`toolcrib tools`, `providers`, `plugins` and `version`: what is there."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.options import UsualGroup, caller, common
from toolcrib.cli.output import Mistake, many, put, put_json, say, table
from toolcrib.cli.review import review

if TYPE_CHECKING:
    from toolcrib.cli.source import Source
    from toolcrib.host.reports.describing import Listed

_FORMATS = ("openai", "openai-responses", "anthropic", "gemini", "mcp")
_EFFECTS = ("read", "write", "destructive", "egress", "execute")


@click.group(cls=UsualGroup)
def tools() -> None:
    """List tools; search WORD; show NAME; check."""


@tools.command("list")
@click.option("--kind", help="Of this kind.")
@click.option("--tag", help="With this tag.")
@click.option("--category", help="Of this category.")
@click.option("--effect", type=click.Choice(_EFFECTS), help="That may have this effect.")
@click.option(
    "--format", "format_", type=click.Choice(_FORMATS), help="As a model provider's JSON."
)
@caller
@common
def list_tools(
    kind: str | None,
    tag: str | None,
    category: str | None,
    effect: Any,
    format_: str | None,
    profile: str | None,
    who: str | None,
    source: Source,
    as_json: bool,
) -> None:
    """The tools that you, or another caller, may call."""
    every, missing = source.tools(profile=profile, who=who)
    found = [
        tool
        for tool in every
        if kind in (None, tool.spec.kind)
        and (tag is None or tag in tool.spec.tags)
        and category in (None, tool.spec.category)
        and (effect is None or tool.spec.effects is None or effect in tool.spec.effects)
    ]
    if format_ is not None:
        from toolcrib.catalog.formats import export

        put_json(export([tool.spec for tool in found], format_))
    elif as_json:
        put_json([tool.to_dict() for tool in found])
    elif not found:
        say("No tool fits. `toolcrib explain --all` shows every tool and who may call it.")
    else:
        _put_tools(found)
    for words in missing:
        say(words)


def _put_tools(found: list[Listed]) -> None:
    """The tools in columns; why one is unavailable is told below them, once for all it concerns."""
    from toolcrib.cli.describing import effects

    columns = ("name", "kind", "effects", "description")
    rows = [
        (spec.name, spec.kind, effects(spec.effects), spec.description.partition("\n")[0])
        for spec in (tool.spec for tool in found)
    ]
    down = Counter(tool.unavailable for tool in found if tool.unavailable is not None)
    if down:
        columns = (*columns[:3], "state", columns[3])
        states = ["" if tool.unavailable is None else "unavailable" for tool in found]
        rows = [(*row[:3], state, row[3]) for row, state in zip(rows, states, strict=True)]
    table(columns, rows)
    for message, count in down.items():
        say(f"{many(count, 'tool')} unavailable: {message}")


@tools.command("search")
@click.argument("words", nargs=-1, required=True, metavar="WORD...")
@click.option("--limit", type=click.IntRange(1, 1000), default=10, help="The best so many.")
@caller
@common
def search_tools(
    words: tuple[str, ...],
    limit: int,
    profile: str | None,
    who: str | None,
    source: Source,
    as_json: bool,
) -> int:
    """The tools that fit some words best, among those that may be called."""
    from toolcrib.catalog.search import search

    every, missing = source.tools(profile=profile, who=who)
    try:
        found = search(every, " ".join(words), limit)
    except ValueError as error:
        raise Mistake(f"{error}. Give words such as a tool's name") from None
    if as_json:
        put_json([tool.to_dict() | {"score": score} for score, tool in found])
    elif not found:
        say("No tool fits. `toolcrib tools` lists all that may be called.")
    else:
        _put_tools([tool for _, tool in found])
    for missed in missing:
        say(missed)
    return 0 if found else 1


@tools.command("show")
@click.argument("name")
@common
def show_tool(name: str, source: Source, as_json: bool) -> None:
    """One tool: what it does, its arguments, effects, policy and digest."""
    from toolcrib.cli.showing import show_tool

    found = source.describe(name)
    if as_json:
        put_json(found)
    else:
        show_tool(found)


@tools.command("check")
@click.option("--module", metavar="FILE", help="The tools of a Python file instead.")
@common
def check_tools(module: str | None, source: Source, as_json: bool) -> int:
    """Load everything, and say what became of each entry."""
    from toolcrib.cli.checking_module import check_module

    fates = check_module(module) if module is not None else source.check()
    if as_json:
        put_json([fate._asdict() for fate in fates])
    else:
        table(
            ("entry", "tool", "fate", "remark"),
            [(f.entry, f.tool or "", f.fate, f.remark or "") for f in fates],
        )
        bad = sum(fate.fate == "fail" for fate in fates)
        say(f"{len(fates) - bad} of {len(fates)} can be used.")
    return 2 if any(fate.fate == "fail" for fate in fates) else 0


@click.group(cls=UsualGroup)
def providers() -> None:
    """The live sources of tools, and how each is; review NAME."""


providers.add_command(review)


@providers.command("list")
@common
def list_providers(source: Source, as_json: bool) -> int:
    """Start every provider, and say how each is; at a running host, how each is there."""
    found = source.providers()
    if as_json:
        put_json(found)
    elif not found:
        say("The configuration names no provider.")
    else:
        table(
            ("name", "type", "state", "tools", "remark"),
            [
                (
                    row["name"],
                    row["type"],
                    row["state"],
                    str(row["tools"]),
                    (row["error"] if row["state"] != "up" else None)
                    or "; ".join((*row["problems"], *row["warnings"])),
                )
                for row in found
            ],
        )
    return 1 if any(row["state"] != "up" for row in found) else 0


@click.command()
@common
def plugins(source: Source, as_json: bool) -> int:
    """What is installed or listed, what it offers, what is in use."""
    found = source.plugins()
    if as_json:
        put_json(found)
    elif not found:
        say("No plug-in is installed or listed.")
    else:
        table(
            ("name", "from", "offers", "in use", "problem"),
            [
                (
                    row["name"],
                    row["source"] or f"{row['package']} {row['version']}".strip(),
                    ", ".join(row["offers"]),
                    ", ".join(row["used"]),
                    row["problem"] or "",
                )
                for row in found
            ],
        )
    return 5 if any(row["problem"] for row in found) else 0


@click.command()
@common
def version(source: Source, as_json: bool) -> None:
    """The version; at a running host, the one that runs there."""
    if as_json:
        put_json({"version": source.version()})
    else:
        put(f"toolcrib {source.version()}")
