"""`toolcrib init`: a project to begin with."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import click

from toolcrib.cli.options import debug_option, json_option, no_url
from toolcrib.cli.output import Mistake, put_json, say
from toolcrib.cli.project import FILE, STATE, ignore_state

_WRITTEN = {
    FILE: "2 tools, 1 profile",
    "tools.py": "add(a, b): a plain function; change it",
    f"{STATE}/": "schema for your editor; local state (ignored by git)",
}


@click.command()
@click.argument("folder", default=".", metavar="[DIR]")
@click.option("--force", is_flag=True, help="Write the files anew where they exist.")
@json_option
@debug_option
@no_url
def init(folder: str, force: bool, as_json: bool) -> None:
    """Start a project here, or in DIR."""
    base = Path(folder)
    if base.exists() and not base.is_dir():
        raise Mistake(f"{folder} is not a folder. Name another one")
    there = [name for name in (FILE, "tools.py") if (base / name).exists()]
    if there and not force:
        verb = "exists" if len(there) == 1 else "exist"
        raise Mistake(
            f"{' and '.join(there)} {verb} already. "
            "Nothing was written; --force writes them anew, or name another folder"
        )
    base.mkdir(parents=True, exist_ok=True)
    for name in (FILE, "tools.py"):
        text = files("toolcrib.cli").joinpath("starter", name).read_text(encoding="utf-8")
        (base / name).write_text(text, encoding="utf-8")
    write_schema(base)
    if as_json:
        put_json({"folder": str(base), "written": list(_WRITTEN)})
        return
    for name, about in _WRITTEN.items():
        say(f"Wrote {name:<16} {about}")
    say()
    say(f"Next:  {'' if folder == '.' else f'cd {folder} && '}toolcrib call add a=1 b=2")


def write_schema(base: Path) -> None:
    """Put the configuration's schema where the first line of the file says it is."""
    from toolcrib.host.config import config_schema

    ignore_state(base / STATE)
    text = json.dumps(config_schema(), indent=2) + "\n"
    (base / STATE / "schema.json").write_text(text, encoding="utf-8")
