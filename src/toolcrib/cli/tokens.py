"""`toolcrib tokens`: made, listed and taken back; a secret is shown once and kept nowhere."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from toolcrib.cli.options import UsualGroup, local
from toolcrib.cli.output import Mistake, clock, put, put_json, say, table
from toolcrib.cli.profiles import check_profile
from toolcrib.cli.project import STATE, Project, ignore_state, open_project
from toolcrib.core.serving import TokenSettings
from toolcrib.core.settings import HostConfig
from toolcrib.core.units import did_you_mean
from toolcrib.host.config.doorkinds import moment_from
from toolcrib.transports.identity.tokenfile import PREFIX, KeptToken, TokenFile


@click.group(cls=UsualGroup)
def tokens() -> None:
    """Who may call from elsewhere: list; new NAME; revoke NAME."""


@tokens.command("list")
@local
def list_tokens(config: str | None, as_json: bool) -> None:
    """The tokens, without their secrets."""
    project = open_project(config)
    rows = [
        *(_kept(name, token) for name, token in _file(project).read().items()),
        *(_written(token) for token in project.config.serving.tokens),
    ]
    if as_json:
        put_json(rows)
        return
    if not rows:
        say("There is no token. Make one: toolcrib tokens new NAME --principal WHO")
        return
    table(
        ("name", "principal", "profile", "token", "created", "expires", "from"),
        [
            (
                row["name"],
                row["principal"],
                row["profile"] or "",
                f"{PREFIX}…{row['tail']}" if row["tail"] else "",
                "" if row["created"] is None else clock(row["created"]),
                _until(row["expires"]),
                row["source"],
            )
            for row in rows
        ],
    )


@tokens.command()
@click.argument("name")
@click.option("--principal", metavar="WHO", required=True, help="Who holds it: a configured one.")
@click.option("--profile", metavar="NAME", help="What its holder is held to; else the usual one.")
@click.option("--expires", metavar="TIME", help="How long it counts: 30d, or until 2027-01-31.")
@local
def new(
    name: str,
    principal: str,
    profile: str | None,
    expires: str | None,
    config: str | None,
    as_json: bool,
) -> None:
    """Make a token and print it, once: only its hash is kept."""
    project = open_project(config)
    _check(project.config, name, principal, profile)
    now = time.time()
    until = None if expires is None else _moment(expires, now)
    file = _file(project)
    first = not file.path.exists() and not project.config.serving.tokens
    if file.path.parent == project.folder / STATE:
        ignore_state(file.path.parent)
    secret = file.add(name, principal=principal, profile=profile, created=now, expires=until)
    if as_json:
        kept = {"principal": principal, "profile": profile, "created": now, "expires": until}
        put_json({"name": name, "token": secret, **kept})
    else:
        put(secret)
    say(f"{name} is {principal}. This is the only time that the token is shown.")
    if first and not project.config.serving.jwt:
        say(
            "It is the first one: callers without a token are refused from now on, also on this "
            "machine, unless serve.http.local says who they are."
        )


@tokens.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@local
def revoke(names: tuple[str, ...], config: str | None, as_json: bool) -> int:
    """Take tokens back; a running host refuses them within a second."""
    project = open_project(config)
    file = _file(project)
    written = {token.name: token for token in project.config.serving.tokens}
    fates = [(name, file.revoke(name)) for name in names] if file.path.exists() else []
    fates = fates or [(name, False) for name in names]
    if as_json:
        put_json([{"name": name, "revoked": gone} for name, gone in fates])
    for name, gone in fates:
        if gone:
            if not as_json:
                put(f"{name}   revoked")
        elif name in written:
            say(
                f"the token {name!r} stands in the configuration. Remove it: {written[name].source}"
            )
        else:
            say(f"there is no token {name!r}. `toolcrib tokens` lists them")
    return 0 if all(gone for _, gone in fates) else 2


def _file(project: Project) -> TokenFile:
    given = project.config.serving.tokens_file
    return TokenFile(Path(given) if given is not None else project.folder / STATE / "tokens.json")


def _check(config: HostConfig, name: str, principal: str, profile: str | None) -> None:
    if not name.strip() or not name.isprintable() or len(name) > 128:
        raise Mistake("a token's name has 1 to 128 printable characters")
    if any(token.name == name for token in config.serving.tokens):
        raise Mistake(f"the configuration has a token {name!r} already. Take another name")
    if principal not in config.principals:
        near = did_you_mean(principal, config.principals)
        cure = f"Did you mean {near}?" if near else f"Add it: principals: {{{principal}: {{}}}}"
        raise Mistake(f"there is no principal {principal!r}. {cure}")
    if profile is None:
        return
    allowed = config.principal_profiles.get(principal, tuple(config.profiles))
    check_profile(profile, config.profiles)
    if profile not in allowed:
        raise Mistake(
            f"{principal} may not use the profile {profile}. "
            f"Add it to principals.{principal}.profiles, or name another"
        )


def _moment(text: str, now: float) -> float:
    try:
        until = moment_from(text, now)
    except ValueError as error:
        raise Mistake(f"--expires: {error}") from None
    if until <= now:
        raise Mistake(f"--expires {text} is in the past")
    return until


def _kept(name: str, token: KeptToken) -> dict[str, Any]:
    return {
        "name": name,
        "principal": token.principal,
        "profile": token.profile,
        "created": token.created,
        "expires": token.expires,
        "tail": token.tail,
        "source": "toolcrib tokens",
    }


def _written(token: TokenSettings) -> dict[str, Any]:
    return {
        "name": token.name,
        "principal": token.principal,
        "profile": token.profile,
        "created": None,
        "expires": token.expires,
        "tail": "",
        "source": token.source or "configuration",
    }


def _until(expires: float | None) -> str:
    if expires is None:
        return "never"
    return f"{'expired ' if expires <= time.time() else ''}{clock(expires)}"
