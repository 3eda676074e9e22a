"""`toolcrib tools check`: each entry's fate."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from toolcrib.catalog.decorator import is_marked
from toolcrib.cli.output import Mistake, stdout_is_talk
from toolcrib.cli.project import Project, open_project, run
from toolcrib.core.settings import HostConfig
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import ConfigError


class Fate(NamedTuple):
    """What became of one entry."""

    entry: str
    tool: str | None
    fate: str
    """`ok`, `warn` for what can be used and should be looked at, `fail`."""
    remark: str | None


def check_config(config: str | None) -> list[Fate]:
    """Every entry of the configuration, each on its own, then all of them together."""
    project = open_project(config)
    fates: list[Fate] = []
    whole = len(project.config.tools) == 1
    for item in project.config.tools:
        fates += _entry(project, item)
    failed = any(fate.fate == "fail" for fate in fates)
    if failed and whole:
        return fates
    known = {fate.remark for fate in fates}
    try:
        project.host()
    except ConfigError as error:
        fates += [
            Fate(mistake.where or str(project.path), None, "fail", str(mistake))
            for mistake in error.all()
            if str(mistake) not in known and not (failed and "does not exist" in mistake.message)
        ]
    return fates


def _entry(project: Project, item: dict[str, Any]) -> list[Fate]:
    place = str(item.get("source") or project.path)
    if item.get("enabled") is False:
        return [Fate(place, item.get("name"), "ok", "switched off")]
    if "load" in item:
        return _loaded(place, item)
    from toolcrib.host.host import ToolHost

    alone = HostConfig(settings=replace(project.config.settings, profile=None), tools=(item,))
    host = ToolHost(config=replace(alone, secrets=project.config.secrets))
    try:
        with stdout_is_talk():
            host.load()
    except ConfigError as error:
        name = item.get("name") or item.get("template")
        return [Fate(place, name, "fail", str(mistake)) for mistake in error.all()]
    return [_looked_at(place, entry.spec) for entry in host.catalog.snapshot().values()]


def _loaded(place: str, item: dict[str, Any]) -> list[Fate]:
    """Every entry of what an item loads, also of an address or a database."""
    from toolcrib.host.loaders import loader_for

    try:
        loader = loader_for(item, str(item.get("base") or "."))
        report = run(loader.load_all())
    except ConfigError as error:
        return [Fate(place, str(item["load"]), "fail", str(error))]
    fates: list[Fate] = []
    for fate in report.entries:
        if fate.problem is not None:
            found = fate.problem.all()
            fates += [Fate(fate.source, fate.name, "fail", str(mistake)) for mistake in found]
        elif fate.spec is not None:
            fates.append(_looked_at(fate.source, fate.spec))
        else:
            remark = "a provider" if fate.provider is not None else "read when it is used"
            fates.append(Fate(fate.source, fate.name, "ok", remark))
    return fates


def check_module(module: str) -> list[Fate]:
    """The tools of a Python file: what is marked with @tool, and objects that are tools."""
    from toolcrib.host.host import ToolHost
    from toolcrib.host.modules import load_module

    if not Path(module).is_file():
        raise Mistake(f"there is no file {module}. Name a Python file")
    host = ToolHost()
    fates: list[Fate] = []
    with stdout_is_talk():
        try:
            loaded = load_module(os.path.abspath(module), None)  # noqa: PTH100 - links stay
        except ConfigError as error:
            return [Fate(module, None, "fail", str(error))]
        for name, thing in _candidates(vars(loaded), loaded.__name__):
            try:
                made = thing() if isinstance(thing, type) and not is_marked(thing) else thing
                entry = host.entry_for(made)
                host.register(entry)
                fates.append(_looked_at(f"{module}:{name}", entry.spec))
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


def _looked_at(place: str, spec: ToolSpec) -> Fate:
    remarks: list[str] = []
    if not spec.description:
        remarks.append("no description: models do not know what it is for")
    if spec.effects is None:
        remarks.append("effects are unknown, treated as the worst case")
    remarks += _export_problems(spec)
    return Fate(place, spec.name, "warn" if remarks else "ok", "; ".join(remarks) or None)


def _export_problems(spec: ToolSpec) -> list[str]:
    """Formats of model providers that this tool cannot be told in."""
    from toolcrib.catalog.formats import FORMATS

    found: list[str] = []
    for name, made in FORMATS.items():
        try:
            made(spec)
        except (ConfigError, ValueError) as error:
            found.append(f"not in the format {name}: {error}")
    return found
