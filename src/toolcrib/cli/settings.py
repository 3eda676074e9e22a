"""`toolcrib config`: check, show, schema and fmt of the configuration."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from toolcrib.cli.options import PlainGroup, common, debug_option, json_option, local, no_url
from toolcrib.cli.output import Mistake, many, put, put_json, say
from toolcrib.cli.project import find_config

if TYPE_CHECKING:
    from toolcrib.cli.source import Source


@click.group(cls=PlainGroup)
def config() -> None:
    """Check, show, schema and fmt of toolcrib.yaml."""


@config.command()
@common
def check(source: Source, as_json: bool) -> int:
    """Read everything, load every tool, and print each mistake as file:line:column: message."""
    found = source.check_settings()
    if as_json:
        put_json({"ok": found.ok, "problems": [msgspec.to_builtins(p) for p in found.problems]})
    elif not found.ok:
        for problem in found.problems:
            put(str(problem) if problem.file is not None else f"{found.path}: {problem}")
        say(f"{many(len(found.problems), 'mistake')}. Nothing was changed.")
    if found.ok:
        say(f"{found.path}: ok. {found.counted}.")
    return 0 if found.ok else 2


@config.command()
@common
def show(source: Source, as_json: bool) -> None:
    """The configuration as it holds: resolved, with sources, secrets masked."""
    text = source.settings()
    if not as_json:
        put(text.rstrip("\n"))
        return
    from ruamel.yaml import YAML

    reader: Any = YAML(typ="safe", pure=True)
    put_json(reader.load(text))


@config.command()
@json_option
@debug_option
@no_url
def schema(as_json: bool) -> None:
    """The JSON Schema (draft-07) of the configuration, for editors."""
    import json

    from toolcrib.host.config import config_schema

    if as_json:
        put_json(config_schema())
    else:
        put(json.dumps(config_schema(), indent=2))


@config.command()
@click.option("--check", "only_check", is_flag=True, help="Exit with 1 when the form would change.")
@click.option("--write", is_flag=True, help="Change the file.")
@local
def fmt(only_check: bool, write: bool, config: str | None, as_json: bool) -> int:
    """The file in its one form: keys in order, even indentation, comments kept."""
    from toolcrib.host.config import format_config

    if only_check and write:
        raise Mistake("--check changes nothing and --write does. Give one of them")
    path = find_config(config)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Mistake(f"{path}: the file is not UTF-8 text. Save it as UTF-8") from None
    formatted = format_config(text, file=str(path))
    changes = formatted != text
    if write and changes:
        _replace(path, formatted)
    if as_json:
        put_json({"file": str(path), "changes": changes, "written": write and changes})
    elif write:
        say(f"{path}: {'written anew' if changes else 'has its form already'}")
    elif only_check:
        say(
            f"{path}: has not its form. `toolcrib config fmt --write` gives it"
            if changes
            else f"{path}: ok"
        )
    else:
        put(formatted.rstrip("\n"))
    return 1 if only_check and changes else 0


def _replace(path: Path, text: str) -> None:
    """Whole or not at all, with the permissions the file had; a link stays one."""
    real = Path(os.path.realpath(path))
    draft = real.with_name(f".{real.name}.new")
    draft.write_text(text, encoding="utf-8")
    draft.chmod(stat.S_IMODE(real.stat().st_mode))
    draft.replace(real)
