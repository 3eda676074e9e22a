"""`toolcrib call` and `toolcrib explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.options import caller, common, seconds
from toolcrib.cli.output import Mistake, put, put_json, say

if TYPE_CHECKING:
    from toolcrib.cli.source import Source
    from toolcrib.core.spec import ToolSpec

_INPUT = "A file with the arguments as a JSON object; - reads standard input."


@click.command()
@click.argument("name", metavar="TOOL")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--input", "given", metavar="FILE", help=_INPUT)
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
    given: str | None,
    profile: str | None,
    who: str | None,
    timeout: float | None,
    wait: float | None,
    source: Source,
    as_json: bool,
) -> int:
    """One call through the whole pipeline.

    KEY=VALUE is typed by the tool's schema. KEY:=JSON is taken as it stands, KEY=@FILE reads a
    file, KEY.PART=VALUE reaches into an object, a key given again adds to a list. The call works
    in the folder of the configuration.
    """
    from toolcrib.cli.arguments import read_arguments
    from toolcrib.cli.endings import exit_code, show_failure, show_output
    from toolcrib.cli.source import Asked

    arguments: dict[str, Any] = {}

    def read(spec: ToolSpec | None) -> dict[str, Any]:
        schema = spec.input_schema if spec is not None else None
        arguments.update(read_arguments(pairs, given, schema))
        return arguments

    placed = source.call(
        Asked(tool=name, read=read, principal=who, profile=profile, timeout=timeout, wait=wait)
    )
    result = placed.result
    if as_json:
        put_json(result.to_dict())
    elif result.error is None:
        show_output(result)
        for remark in placed.remarks:
            say(remark)
    else:
        show_failure(
            name,
            result.error,
            spec=placed.spec,
            given=arguments,
            words=[*pairs, *_options("input", "profile", "as", "config", "url", "token-file")],
            status=result.status,
        )
    return exit_code(result)


def _options(*names: str) -> list[str]:
    """Those of these options that were typed, as they were typed."""
    typed = click.get_current_context()
    words: list[str] = []
    for param in typed.command.params:
        option = f"--{param.opts[0].removeprefix('--')}"
        value = typed.params.get(param.name or "")
        if option.removeprefix("--") in names and isinstance(value, str):
            words += [option, value]
    return words


@click.command()
@click.argument("name", metavar="TOOL", required=False)
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--input", "given", metavar="FILE", help=_INPUT)
@click.option("--all", "every", is_flag=True, help="A table of every tool.")
@caller
@common
def explain(
    name: str | None,
    pairs: tuple[str, ...],
    given: str | None,
    every: bool,
    profile: str | None,
    who: str | None,
    source: Source,
    as_json: bool,
) -> int:
    """Who may, and why. The code of the real decision; nothing runs."""
    from toolcrib.cli.arguments import read_arguments
    from toolcrib.cli.endings import show_explanation, unknown
    from toolcrib.cli.grants import told

    if every == (name is not None):
        raise Mistake("name one tool, or give --all for a table of every tool")
    if name is None:
        from toolcrib.cli.overview import show_overview

        show_overview(source.overview(profile=profile, who=who), as_json)
        return 0

    def read(spec: ToolSpec | None) -> dict[str, Any]:
        return read_arguments(pairs, given, spec.input_schema if spec is not None else None)

    said, grant = source.explain(name, read, profile=profile, who=who)
    if as_json:
        put_json(said.to_dict())
    elif said.reason == "unknown_tool":
        say(unknown(name, said.message or "no such tool"))
    else:
        show_explanation(said)
        if grant is not None:
            put(f"a grant covers this: {told(grant)}. Nobody is asked.")
    return 2 if said.reason == "unknown_tool" else 0
