"""Options that every command takes, and groups whose first command is the usual one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar

import click

from toolcrib.cli.ending import State
from toolcrib.cli.logs import show_log
from toolcrib.cli.output import Mistake
from toolcrib.core.units import did_you_mean, duration

F = TypeVar("F", bound=Callable[..., Any])


def known_command(ctx: click.Context, name: str, known: Iterable[str]) -> None:
    """Refuse a command that there is not, with the one that was probably meant."""
    names = list(known)
    if name in names or name.startswith("-"):
        return
    near = did_you_mean(name, names)
    hint = f"Did you mean {near}?" if near else f"See `{ctx.command_path} --help`."
    raise click.UsageError(f"there is no command {name!r}. {hint}", ctx)


class PlainGroup(click.Group):
    """A group that knows what a mistyped command was meant to be."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command; one that there is not gets a suggestion."""
        known_command(ctx, args[0], self.list_commands(ctx))
        return super().resolve_command(ctx, args)


class UsualGroup(PlainGroup):
    """A group that does `list` when no command is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `list` in front of options, and where nothing stands."""
        if not args or (args[0].startswith("-") and args[0] not in ("--help", "-h")):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def seconds(value: str) -> float:
    """The seconds in `5s`, `1h30m` or `250ms`."""
    try:
        return duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def debug_option(function: F) -> F:
    """`--debug`, kept in the state so that main knows of it."""

    def note(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value and isinstance(ctx.obj, State):
            ctx.obj.debug = True
            show_log()

    text = "Show the log, and the traceback of an unexpected error."
    return click.option(
        "--debug", is_flag=True, expose_value=False, callback=note, is_eager=True, help=text
    )(function)


def json_option(function: F) -> F:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


_config = click.option(
    "--config",
    metavar="FILE",
    help="The configuration; else toolcrib.yaml here or in a folder above.",
)
_url = click.option(
    "--url",
    metavar="URL",
    help="Ask a running host instead: http://…, https://… or unix:PATH; else TOOLCRIB_URL.",
)
_token_file = click.option(
    "--token-file", metavar="FILE", help="A file with the token for --url; else TOOLCRIB_TOKEN."
)


def common(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--config`, `--url`, `--token-file`, `--json` and `--debug`; the function is given the
    `source` they mean, and `as_json`."""

    @wraps(function)
    def placed(*, config: str | None, url: str | None, token_file: str | None, **given: Any) -> Any:
        from toolcrib.cli.place import open_source

        return function(source=open_source(config, url, token_file), **given)

    return _config(_url(_token_file(json_option(debug_option(placed)))))


def local(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--config`, `--json` and `--debug` of a command that works on files here."""
    return _config(json_option(debug_option(no_url(function))))


def no_url(function: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse `--url` plainly: no running host can do this."""

    @wraps(function)
    def placed(*, url: str | None, **given: Any) -> Any:
        if url is not None:
            name = click.get_current_context().command_path
            raise Mistake(f"{name} is about files on this machine; --url has nothing to do with it")
        return function(**given)

    text = "Refused: this is about files on this machine."
    return click.option("--url", metavar="URL", help=text)(placed)


def caller(function: F) -> F:
    """`--profile` and `--as`."""
    profile = click.option("--profile", metavar="NAME", help="The profile to be held to.")
    who = click.option("--as", "who", metavar="NAME", help="The principal; else you.")
    return profile(who(function))
