"""Options that every command takes, and groups whose first command is the usual one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from toolcrib.core.units import did_you_mean, duration

F = TypeVar("F", bound=Callable[..., Any])


class State:
    """What main and the commands share."""

    def __init__(self) -> None:
        self.debug = False
        """Whether tracebacks and the log are shown."""


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


def common(function: F) -> F:
    """`--config`, `--json` and `--debug`."""
    text = "The configuration; else toolcrib.yaml here or in a folder above."
    config = click.option("--config", metavar="FILE", help=text)
    return config(json_option(debug_option(function)))


def caller(function: F) -> F:
    """`--profile` and `--as`."""
    profile = click.option("--profile", metavar="NAME", help="The profile to be held to.")
    who = click.option("--as", "who", metavar="NAME", help="The principal; else you.")
    return profile(who(function))


def show_log() -> None:
    """Have the whole log written to standard error, tracebacks included."""
    import logging

    log = logging.getLogger("toolcrib")
    log.handlers.clear()
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    log.propagate = False


def hush_log() -> None:
    """Leave the log unseen: results say what happened, and `--debug` shows the rest."""
    import logging

    log = logging.getLogger("toolcrib")
    log.handlers.clear()
    log.addHandler(logging.NullHandler())
    log.propagate = False
