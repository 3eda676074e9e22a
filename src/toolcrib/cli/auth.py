"""`toolcrib auth`: logging in to MCP servers, and what is kept of it; never a token is shown."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from toolcrib.cli.options import PlainGroup, local, seconds
from toolcrib.cli.output import Mistake, clock, put, put_json, say, table
from toolcrib.cli.project import STATE, Project, ignore_state, open_project, run
from toolcrib.core.units import did_you_mean, format_duration
from toolcrib.host.own_files import OwnFiles
from toolcrib.host.workshop import Sandboxes, Workshop
from toolcrib.providers.mcp.oauth.build import oauth_for, state_folder
from toolcrib.providers.mcp.oauth.vault import Vault

if TYPE_CHECKING:
    from toolcrib.providers.mcp.oauth.record import Record, Tokens
    from toolcrib.providers.mcp.oauth.source import OAuth


@click.group(cls=PlainGroup)
def auth() -> None:
    """Log in to MCP servers: login PROVIDER; status; logout PROVIDER."""


@auth.command()
@click.argument("provider")
@click.option("--no-browser", is_flag=True, help="Print the address only; open no browser.")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="The port on this machine that the browser comes back to; else any free one.",
)
@click.option(
    "--timeout", type=seconds, default="5m", show_default=True, help="How long to wait for you."
)
@local
def login(
    provider: str,
    no_browser: bool,
    port: int | None,
    timeout: float,
    config: str | None,
    as_json: bool,
) -> None:
    """Log in to a provider's server; a running host uses it at once."""
    project = open_project(config)
    settings = _settings(project, provider)

    async def show(url: str) -> None:
        say(f"{provider} is at {settings['url']}. {urlsplit(url).netloc} will ask you whether")
        say("Toolcrib may use it. Open this address:")
        say(f"\n  {url}\n")
        if not no_browser and _has_screen():
            with contextlib.suppress(webbrowser.Error):
                await asyncio.to_thread(webbrowser.open, url)
        say(f"Waiting {format_duration(timeout)} for the answer. Ctrl-C gives up.")

    lent = _workshop(project, settings)
    made = oauth_for(provider, _plain(settings), lent, show=show, port=port, patience=timeout)
    if made is None:
        raise Mistake(_no_auth(provider))
    folder = state_folder(lent)
    if folder == project.folder / STATE:
        ignore_state(folder)

    async def work(oauth: OAuth) -> Tokens:
        try:
            return await oauth.login()
        finally:
            await oauth.aclose()

    tokens = run(work(made))
    if as_json:
        put_json({"provider": provider, **_said(tokens)})
        return
    until = "" if tokens.expires is None else f" until {clock(tokens.expires)}"
    renewed = ", and is renewed by itself" if tokens.refresh_token else ""
    put(f"{provider}   logged in at {tokens.issuer}{until}{renewed}")
    say(f"Granted: {' '.join(tokens.scopes) or 'what the server gives by default'}")


@auth.command()
@local
def status(config: str | None, as_json: bool) -> None:
    """Which providers are logged in, where, and until when."""
    project = open_project(config)
    rows = _rows(project)
    if as_json:
        put_json(rows)
        return
    if not rows:
        say("No provider has auth: {type: oauth}, and no login is kept.")
        return
    table(
        ("provider", "login", "issuer", "scopes", "until", "renewed"),
        [
            (
                row["provider"],
                row["state"],
                row["issuer"] or "",
                " ".join(row["scopes"]),
                "" if row["expires"] is None else clock(row["expires"]),
                "yes" if row["renewed"] else "",
            )
            for row in rows
        ],
    )
    for row in rows:
        if row["cure"]:
            say(f"{row['provider']}: {row['cure']}")


@auth.command()
@click.argument("providers", nargs=-1, required=True, metavar="PROVIDER...")
@local
def logout(providers: tuple[str, ...], config: str | None, as_json: bool) -> int:
    """Forget what is kept of a provider: tokens, and the client that was registered for it."""
    project = open_project(config)
    fates: list[tuple[str, bool]] = []
    for name in providers:
        vault = Vault(state_folder(_workshop(project, project.config.providers.get(name) or {})))
        there = vault.read(name) is not None
        if there:
            run(_forget(vault, name))
        fates.append((name, there))
    if as_json:
        put_json([{"provider": name, "forgotten": there} for name, there in fates])
    for name, there in fates:
        if not there:
            say(f"nothing is kept of {name!r}. `toolcrib auth status` shows what is")
        elif not as_json:
            put(f"{name}   forgotten")
    if any(there for _, there in fates):
        say("The server was not told; a running host stops using the tokens at once.")
    return 0 if all(there for _, there in fates) else 2


async def _forget(vault: Vault, name: str) -> None:
    # A host that renews them at this moment would bring them back.
    async with vault.alone(name):
        vault.write(name, None)


def _settings(project: Project, name: str) -> Mapping[str, Any]:
    known = project.config.providers
    found = known.get(name)
    if found is None:
        near = did_you_mean(name, known)
        cure = f"Did you mean {near}?" if near else "`toolcrib providers` lists them"
        raise Mistake(f"there is no provider {name!r}. {cure}")
    if found.get("type") != "mcp" or found.get("auth") is None:
        raise Mistake(_no_auth(name))
    return found


def _no_auth(name: str) -> str:
    return f"the provider {name!r} needs no login. Those that do have auth: {{type: oauth}}"


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key not in ("type", "place")}


def _workshop(project: Project, settings: Mapping[str, Any]) -> Workshop:
    """What the host lends to this provider, as far as logins need it."""
    own = OwnFiles()
    own.note_config(project.config)
    place: Mapping[str, Any] = settings.get("place") or {}
    return Workshop(Sandboxes(), place.get("base") or project.folder, own)


def _rows(project: Project) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    named: set[str] = set()
    vaults: dict[Path, Vault] = {}
    for name, settings in project.config.providers.items():
        if settings.get("type") != "mcp" or settings.get("auth") is None:
            continue
        lent = _workshop(project, settings)
        made = oauth_for(name, _plain(settings), lent)
        if made is None:
            continue
        named.add(name)
        folder = state_folder(lent)
        vaults[folder] = Vault(folder)
        rows.append(_row(name, made.kept(), made.by_person))
    main = state_folder(_workshop(project, {}))
    for vault in {**vaults, main: Vault(main)}.values():
        for name in sorted(vault.all().keys() - named):
            cure = f"it is not configured; forget it: toolcrib auth logout {name}"
            rows.append({"provider": name, "state": "left over", **_said(None), "cure": cure})
    return rows


def _row(name: str, record: Record, by_person: bool) -> dict[str, Any]:
    tokens = record.tokens
    again = f"run: toolcrib auth login {name}"
    state, cure = "yes", None
    if tokens is None:
        state, cure = "no", again if by_person else None
    elif record.wanted:
        state = "more needed"
        cure = f"calls were refused for want of {' '.join(record.wanted)}; {again}"
    elif tokens.expires is not None and tokens.expires <= time.time():
        renews = tokens.refresh_token is not None or not by_person
        state, cure = ("due", None) if renews else ("ended", again)
    return {"provider": name, "state": state, **_said(tokens), "cure": cure}


def _said(tokens: Tokens | None) -> dict[str, Any]:
    """What may be told of tokens."""
    if tokens is None:
        return {"issuer": None, "scopes": [], "expires": None, "renewed": False}
    return {
        "issuer": tokens.issuer,
        "scopes": list(tokens.scopes),
        "expires": tokens.expires,
        "renewed": tokens.refresh_token is not None,
    }


def _has_screen() -> bool:
    """Whether a browser would open a window: one for terminals would take this one away."""
    return sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
