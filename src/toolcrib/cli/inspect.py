"""`toolcrib tools`, `calls`, `providers`, `plugins` and `version`: what is there, what happened."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from toolcrib import __version__
from toolcrib.cli.options import UsualGroup, caller, common, debug_option, json_option, seconds
from toolcrib.cli.output import Mistake, clock, many, put, put_json, say, table, took
from toolcrib.cli.project import open_project
from toolcrib.cli.run import check_profile

if TYPE_CHECKING:
    from toolcrib.core.entry import Entry
    from toolcrib.core.events import Event
    from toolcrib.core.protocols import Store
    from toolcrib.host.history import CallSummary
    from toolcrib.host.host import ToolHost
    from toolcrib.host.tool import Tool

_FORMATS = ("openai", "openai-responses", "anthropic", "gemini", "mcp")
_NO_CALL = " on the trail. `toolcrib calls` lists them"
_EFFECTS = ("read", "write", "destructive", "egress", "execute")


@click.group(cls=UsualGroup)
def tools() -> None:
    """List tools; show NAME; check."""


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
    config: str | None,
    as_json: bool,
) -> None:
    """The tools that you, or another caller, may call."""
    from toolcrib.cli.describing import listed

    project = open_project(config)
    check_profile(project, profile)

    def find(host: ToolHost) -> tuple[list[Tool], list[str]]:
        missing = host.calling.missing()
        return host.tools(profile=profile, principal=who), list(missing.values())

    every, missing = project.look(find)
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
        put_json([listed(tool.spec, tool.unavailable) for tool in found])
    elif not found:
        say("No tool fits. `toolcrib explain --all` shows every tool and who may call it.")
    else:
        _put_tools(found)
    for words in missing:
        say(words)


def _put_tools(found: list[Tool]) -> None:
    """The tools in columns; why one is unavailable is told below them, once for all it concerns."""
    from toolcrib.cli.describing import effects

    columns = ("name", "kind", "effects", "description")
    rows = [(t.name, t.spec.kind, effects(t.spec), t.description.partition("\n")[0]) for t in found]
    down = Counter(tool.unavailable for tool in found if tool.unavailable is not None)
    if down:
        columns = (*columns[:3], "state", columns[3])
        states = ["" if tool.unavailable is None else "unavailable" for tool in found]
        rows = [(*row[:3], state, row[3]) for row, state in zip(rows, states, strict=True)]
    table(columns, rows)
    for message, count in down.items():
        say(f"{many(count, 'tool')} unavailable: {message}")


@tools.command("show")
@click.argument("name")
@common
def show_tool(name: str, config: str | None, as_json: bool) -> None:
    """One tool: what it does, its arguments, effects, policy and digest."""
    from toolcrib.cli.showing import described, show_spec

    def find(host: ToolHost) -> tuple[Entry | None, str, Callable[[Any], Any]]:
        entry = host.catalog.get(name)
        return entry, "" if entry else _no_tool(host, name), host.redactor.value

    entry, problem, hide = open_project(config).look(find)
    if entry is None:
        raise Mistake(problem)
    if as_json:
        put_json(described(entry, hide))
    else:
        show_spec(entry, hide)


def _no_tool(host: ToolHost, name: str) -> str:
    """That there is no such tool; where a provider is missing that may have it, that."""
    from toolcrib.cli.endings import unknown

    said = host.explain(name)
    if said.reason == "tool_unavailable":
        return f"{name}: {said.message}"
    near = host.catalog.suggest(name)
    hint = f". Did you mean {near}?" if near else ". `toolcrib tools` lists them"
    return unknown(name, f"no such tool{hint}")


@tools.command("check")
@click.option("--module", metavar="FILE", help="The tools of a Python file instead.")
@common
def check_tools(module: str | None, config: str | None, as_json: bool) -> int:
    """Load everything, and say what became of each entry."""
    from toolcrib.cli.checking import check_config
    from toolcrib.cli.checking_module import check_module

    fates = check_module(module) if module is not None else check_config(config)
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
def calls() -> None:
    """Recent calls; show ID, the trail of one call; tail."""


@calls.command("list")
@click.option("--tool", help="Of this tool.")
@click.option("--principal", help="Of this principal.")
@click.option("--status", type=click.Choice(["ok", "error", "denied"]))
@click.option("--reason", help="That ended for this reason.")
@click.option("--since", type=seconds, metavar="DURATION", help="Of the last 5m, 2h, 7d …")
@click.option("--limit", type=click.IntRange(1), default=20, help="The newest so many.")
@common
def list_calls(
    since: float | None, limit: int, config: str | None, as_json: bool, **given: Any
) -> None:
    """Recent calls, the newest last."""
    from toolcrib.cli.trail import nothing_kept, warn_unreadable
    from toolcrib.host.history import History, Wanted

    project = open_project(config)
    wanted = Wanted(since=None if since is None else time.time() - since, **given)

    async def work(store: Store) -> list[CallSummary]:
        history = History(store)
        found = await history.recent_calls(limit=limit, wanted=wanted)
        warn_unreadable(history)
        return found

    found = project.read(work, None)
    if as_json:
        put_json([call.to_dict() for call in found or ()])
    elif not found:
        say(nothing_kept(project) if found is None else "No call fits.")
    else:
        columns = ("time", "id", "tool", "principal", "status", "reason", "took")
        rows = [
            (
                clock(call.time),
                call.id,
                call.tool,
                call.principal,
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
def show_call(id: str, config: str | None, as_json: bool) -> None:
    """The trail of one call. ID may be the beginning of one, as long as it fits no other."""
    from toolcrib.cli.describing import show_trail
    from toolcrib.cli.ids import meant
    from toolcrib.host.history import History, Wanted

    async def work(store: Store) -> list[Event]:
        exact = await History(store).search(Wanted(call_id=id))
        if exact:
            return exact
        known = {event.call_id or "" async for event in History(store).events()}
        whole = meant(id, known, "call", _NO_CALL)
        return await History(store).search(Wanted(call_id=whole))

    events = open_project(config).read(work, None)
    if events is None:
        raise Mistake(f"there is no call {id!r}{_NO_CALL}")
    if as_json:
        put_json([event.to_dict() for event in events])
    else:
        show_trail(events[0].call_id or id, events)


@calls.command("tail")
@click.option("--tool", help="Of this tool.")
@click.option("--principal", help="Of this principal.")
@click.option("--status", type=click.Choice(["ok", "error", "denied"]))
@common
def tail_calls(config: str | None, as_json: bool, **given: Any) -> None:
    """Print each call as it ends, whichever process runs it. Ctrl-C stops."""
    from toolcrib.cli.following import tail_calls
    from toolcrib.host.history import Wanted

    tail_calls(open_project(config), Wanted(**given), as_json)


@click.command()
@common
def providers(config: str | None, as_json: bool) -> int:
    """Start every provider, and say how each is."""
    project = open_project(config)
    types = {name: str(given.get("type")) for name, given in project.config.providers.items()}
    found = project.look(lambda host: host.sources.status())
    if as_json:
        put_json([{"type": types.get(p.name, "load"), **asdict(p)} for p in found])
    elif not found:
        say("The configuration names no provider.")
    else:
        table(
            ("name", "type", "state", "tools", "remark"),
            [
                (
                    p.name,
                    types.get(p.name, "load"),
                    p.state,
                    str(p.tools),
                    (p.error if p.state != "up" else None) or "; ".join(p.problems),
                )
                for p in found
            ],
        )
    return 1 if any(p.state != "up" for p in found) else 0


@click.command()
@common
def plugins(config: str | None, as_json: bool) -> int:
    """What is installed, what it offers, what is in use."""
    from toolcrib.cli.describing import used_names
    from toolcrib.host.plugins import Registrar, load_plugins

    found = load_plugins(Registrar())
    try:
        used = used_names(open_project(config).config)
    except Mistake:
        if config is not None:
            raise
        used = frozenset[str]()  # plug-ins are installed whether or not a project stands here
    in_use = [[offer for offer in plugin.offers if offer in used] for plugin in found]
    if as_json:
        put_json([p._asdict() | {"used": n} for p, n in zip(found, in_use, strict=True)])
    elif not found:
        say("No plug-in is installed.")
    else:
        table(
            ("name", "package", "version", "offers", "in use", "problem"),
            [
                (
                    plugin.name,
                    plugin.package,
                    plugin.version,
                    ", ".join(plugin.offers),
                    ", ".join(names),
                    plugin.problem or "",
                )
                for plugin, names in zip(found, in_use, strict=True)
            ],
        )
    return 5 if any(plugin.problem for plugin in found) else 0


@click.command()
@json_option
@debug_option
def version(as_json: bool) -> None:
    """The version."""
    if as_json:
        put_json({"version": __version__})
    else:
        put(f"toolcrib {__version__}")
