"""Tools written in Python: every `@tool` of a module or file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolcrib.catalog.decorator import define, is_marked
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import ConfigError, SpecError
from toolcrib.host.loaders.report import Fate, LoadReport, failed, without_doubles
from toolcrib.host.modules import load_module


class ModuleLoader:
    """Imports a module, by its dotted name or the path of its file, and reads its tools."""

    def __init__(self, module: str, folder: str | Path | None = None) -> None:
        self.module = module
        self.folder = Path(folder or ".").absolute()

    @property
    def item(self) -> dict[str, Any]:
        """The module as one item of `HostConfig.tools`; nothing is imported for it."""
        return {
            "python": self.module,
            "enabled": True,
            "source": self.module,
            "base": str(self.folder),
            "lines": {},
        }

    async def load(self) -> Sequence[ToolSpec]:
        """The specs of all tools. Raises `ConfigError`."""
        return (await self.load_all()).check().specs

    async def load_all(self) -> LoadReport:
        """What became of every tool of the module; the first carries the item for all."""
        try:
            found = list(_marked(self.module, str(self.folder)))
            if not found:
                raise SpecError(f"{self.module} has no @tool", cure="Mark a function with @tool")
        except ConfigError as error:
            error.file, error.line = error.file or self.module, error.line or 1
            return LoadReport(entries=(Fate(name=self.module, source=self.module, problem=error),))
        fates = [_fate(thing) for thing in found]
        fates[0] = Fate(
            name=fates[0].name,
            source=fates[0].source,
            spec=fates[0].spec,
            item=self.item,
            problem=fates[0].problem,
        )
        return LoadReport(entries=tuple(without_doubles(fates)))


def specs_of(fate: Fate) -> Iterator[ToolSpec]:
    """The specs that an entry stands for; a Python file is imported for them."""
    item: Mapping[str, Any] = fate.item or {}
    if fate.spec is not None:
        yield fate.spec
    elif "python" in item and item.get("enabled", True):
        for thing in _marked(str(item["python"]), item.get("base")):
            yield define(thing).spec


def _marked(module: str, folder: str | None) -> Iterator[Any]:
    try:
        loaded = load_module(module, folder)
    except ConfigError:
        raise
    except Exception as error:  # whatever the module does when it is imported
        text = f"the module {module} cannot be imported: {type(error).__name__}: {error}"
        raise SpecError(text) from error
    for thing in vars(loaded).values():
        if is_marked(thing) and getattr(thing, "__module__", None) == loaded.__name__:
            yield thing


def _fate(thing: Any) -> Fate:
    try:
        definition = define(thing)
    except ConfigError as error:
        name = str(getattr(thing, "__name__", thing))
        code = getattr(thing, "__code__", None)
        source = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else name
        return failed(name, source, error.message, cure=error.cure)
    spec = definition.spec
    return Fate(name=spec.name, source=spec.source or definition.owner, spec=spec)
