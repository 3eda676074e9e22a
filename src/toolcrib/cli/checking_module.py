"""`toolcrib tools check --module`: the tools of a Python file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolcrib.catalog.decorator import is_marked
from toolcrib.cli.output import Mistake, stdout_is_talk
from toolcrib.cli.project import no_compiled_files
from toolcrib.errors import ConfigError
from toolcrib.host.reports.fates import Fate, of_entry


def check_module(module: str) -> list[Fate]:
    """The tools of a Python file: what is marked with @tool, and objects that are tools."""
    from toolcrib.host.host import ToolHost
    from toolcrib.host.modules import load_module

    if not Path(module).is_file():
        raise Mistake(f"there is no file {module}. Name a Python file")
    host = ToolHost()
    fates: list[Fate] = []
    with stdout_is_talk(), no_compiled_files():
        try:
            loaded = load_module(os.path.abspath(module), None)  # noqa: PTH100 - links stay
        except ConfigError as error:
            return [Fate(module, None, "fail", str(error))]
        for name, thing in _candidates(vars(loaded), loaded.__name__):
            try:
                made = thing() if isinstance(thing, type) and not is_marked(thing) else thing
                entry = host.entry_for(made)
                host.register(entry)
                fates.append(of_entry(f"{module}:{name}", entry))
            except ConfigError as error:
                fates.append(Fate(f"{module}:{name}", None, "fail", str(error)))
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
                fates.append(Fate(f"{module}:{name}", None, "fail", text))
    if not fates:
        text = "no tool is in it. Mark a function with @tool"
        return [Fate(module, None, "fail", text)]
    return fates


def _candidates(names: dict[str, Any], module: str) -> Iterator[tuple[str, Any]]:
    for name, thing in list(names.items()):
        if name.startswith("_"):
            continue
        if is_marked(thing):
            if getattr(thing, "__module__", None) == module:
                yield name, thing
            continue
        home = thing.__module__ if isinstance(thing, type) else type(thing).__module__
        if home == module and hasattr(thing, "name") and callable(getattr(thing, "execute", None)):
            yield name, thing
