"""The project a command works in, found from here."""

from __future__ import annotations

import os
from pathlib import Path

from toolcrib.cli.output import Mistake
from toolcrib.host.reports.project import (
    STATE,
    Project,
    counted,
    ignore_state,
    project_of,
    run,
)
from toolcrib.host.reports.quiet import no_compiled_files

__all__ = [
    "FILE",
    "STATE",
    "Project",
    "counted",
    "find_config",
    "ignore_state",
    "me",
    "no_compiled_files",
    "open_project",
    "run",
]

FILE = "toolcrib.yaml"


def open_project(given: str | None) -> Project:
    """The project of the configuration named, or found here or in a folder above."""
    return project_of(find_config(given))


def find_config(given: str | None) -> Path:
    """The configuration's file, spelled from here so that editors can follow it."""
    if given is not None:
        if not Path(given).is_file():
            raise Mistake(f"there is no file {given}. Name one that is there with --config")
        return Path(given)
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / FILE).is_file():
            return Path(os.path.relpath(folder / FILE))
    raise Mistake(
        f"there is no {FILE} here or in a folder above. "
        "Start one with `toolcrib init`, or name a file with --config"
    )


def me() -> str:
    """Who sits at the terminal."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "cli"
