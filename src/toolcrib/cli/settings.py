"""`toolcrib config`: check, show, schema and fmt of the configuration."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import click

from toolcrib.cli.options import PlainGroup, common, debug_option, json_option
from toolcrib.cli.output import Mistake, many, put, put_json, say
from toolcrib.cli.project import counted, find_config, open_project
from toolcrib.errors import ConfigError


@click.group(cls=PlainGroup)
def config() -> None:
    """Check, show, schema and fmt of toolcrib.yaml."""


@config.command()
@common
def check(config: str | None, as_json: bool) -> int:
    """Read everything, load every tool, and print each mistake as file:line:column: message."""
    path = find_config(config)
    try:
        project = open_project(str(path))
        host = project.host()
    except ConfigError as error:
        mistakes = error.all()
        if as_json:
            put_json({"ok": False, "problems": [_problem(mistake) for mistake in mistakes]})
        else:
            for mistake in mistakes:
                put(_placed(mistake, path))
            say(f"{many(len(mistakes), 'mistake')}. Nothing was changed.")
        return 2
    if as_json:
        put_json({"ok": True, "problems": []})
    say(f"{path}: ok. {counted(host)}.")
    return 0


def _placed(mistake: ConfigError, path: Path) -> str:
    if mistake.file is None:
        return f"{path}: {mistake}"
    return str(mistake)


def _problem(mistake: ConfigError) -> dict[str, Any]:
    return {
        "file": mistake.file,
        "line": mistake.line,
        "column": mistake.column,
        "key": mistake.key,
        "message": mistake.message,
        "cure": mistake.cure,
    }


@config.command()
@common
def show(config: str | None, as_json: bool) -> None:
    """The configuration as it holds: resolved, with sources, secrets masked."""
    from toolcrib.host.config import show_config

    text = show_config(find_config(config))
    if not as_json:
        put(text.rstrip("\n"))
        return
    from ruamel.yaml import YAML

    reader: Any = YAML(typ="safe", pure=True)
    put_json(reader.load(text))


@config.command()
@json_option
@debug_option
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
@common
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
