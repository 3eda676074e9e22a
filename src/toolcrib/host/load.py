"""From a configuration to a host's tools and rules: all is built first, then swapped in at once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from toolcrib.core.entry import Entry
from toolcrib.core.settings import HostConfig
from toolcrib.errors import ConfigError
from toolcrib.host.config.reading import conceal
from toolcrib.host.expanding import expand, placed
from toolcrib.host.items import OWNED, entries_of, unknown
from toolcrib.host.plugins import load_plugins
from toolcrib.host.workshop import Sandboxes, Workshop, build_sandboxes

if TYPE_CHECKING:
    from toolcrib.core.protocols import Exporter, Extension
    from toolcrib.host.host import ToolHost
    from toolcrib.host.sources import Source


def read_config(source: Any) -> HostConfig:
    """The configuration that a host was given, read and checked."""
    if source is None:
        return HostConfig()
    if callable(source):
        source = source()  # read anew with every reload
    if isinstance(source, HostConfig):
        return source
    from toolcrib.host.config import config_from_mapping, load_config

    if isinstance(source, Mapping):
        return config_from_mapping(cast("Mapping[str, Any]", source))
    return load_config(source)


def load_into(host: ToolHost, config: HostConfig) -> None:
    """Build all tools of `config`, check its rules against them, then put both in force.

    Nothing changes unless everything is right: mistakes are raised together, before the swap.
    """
    from toolcrib.host.mentions import check_mentions

    mistakes: list[ConfigError] = []
    own = host.own_files
    own.note_config(config)
    config, remote = expand(host, config, mistakes)
    own.note_config(config)
    with _plugins(host, config, mistakes):
        sandboxes, wrong = build_sandboxes(config.sandboxes, host.registrar.sandboxes, own)
        mistakes += [placed(error, place) for error, place in wrong]
        before = host.entries.workshop
        host.entries.workshop = lambda folder: Workshop(
            sandboxes, folder, own, keep_secret=host.kept_secrets
        )
        try:
            built = _tools(host, config, mistakes)
            sources = [*_sources(host, config, sandboxes, mistakes), *remote]
            extensions, exporters = _wrappers(host, config, mistakes)
            owned = set(host.configured)
            names = {n for n in host.catalog.snapshot() if n not in owned} | set(built)
            for profile in config.profiles.values():
                mistakes += check_mentions(profile, names, host, built, config, bool(remote))
            for mistake in mistakes:
                conceal(mistake, config.secrets)
            if mistakes:
                first = mistakes[0]
                first.others = tuple(mistakes[1:])
                raise first
        except BaseException:
            host.entries.workshop = before
            raise
    _swap(host, built)
    host.sandboxes = sandboxes
    host.apply(config, extensions, exporters, sources)


@contextmanager
def _plugins(host: ToolHost, config: HostConfig, mistakes: list[ConfigError]) -> Generator[None]:
    """What plug-ins bring, while the configuration is built; if it is wrong, what was there
    before is there again."""
    before, kinds, running = host.registrar, host.entries.executors, dict(host.entries.executors)
    desk, unfit = before.renew(config.plugins)
    mistakes += [placed(error, item) for error, item in unfit]
    if not desk.complete and any(not desk.has(kind, name) for kind, name in _named(config)):
        load_plugins(desk)
    brought = {*before.executors, *desk.executors}
    host.registrar = desk
    for kind in brought:
        old, new = before.executors.get(kind), desk.executors.get(kind)
        if new is None and kinds.get(kind) is old:
            del kinds[kind]
        elif new is not None and new is not old:
            kinds[kind] = new
    try:
        yield
    except BaseException:
        host.registrar = before
        for kind in brought:
            kinds.pop(kind, None)
        kinds.update({kind: running[kind] for kind in brought if kind in running})
        host.entries.retired += [e for e in desk.executors.values() if e not in kinds.values()]
        raise
    host.entries.retired += [e for kind, e in running.items() if kinds.get(kind) is not e]


def _tools(host: ToolHost, config: HostConfig, mistakes: list[ConfigError]) -> dict[str, Entry]:
    """The entries of `tools:`, by name."""
    built: dict[str, Entry] = {}
    for item in config.tools:
        try:
            for entry in entries_of(host, item):
                key = entry.name
                if key in built and built[key].spec.version != entry.spec.version:
                    key = f"{entry.name}@{entry.spec.version}"
                if key in built:
                    raise ConfigError(
                        f"two tools are called {key!r}: {built[key].owner} and {entry.owner}",
                        cure="Give one of them another name or version",
                    )
                built[key] = entry
        except ConfigError as error:
            mistakes.append(placed(error, item))
    return built


def _sources(
    host: ToolHost, config: HostConfig, sandboxes: Sandboxes, mistakes: list[ConfigError]
) -> list[Source]:
    """The providers that the configuration names, built once to find mistakes; none is started."""
    if not config.providers:
        return []
    from toolcrib.host.provider_settings import ProviderSettings
    from toolcrib.host.sources import Source

    made: list[Source] = []
    boxes = config.sandboxes.items()
    plain = {name: {k: v for k, v in box.items() if k != "place"} for name, box in boxes}
    known = host.registrar.providers
    for name, settings in config.providers.items():
        place: Mapping[str, Any] = settings.get("place") or {}
        given = {k: v for k, v in settings.items() if k not in ("place", "type")}
        factory = known.get(str(settings.get("type")))
        try:
            if factory is None:
                raise unknown("provider type", str(settings.get("type")), known, name)
            alive, rest = ProviderSettings.take(given)
            source = Source(
                name,
                str(settings["type"]),
                rest,
                alive,
                factory,
                Workshop(
                    sandboxes,
                    place.get("base"),
                    host.own_files,
                    keep_secret=host.kept_secrets,
                ),
                str(place.get("source") or OWNED),
                plain,
            )
            source.build()
            made.append(source)
        except ConfigError as error:
            mistakes.append(placed(error, place))
    return made


def _wrappers(
    host: ToolHost, config: HostConfig, mistakes: list[ConfigError]
) -> tuple[list[Extension], list[Exporter]]:
    """The extensions and exporters that the configuration names."""
    if not (config.extensions or config.exporters):
        return [], []
    from toolcrib.host.misfits import misfits

    extensions: list[Extension] = []
    exporters: list[Exporter] = []
    for what, items, known, made in (
        ("extension", config.extensions, host.registrar.extensions, extensions),
        ("exporter", config.exporters, host.registrar.exporters, exporters),
    ):
        for item in items:
            factory: Callable[..., Any] | None = known.get(item["name"])
            try:
                if factory is None:
                    raise unknown(what, item["name"], known)
                settings = dict(item.get("settings") or {})
                if isinstance(settings.get("file"), str):
                    settings["file"] = str(Path(item.get("base") or ".", settings["file"]))
                made.append(factory(**settings))
            except ConfigError as error:
                mistakes.append(placed(error, item))
            except TypeError as error:
                title = f"the {what} {item['name']!r}"
                given: Mapping[str, Any] = item.get("settings") or {}
                mistakes += [placed(e, item) for e in misfits(title, factory, given, error)]
    return extensions, exporters


def _named(config: HostConfig) -> set[tuple[str, str]]:
    """What the configuration names that a plug-in could bring."""
    return {
        *(("extension", item["name"]) for item in config.extensions),
        *(("exporter", item["name"]) for item in config.exporters),
        *(("template", str(item["template"])) for item in config.tools if "template" in item),
        *(("executor", str(item.get("kind") or "python")) for item in config.tools),
        *(("policy", str(item["policy"]["use"])) for item in config.tools if _uses(item)),
        *(("provider", str(item.get("type"))) for item in config.providers.values()),
        *(("sandbox", str(item.get("type"))) for item in config.sandboxes.values()),
    }


def _uses(item: Mapping[str, Any]) -> bool:
    return "use" in (item.get("policy") or {})


def _swap(host: ToolHost, built: dict[str, Entry]) -> None:
    kept = host.catalog.snapshot()
    same = {n for n in host.configured if n in built and kept.get(n) is built[n]}
    host.catalog.swap(
        remove=[name for name in host.configured if name not in same],
        add=[entry for name, entry in built.items() if name not in same],
    )
    host.configured = frozenset(built)
