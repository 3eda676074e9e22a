"""`toolcrib call` and `toolcrib explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.options import caller, common, seconds
from toolcrib.cli.output import Mistake, put, put_json, say

if TYPE_CHECKING:
    from toolcrib.cli.project import Project
    from toolcrib.core.approval import Grant
    from toolcrib.core.decision import Explanation
    from toolcrib.core.spec import ToolSpec
    from toolcrib.host.host import ToolHost
    from toolcrib.host.session import Session

_INPUT = "A file with the arguments as a JSON object; - reads standard input."


@click.command()
@click.argument("name", metavar="TOOL")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--input", "source", metavar="FILE", help=_INPUT)
@caller
@click.option(
    "--timeout", type=seconds, metavar="DURATION", help="The longest the tool may work, such as 5s."
)
@click.option(
    "--wait",
    type=seconds,
    metavar="DURATION",
    help="The longest to wait for a person; else as the profile says.",
)
@common
def call(
    name: str,
    pairs: tuple[str, ...],
    source: str | None,
    profile: str | None,
    who: str | None,
    timeout: float | None,
    wait: float | None,
    config: str | None,
    as_json: bool,
) -> int:
    """One call through the whole pipeline.

    KEY=VALUE is typed by the tool's schema. KEY:=JSON is taken as it stands, KEY=@FILE reads a
    file, KEY.PART=VALUE reaches into an object, a key given again adds to a list. The call works
    in the folder of the configuration.
    """
    from toolcrib.cli.approving import Asked, Desk, place_call
    from toolcrib.cli.arguments import read_arguments
    from toolcrib.cli.endings import exit_code, show_failure, show_output
    from toolcrib.cli.project import open_project, run

    project = open_project(config)
    check_profile(project, profile)
    project.prepare()
    desk = Desk(project, profile or default_profile(project), wait)
    host = project.host(approver=desk)

    arguments: dict[str, Any] = {}

    def read(spec: ToolSpec | None) -> dict[str, Any]:
        schema = spec.input_schema if spec is not None else None
        arguments.update(read_arguments(pairs, source, schema))
        return arguments

    spec = host.get(name)
    # A provider's tool is known only once the provider is up; then its schema types the words.
    late = spec is None and host.sources.wanted
    if not late:
        read(spec)
    asked = Asked(
        tool=name,
        arguments=arguments,
        read=read if late else None,
        principal=who,
        profile=profile,
        timeout=timeout,
        wait=wait,
    )
    result = run(place_call(host, project, asked, desk))
    if as_json:
        put_json(result.to_dict())
    elif result.error is None:
        show_output(result)
        _warn_of_forgetting(host, name)
    else:
        given = {"--input": source, "--profile": profile, "--as": who, "--config": config}
        more = [word for key, value in given.items() if value for word in (key, value)]
        show_failure(
            name,
            result.error,
            spec=host.get(name),
            given=arguments,
            words=[*pairs, *more],
            status=result.status,
        )
    return exit_code(result)


@click.command()
@click.argument("name", metavar="TOOL", required=False)
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--input", "source", metavar="FILE", help=_INPUT)
@click.option("--all", "every", is_flag=True, help="A table of every tool.")
@caller
@common
def explain(
    name: str | None,
    pairs: tuple[str, ...],
    source: str | None,
    every: bool,
    profile: str | None,
    who: str | None,
    config: str | None,
    as_json: bool,
) -> int:
    """Who may, and why. The code of the real decision; nothing runs."""
    from toolcrib.cli.arguments import read_arguments
    from toolcrib.cli.endings import show_explanation, unknown
    from toolcrib.cli.grants import covering_call, live_grants, told
    from toolcrib.cli.project import open_project

    if every == (name is not None):
        raise Mistake("name one tool, or give --all for a table of every tool")
    project = open_project(config)
    check_profile(project, profile)
    if name is None:
        from toolcrib.cli.overview import overview, show_overview

        found = project.look(
            lambda host: overview(host, who, profile, _session(host, project, who, profile))
        )
        show_overview(found, as_json)
        return 0
    tool, grants = name, live_grants(project)

    def look(host: ToolHost) -> tuple[Explanation, Grant | None]:
        session = _session(host, project, who, profile)
        spec = host.get(tool)
        arguments = read_arguments(pairs, source, spec.input_schema if spec is not None else None)
        said = host.explain(tool, arguments, principal=who, profile=profile, session=session)
        return said, covering_call(grants, host, said)

    said, grant = project.look(look)
    if as_json:
        put_json(said.to_dict())
    elif said.reason == "unknown_tool":
        say(unknown(name, said.message or "no such tool"))
    else:
        show_explanation(said)
        if grant is not None:
            put(f"a grant covers this: {told(grant)}. Nobody is asked.")
    return 2 if said.reason == "unknown_tool" else 0


def _session(
    host: ToolHost, project: Project, who: str | None, profile: str | None
) -> Session | None:
    """A session as `call` has it, never opened; None when there can be none, which is explained."""
    from toolcrib.errors import ConfigError

    try:
        return host.session(principal=who, profile=profile, cwd=project.folder, door="cli")
    except ConfigError:
        return None


def _warn_of_forgetting(host: ToolHost, name: str) -> None:
    """Say that what was just written is lost already: the process that keeps it ends here."""
    spec = host.get(name)
    for provider, given in host.config.providers.items():
        kept = given.get("type") != "storage" or given.get("backend", "memory") != "memory"
        if kept or spec is None or spec.name != f"{given.get('prefix') or provider}-write":
            continue
        cure = "write backend: sqlite to keep it"
        say(f"{provider} keeps this until this process ends; {cure}")


def check_profile(project: Project, profile: str | None) -> None:
    """Refuse a profile that the configuration does not have."""
    profiles = project.config.profiles
    if profile is not None and profile not in profiles:
        from toolcrib.core.units import did_you_mean

        near = did_you_mean(profile, profiles)
        known = f"Did you mean {near}?" if near else f"Known: {', '.join(profiles) or 'none'}"
        raise Mistake(f"there is no profile {profile!r}. {known}")


def default_profile(project: Project) -> str | None:
    """The profile of calls that name none."""
    return project.config.settings.profile or next(iter(project.config.profiles), None)
