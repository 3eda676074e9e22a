"""`toolcrib connect`: the piece of configuration with which an agent client finds the host."""

from __future__ import annotations

import difflib
import io
import json
import os
import re
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from toolcrib.cli.clients import CLIENTS, AgentClient
from toolcrib.cli.jsonc import Unreadable, with_member
from toolcrib.cli.options import debug_option, json_option
from toolcrib.cli.output import Mistake, at_terminal, put, put_json, say
from toolcrib.core.units import did_you_mean

if TYPE_CHECKING:
    from toolcrib.core.serving import HttpSettings

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch
_URL = re.compile(r"https?://[^\s/?#@]+(/[^\s?#]*)?").fullmatch
_USUAL = "http://127.0.0.1:8700"


@click.command()
@click.argument("client", required=False)
@click.option("--url", metavar="URL", help="Where the host is; else as the configuration says.")
@click.option("--name", default="toolcrib", metavar="NAME", help="What the client calls it.")
@click.option("--write", is_flag=True, help="Change the client's file, after showing how.")
@click.option("--yes", is_flag=True, help="Do not ask before the file is changed.")
@click.option("--file", "given", metavar="FILE", help="Another file than the usual one.")
@json_option
@debug_option
def connect(
    client: str | None,
    url: str | None,
    name: str,
    write: bool,
    yes: bool,
    given: str | None,
    as_json: bool,
) -> int:
    """The snippet for an agent client, and where it goes. Without CLIENT: those that are known.

    It points at the MCP address of the host, its URL with /mcp. Other servers in the file, and
    comments, stay as they are; the file as it was is kept beside it.
    """
    if client is None:
        _list(as_json)
        return 0
    known = CLIENTS.get(client)
    if known is None:
        near = did_you_mean(client, CLIENTS)
        hint = f"Did you mean {near}?" if near else f"Known: {', '.join(CLIENTS)}"
        raise Mistake(f"there is no client {client!r}. {hint}")
    if not _NAME(name):
        raise Mistake("--name takes letters, digits, - and _, at most 64")
    file = known.file() if given is None else Path(given)
    entry = known.entry(_address(url), name)
    if write:
        return _write(known, file, name, entry, yes, as_json)
    if as_json:
        put_json({"client": client, "file": str(file), "snippet": {known.key: {name: entry}}})
        return 0
    say(f"{known.title} reads {file}. Put this into it, or run the same with --write:")
    put(_snippet(known, name, entry).rstrip("\n"))
    if known.then:
        say(known.then)
    return 0


def _list(as_json: bool) -> None:
    rows = [(each.name, each.title, str(each.file())) for each in CLIENTS.values()]
    if as_json:
        put_json([{"client": a, "title": b, "file": c} for a, b, c in rows])
        return
    from toolcrib.cli.output import table

    table(("client", "", "file"), rows)


def _address(url: str | None) -> str:
    """The MCP address of the host at `url`, or of the one that the configuration describes."""
    base = url or os.environ.get("TOOLCRIB_URL") or _configured()
    if not _URL(base):
        raise Mistake("agent clients need an http://HOST or https://HOST URL. Give one with --url")
    return f"{base.rstrip('/').removesuffix('/v1').removesuffix('/mcp')}/mcp"


def _configured() -> str:
    from toolcrib.cli.project import open_project

    try:
        http: HttpSettings = open_project(None).config.serving.http
    except Mistake:
        return _USUAL
    if not http.listen:
        raise Mistake("the configuration opens no address that a client could use. Give --url")
    place = http.listen[0]
    host = f"[{place.host}]" if ":" in place.host else place.host
    if place.port == 0 or place.host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        raise Mistake("the configuration does not say under which address to call. Give --url")
    return f"{'http' if http.tls is None else 'https'}://{host}:{place.port}"


def _snippet(client: AgentClient, name: str, entry: dict[str, Any]) -> str:
    whole = {client.key: {name: entry}}
    return json.dumps(whole, indent=2) if client.syntax == "json" else _as_yaml(whole)


def _write(
    client: AgentClient, file: Path, name: str, entry: dict[str, Any], yes: bool, as_json: bool
) -> int:
    before = _read(file)
    after = _changed(client, file, before, name, entry)
    if after == before:
        if as_json:
            put_json({"client": client.name, "file": str(file), "changed": False, "backup": None})
        else:
            say(f"{file} has it already.")
        return 0
    shown = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), "before", "after"
    )
    say(f"{file}:")
    say("".join(line if line.endswith("\n") else f"{line}\n" for line in shown).rstrip("\n"))
    if not yes and not _agreed():
        say("Nothing was changed.")
        return 2
    try:
        backup = _replace(file, after)
    except OSError as error:
        raise _unusable(file, error) from None
    if as_json:
        told = None if backup is None else str(backup)
        put_json({"client": client.name, "file": str(file), "changed": True, "backup": told})
    else:
        kept = "" if backup is None else f" What it was is in {backup}."
        say(f"Wrote {file}.{kept}")
        if client.then:
            say(client.then)
    return 0


def _agreed() -> bool:
    if not at_terminal():
        raise Mistake("there is no terminal to ask at. --yes changes the file without asking")
    return click.confirm("Change the file?", default=False, err=True)


def _read(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise Mistake(f"{file} is not UTF-8 text, so it is left as it is") from None
    except OSError as error:
        raise _unusable(file, error) from None


def _unusable(file: Path, error: OSError) -> Mistake:
    cure = "Name another one with --file, or put the snippet in by hand"
    return Mistake(f"{file} cannot be changed: {error.strerror}. {cure}")


def _changed(client: AgentClient, file: Path, before: str, name: str, entry: dict[str, Any]) -> str:
    try:
        if client.syntax == "yaml":
            return _with_yaml(before, client.key, name, entry)
        return with_member(before, (client.key, name), entry)
    except Unreadable as error:
        cure = "Mend it, or put the snippet in by hand"
        raise Mistake(f"{file}: {error}, so it is left as it is. {cure}") from None


def _with_yaml(before: str, key: str, name: str, entry: dict[str, Any]) -> str:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    reader: Any = YAML()
    reader.preserve_quotes = True
    try:
        whole: Any = reader.load(before)
    except YAMLError as error:
        raise Unreadable(f"it is no YAML ({str(error).splitlines()[0]})") from None
    if whole is None:
        whole = {}
    if not isinstance(whole, dict):
        raise Unreadable("it is no mapping")
    document = cast("dict[str, Any]", whole)
    servers = document.setdefault(key, {})
    if not isinstance(servers, dict):
        raise Unreadable(f"{key} is no mapping")
    held = cast("dict[str, Any]", servers)
    if held.get(name) == entry:
        return before
    held[name] = entry
    return _as_yaml(whole)


def _as_yaml(value: Any) -> str:
    from ruamel.yaml import YAML

    writer: Any = YAML()
    out = io.StringIO()
    writer.dump(value, out)
    return out.getvalue()


def _replace(file: Path, text: str) -> Path | None:
    """Whole or not at all; a link stays one, and what was there is kept beside it."""
    real = Path(os.path.realpath(file))
    real.parent.mkdir(parents=True, exist_ok=True)
    backup: Path | None = None
    mode = 0o600
    if real.exists():
        mode = stat.S_IMODE(real.stat().st_mode)
        backup = real.with_name(f"{real.name}.before-toolcrib")
        _put(backup, real.read_bytes(), mode)
    _put(real, text.encode(), mode)
    return backup


def _put(file: Path, data: bytes, mode: int) -> None:
    descriptor, draft = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        Path(draft).chmod(mode)
        Path(draft).replace(file)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
