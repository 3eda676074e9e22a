"""Items of `tools:` that say `load`: local ones become the items they stand for at once, remote
ones become providers, asked when the host starts and again as often as they say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolcrib.core.context import ToolContext
from toolcrib.core.entry import Entry
from toolcrib.core.settings import HostConfig
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import ConfigError, Denial, ToolcribError, ToolFailure
from toolcrib.host.items import entries_of
from toolcrib.host.sources import Source
from toolcrib.host.workshop import Sandboxes, Workshop

if TYPE_CHECKING:
    from toolcrib.host.host import ToolHost
    from toolcrib.host.loaders import HttpLoader, LoadReport, PostgresLoader, SqliteLoader

    RemoteLoader = HttpLoader | SqliteLoader | PostgresLoader


def expand(
    host: ToolHost, config: HostConfig, mistakes: list[ConfigError]
) -> tuple[HostConfig, list[Source]]:
    """The configuration with what local loaders bring in place of their items, and the remote
    loaders as sources. What is wrong with one entry keeps no other out of the report."""
    if not any("load" in item for item in config.tools):
        return config, []
    from toolcrib.host.loaders import FileLoader, ModuleLoader, loader_for

    items: list[Mapping[str, Any]] = []
    providers: dict[str, Any] = dict(config.providers)
    secrets = set(config.secrets)
    sources: list[Source] = []
    for item in config.tools:
        if "load" not in item:
            items.append(item)
            continue
        if item.get("enabled") is False:
            continue
        try:
            loader = loader_for(item, str(item.get("base") or "."))
        except ConfigError as error:
            mistakes.append(_told(error, item, config.secrets))
            continue
        if isinstance(loader, ModuleLoader):
            items.append({**loader.item, "source": item.get("source") or loader.module})
        elif isinstance(loader, FileLoader):
            report = loader.read()
            mistakes += [_told(problem, item, config.secrets) for problem in report.problems]
            items += report.items
            secrets |= report.secrets
            for name, provider in report.providers.items():
                if name in providers:
                    text = f"two providers are called {name!r}"
                    cure = "Give one of them another name"
                    mistakes.append(placed(ConfigError(text, cure=cure), item))
                providers.setdefault(name, provider)
        else:
            sources.append(_source(host, item, loader))
    tools = tuple(dict(item) for item in items)
    changed = replace(config, tools=tools, providers=providers, secrets=frozenset(secrets))
    return changed, sources


def _told(error: ConfigError, item: Mapping[str, Any], secrets: Collection[str]) -> ConfigError:
    """The error as it may be told: a source that a variable names is a secret, in whole and in
    part, so what is wrong with the source itself is told without its name."""
    if any(secret in str(item["load"]) for secret in secrets):
        if (error.line or 1) == 1:
            text = "the source cannot be used; a variable names it, so it is not shown"
            error = ConfigError(text, key="load", cure="Look at what the variable holds")
        error.file = error.line = error.column = None
    return placed(error, item)


def placed(error: ConfigError, item: Mapping[str, Any]) -> ConfigError:
    """The error with the place of the item it came from, where it has none of its own."""
    if error.file is None and item.get("source"):
        file, _, line = str(item["source"]).rpartition(":")
        lines: Mapping[str, int] = item.get("lines") or {}
        error.file = file
        error.line = lines.get(error.key or "", int(line) if line.isdigit() else None)
    return error


def _source(host: ToolHost, item: Mapping[str, Any], loader: RemoteLoader) -> Source:
    from toolcrib.host.provider_settings import ProviderSettings

    settings = {k: v for k, v in item.items() if k not in ("source", "base", "lines", "enabled")}
    where = str(item.get("source") or item["load"])

    def build(name: str, given: Mapping[str, Any], workshop: Workshop) -> LoadedTools:
        return LoadedTools(name, host, loader)

    name = f"load at {where}"
    shop = Workshop(Sandboxes(), item.get("base"))
    return Source(name, "load", settings, ProviderSettings(), build, shop, where, {})


def _refusal(item: Mapping[str, Any], error: Exception) -> str:
    """Why one entry cannot be used; only our own words are quoted."""
    if isinstance(error, ConfigError):
        return str(placed(error, item))
    why = str(error) if isinstance(error, ToolcribError) else type(error).__name__
    return f"{item.get('source')}: the tool {item.get('name')} cannot be used: {why}"


class LoadedTools:
    """A provider of tools that were described somewhere else and run here, by their kind."""

    kind = "loaded"

    def __init__(self, name: str, host: ToolHost, loader: RemoteLoader) -> None:
        self.name = name
        self._host = host
        self._loader = loader
        self._entries: dict[tuple[str, str], Entry] = {}
        self._timer: asyncio.Task[None] | None = None
        self._changed: Callable[[], None] | None = None
        self._report: LoadReport | None = None
        self._refused: list[str] = []

    async def __aenter__(self) -> LoadedTools:
        self._report = await self._loader.load_all()
        if self._report.problems and not self._report.specs:
            raise self._report.problems[0]
        interval = getattr(self._loader, "interval", None)
        if interval is not None:
            self._timer = asyncio.ensure_future(self._ask_again(interval))
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            await asyncio.gather(self._timer, return_exceptions=True)

    def follow(self, changed: Callable[[], None]) -> None:
        """Have `changed` called when the tools are other ones."""
        self._changed = changed

    @property
    def problems(self) -> list[str]:
        """What is wrong with entries that cannot be used."""
        found = [] if self._report is None else [str(p) for p in self._report.problems]
        return [*found, *self._refused]

    async def list_tools(self) -> Sequence[ToolSpec]:
        """The specs; one that cannot be used is told by the report and leaves the others alone."""
        report = self._report = await self._loaded()
        entries: dict[tuple[str, str], Entry] = {}
        refused: list[str] = []
        for item in report.items:
            try:
                for entry in entries_of(self._host, item):
                    entries[entry.name, entry.spec.version] = entry
            except Exception as error:
                refused.append(_refusal(item, error))
        self._entries, self._refused = entries, refused
        return [entry.spec for entry in entries.values()]

    async def _loaded(self) -> LoadReport:
        known: Any = getattr(self._loader, "report", None)
        return known if known is not None else await self._loader.load_all()

    async def execute(self, ctx: ToolContext) -> Any:
        """Run one of its tools."""
        spec = ctx.spec
        entry = None if spec is None else self._entries.get((spec.name, spec.version))
        if entry is None:
            raise ToolFailure(f"{ctx.tool} is not among the tools loaded", reason="unknown_tool")
        if spec is not None and not entry.spec.defines(spec):
            # What was decided on, and perhaps by a person, is not what is here now.
            raise Denial("definition_changed", "the tool changed while the call waited")
        return await entry.execute(ctx)

    async def _ask_again(self, interval: float) -> None:
        while True:
            await asyncio.sleep(interval)
            refresh: Any = getattr(self._loader, "refresh", None)
            if refresh is not None and await refresh() and self._changed is not None:
                self._changed()
