"""`toolcrib serve`: run the host, with its doors open."""

from __future__ import annotations

import click

from toolcrib.cli.options import local
from toolcrib.cli.output import Mistake, at_terminal
from toolcrib.cli.profiles import check_profile


@click.command()
@click.option("--listen", metavar="ADDRESS", help="HOST:PORT or PORT; port 0 takes a free one.")
@click.option("--unix", metavar="PATH", help="A unix socket, too.")
@click.option("--profile", metavar="NAME", help="What callers are held to that name no profile.")
@click.option("--stdio", is_flag=True, help="MCP or JSON-RPC on standard input and output.")
@click.option("--host-tools", metavar="FILE", multiple=True, help="A file with more tools.")
@click.option("--host-tools-module", metavar="MODULE", multiple=True, help="The same by import.")
@click.option(
    "--import",
    "imports",
    metavar="FILE|CLIENT",
    multiple=True,
    help="Take over the MCP servers of another program's file.",
)
@click.option("--no-console", is_flag=True, help="Without a web console; there is none yet.")
@click.option("--frozen", is_flag=True, help="Refuse tools that toolcrib.lock does not know.")
@click.option("--quiet", is_flag=True, help="No line for each call.")
@click.option(
    "--approve/--no-approve",
    default=None,
    help="Whether approvals are asked at this terminal; they are when there is one.",
)
@local
def serve(
    listen: str | None,
    unix: str | None,
    profile: str | None,
    stdio: bool,
    host_tools: tuple[str, ...],
    host_tools_module: tuple[str, ...],
    imports: tuple[str, ...],
    no_console: bool,
    frozen: bool,
    quiet: bool,
    approve: bool | None,
    config: str | None,
    as_json: bool,
) -> int:
    """Run the host: HTTP, WebSocket and a unix socket, or stdio. Ctrl-C stops.

    SIGHUP reads the configuration again, SIGTERM lets running calls end. With --json one line on
    standard output says where it serves, once it does.
    """
    if stdio and as_json:
        raise Mistake("with --stdio standard output is for the protocol. Leave --json out")
    if approve and (stdio or not at_terminal()):
        raise Mistake("there is no terminal to ask at. Leave --approve out")
    from toolcrib.cli.gateway import Gateway
    from toolcrib.cli.plan import plan_for

    gateway = Gateway(quiet=quiet, ask=not stdio and at_terminal() if approve is None else approve)
    with gateway.stdout(protocol=stdio, json=as_json):
        plan = plan_for(config, host_tools, host_tools_module, imports, frozen=frozen)
        check_profile(profile, plan.config.profiles)
        settings = plan.settings(listen, unix, profile, console=not no_console)
        doors = ["stdio"] if stdio else []
        if not stdio or listen is not None or unix is not None:
            doors.append("http")
        return gateway.run(plan, settings, doors)
