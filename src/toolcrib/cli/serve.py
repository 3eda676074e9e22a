"""`toolcrib serve`: run the host, with its doors open."""

from __future__ import annotations

from typing import Any

import click

from toolcrib.cli.options import local
from toolcrib.cli.plain import Serve


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
def serve(**typed: Any) -> int:
    """Run the host: HTTP, WebSocket and a unix socket, or stdio. Ctrl-C stops.

    SIGHUP reads the configuration again, SIGTERM lets running calls end. With --json one line on
    standard output says where it serves, once it does.
    """
    from toolcrib.cli.gateway import serve_with

    return serve_with(Serve(**typed))
