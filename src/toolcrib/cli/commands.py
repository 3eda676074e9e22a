"""The commands, each loaded when it is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from toolcrib import __version__
from toolcrib.cli.ending import State
from toolcrib.cli.options import debug_option, known_command

_COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("start", "Start a project here."),
    "serve": ("serve", "Run the host: HTTP, WebSocket, a unix socket, or stdio."),
    "call": ("run", "One call through the whole pipeline."),
    "explain": ("run", "Who may, and why; nothing runs."),
    "tools": ("inspect", "List tools; search WORD; show NAME; check."),
    "calls": ("calls", "Recent calls; show ID, the trail of one call; cancel ID; tail."),
    "approvals": ("people", "What waits for a person; show ID; watch; allow ID; deny ID."),
    "grants": ("grants", "What is remembered of approvals; revoke ID."),
    "tokens": ("tokens", "Who may call from elsewhere; new NAME; revoke NAME."),
    "auth": ("auth", "Log in to MCP servers: login PROVIDER; status; logout PROVIDER."),
    "audit": ("trail", "Search, verify and export the trail."),
    "config": ("settings", "Check, show, schema and fmt of toolcrib.yaml."),
    "policy": ("policy", "Test and verify the rules."),
    "connect": ("connect", "The snippet for Claude Code, Cursor, VS Code, …"),
    "doctor": ("doctor", "What is well and what is not, each with a cure."),
    "providers": ("inspect", "The live sources of tools, and how each is."),
    "plugins": ("inspect", "What is installed, and what it offers."),
    "version": ("inspect", "The version."),
}


class _Commands(click.Group):
    """Knows its commands by name, so that help needs to load none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        from importlib import import_module

        module = import_module(f"toolcrib.cli.{_COMMANDS[cmd_name][0]}")
        return getattr(module, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known_command(ctx, args[0], _COMMANDS)
        return super().resolve_command(ctx, args)


@click.command(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 ok, 1 the tool failed, 2 your input, 3 denied, 4 approval, 5 the host.",
)
@click.version_option(__version__, prog_name="toolcrib", message="%(prog)s %(version)s")
@debug_option
def cli() -> None:
    """The guarded room where AI agents get their tools."""


def command(words: Sequence[str], state: State) -> int:
    """Run the command that these words mean; the exit code."""
    try:
        done: Any = cli.main(words, prog_name="toolcrib", standalone_mode=False, obj=state)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    return done if isinstance(done, int) else 0
