"""From a configuration to a host's tools and rules: all is built first, then swapped in at once."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from toolcrib.catalog.decorator import define, is_marked
from toolcrib.core.canonical import digest_bytes
from toolcrib.core.context import ToolContext
from toolcrib.core.entry import Entry, Unavailable
from toolcrib.core.policy import NoPolicy, ToolPolicy
from toolcrib.core.profile import Profile, Rule
from toolcrib.core.protocols import Exporter, Extension
from toolcrib.core.settings import HostConfig
from toolcrib.core.spec import FILE_MODULE, RetryPolicy, ToolSpec
from toolcrib.core.units import did_you_mean
from toolcrib.errors import ConfigError, SpecError
from toolcrib.host.entries import import_function
from toolcrib.host.plugins import load_plugins
from toolcrib.pipeline.patterns import is_glob

if TYPE_CHECKING:
    from toolcrib.host.host import ToolHost

OWNED = "configuration"


def read_config(source: Any) -> HostConfig:
    """The configuration that a host was given, read and checked."""
    if source is None:
        return HostConfig()
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
    mistakes: list[ConfigError] = []
    built: dict[str, Entry] = {}
    _bring_plugins(host, config)
    for item in config.tools:
        try:
            for entry in _entries(host, item):
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
            mistakes.append(_placed(error, item))
    for name, provider in config.providers.items():
        # No provider is built in and none can be brought yet, so a file that names one is wrong.
        wrong = _unknown("provider type", str(provider.get("type")), {}, name)
        mistakes.append(_placed(wrong, provider.get("place") or {}))
    extensions, exporters = _wrappers(host, config, mistakes)
    owned = set(host.configured)
    names = {n for n in host.catalog.snapshot() if n not in owned} | set(built)
    for profile in config.profiles.values():
        mistakes += _check_profile(profile, names, host, built, config)
    if mistakes:
        first = mistakes[0]
        first.others = tuple(mistakes[1:])
        raise first
    _swap(host, built)
    host.apply(config, extensions, exporters)


def _wrappers(
    host: ToolHost, config: HostConfig, mistakes: list[ConfigError]
) -> tuple[list[Extension], list[Exporter]]:
    """The extensions and exporters that the configuration names."""
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
                    raise _unknown(what, item["name"], known)
                settings = dict(item.get("settings") or {})
                if isinstance(settings.get("file"), str):
                    settings["file"] = str(Path(item.get("base") or ".", settings["file"]))
                made.append(factory(**settings))
            except ConfigError as error:
                mistakes.append(_placed(error, item))
            except TypeError as error:
                text = f"the {what} {item['name']!r} does not take these settings: {error}"
                mistakes.append(_placed(ConfigError(text), item))
    return extensions, exporters


def _bring_plugins(host: ToolHost, config: HostConfig) -> None:
    """Let plug-ins hand in what they bring, once, if the configuration names something new."""
    desk = host.registrar
    wanted = {
        *(("extension", item["name"]) for item in config.extensions),
        *(("exporter", item["name"]) for item in config.exporters),
        *(("template", str(item["template"])) for item in config.tools if "template" in item),
        *(("executor", str(item.get("kind") or "python")) for item in config.tools),
        *(("policy", str(item["policy"]["use"])) for item in config.tools if _uses(item)),
    }
    if not desk.complete and any(not desk.has(kind, name) for kind, name in wanted):
        load_plugins(desk)
        host.entries.executors.update(desk.executors)


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


def _entries(host: ToolHost, item: Mapping[str, Any]) -> list[Entry]:
    """The entries of one item of `tools:`."""
    if item.get("enabled") is False:
        return [_switched_off(item)] if item.get("name") else []
    owner = str(item.get("source") or OWNED)
    if "python" in item:
        return _from_python(host, item, owner)
    if "template" in item:
        return [_from_template(host, item, owner)]
    fields = _fields(item, owner)
    config = dict(item.get("config") or {})
    for name in ("module", "function"):
        if item.get(name) is not None:
            config.setdefault(name, item[name])
    if str(config.get("module", "")).endswith(".py"):
        module = load_module(str(config["module"]), item.get("base"))
        config["function"] = _function(module, str(config.get("function")))
    fields["config"] = config
    with _Importable(item.get("base")):
        spec = ToolSpec(**fields)
        declared = None
        if spec.kind == "python" and "policy" in item:
            function: Any = config.get("function")
            if not callable(function):
                config["function"] = function = import_function(spec)
            declared = define(function).spec.policy
        policy = _policy(host, item, declared)
        if policy is not None:
            spec = ToolSpec(**fields, policy=type(policy))
        return [host.entries.from_spec(spec, owner=owner, policy=policy)]


def _switched_off(item: Mapping[str, Any]) -> Entry:
    """A tool that is known and cannot be called."""

    async def execute(ctx: ToolContext) -> None:
        ctx.deny("tool_disabled")

    down = Unavailable("tool_disabled", "the tool is switched off", time.time())
    owner = str(item.get("source") or OWNED)
    spec = ToolSpec(name=str(item["name"]), description=str(item.get("description") or ""))
    return Entry(spec, execute, owner=owner, unavailable=down)


def _from_python(host: ToolHost, item: Mapping[str, Any], owner: str) -> list[Entry]:
    module = load_module(str(item["python"]), item.get("base"))
    wanted = item.get("function") or item.get("name")
    found: dict[str, Callable[..., Any]] = {
        name: thing
        for name, thing in vars(module).items()
        if is_marked(thing) and getattr(thing, "__module__", None) == module.__name__
    }
    if wanted is not None:
        found = {str(wanted): found.get(str(wanted)) or _function(module, str(wanted))}
    if not found:
        raise SpecError(f"{item['python']} has no @tool", cure="Mark a function with @tool")
    entries: list[Entry] = []
    for thing in found.values():
        overrides = _fields(item, None) if wanted is not None else {}
        definition = define(thing, **overrides)
        policy = _policy(host, item, definition.spec.policy) or definition.policy
        if policy is not None and type(policy) is not definition.spec.policy:
            definition = define(thing, **overrides, policy=type(policy))
        entries.append(host.entries.from_definition(definition, policy=policy))
    return entries


def _function(module: ModuleType, name: str) -> Callable[..., Any]:
    found = getattr(module, name, None)
    if not callable(found):
        close = did_you_mean(name, vars(module))
        raise SpecError(
            f"{module.__file__} has no function {name!r}",
            cure=f"Did you mean {close}?" if close else None,
        )
    return cast("Callable[..., Any]", found)


def _from_template(host: ToolHost, item: Mapping[str, Any], owner: str) -> Entry:
    name = str(item["template"])
    template = host.registrar.templates.get(name)
    if template is None:
        raise _unknown("template", name, host.registrar.templates)
    return host.entries.from_template(
        template, item.get("policy"), name=item.get("name"), owner=owner
    )


_SPEC_FIELDS = (
    "name", "description", "title", "kind", "input_schema", "output_schema", "effects",
    "idempotent", "scope", "timeout", "version", "category", "tags", "permissions",
    "requires_approval", "requires_secrets", "requires_tools", "conflicts_with", "annotations",
)  # fmt: skip


def _fields(item: Mapping[str, Any], owner: str | None) -> dict[str, Any]:
    fields: dict[str, Any] = {
        name: item[name] for name in _SPEC_FIELDS if item.get(name) is not None
    }
    retry = item.get("retry")
    if retry is not None:
        fields["retry"] = retry if isinstance(retry, RetryPolicy) else RetryPolicy(**retry)
    if owner is not None:
        fields["source"] = owner
    return fields


def _policy(
    host: ToolHost, item: Mapping[str, Any], declared: type[ToolPolicy] | None
) -> ToolPolicy | None:
    """The policy an item configures: one of its own class, or a named one with `use`."""
    knobs = item.get("policy")
    if knobs is None:
        return None
    knobs = dict(knobs)
    name = knobs.pop("use", None)
    if name is not None:
        kind = host.registrar.policies.get(str(name))
        if kind is None:
            raise _unknown("policy", str(name), host.registrar.policies)
        return kind(**knobs)
    if declared is None or declared is NoPolicy:
        raise ConfigError(
            "the tool has no policy to set", cure="Name one with policy: {use: NAME, …}"
        )
    return declared(**knobs)


def _check_profile(
    profile: Profile,
    names: set[str],
    host: ToolHost,
    built: Mapping[str, Entry],
    config: HostConfig,
) -> list[ConfigError]:
    """Rules, policies, pins and versions that name tools which do not exist."""
    wrong: list[ConfigError] = []

    def check(name: str, where: str, source: str | None) -> bool:
        plain = name.partition("@")[0]
        if is_glob(name) or plain in names:
            return True
        close = did_you_mean(plain, names)
        file, _, line = (source or profile.source or "").rpartition(":")
        wrong.append(
            ConfigError(
                f"profile {profile.name}: {where} names the tool {name!r}, which does not exist",
                file=file or None,
                line=int(line) if line.isdigit() else None,
                key=f"profiles.{profile.name}",
                cure=f"Did you mean {close}?" if close else "Add the tool, or remove the name",
            )
        )
        return False

    for rule in profile.rules:
        for name in rule.match.names:
            check(name, f"the rule '{rule.text or rule.verdict}'", rule.source)
        wrong += _check_arguments(rule, profile, host, built)
    for limit in profile.limits:
        for name in limit.tools:
            check(name, "a limit", limit.source)
    for where, table in (("pins", profile.pins), ("versions", profile.versions)):
        for name in table:
            check(name, where, profile.source)
    for name, knobs in profile.policies.items():
        if check(name, "policies", profile.source):
            entry = built.get(name) or host.catalog.get(name)
            try:
                _try_policy(entry, knobs)
            except ConfigError as error:
                key = f"profiles.{profile.name}.policies.{name}"
                knob = f"{key}.{error.key}"
                place = config.lines.get(knob) or config.lines.get(key) or profile.source or ""
                file, _, line = place.rpartition(":")
                wrong.append(
                    ConfigError(
                        f"profile {profile.name}: policies.{name}: {error.message}",
                        file=file or None,
                        line=int(line) if line.isdigit() else None,
                        key=knob if error.key else key,
                        cure=error.cure,
                    )
                )
    return wrong


def _check_arguments(
    rule: Rule, profile: Profile, host: ToolHost, built: Mapping[str, Entry]
) -> list[ConfigError]:
    """Constraints on arguments that none of the tools a rule names can have."""
    named = [built.get(n) or host.catalog.get(n) for n in rule.match.names if not is_glob(n)]
    schemas = [entry.spec.input_schema for entry in named if entry is not None]
    if len(schemas) < len(rule.match.names) or not schemas or rule.when is None:
        return []
    if any(schema.get("additionalProperties") is not False for schema in schemas):
        return []
    known = {str(name) for schema in schemas for name in schema.get("properties", {})}
    wrong: list[ConfigError] = []
    for constraint in rule.when.arguments:
        name = constraint.argument.partition(".")[0]
        if name not in known:
            close = did_you_mean(name, known)
            file, _, line = (constraint.source or rule.source or "").rpartition(":")
            wrong.append(
                ConfigError(
                    f"profile {profile.name}: the rule '{rule.text or rule.verdict}' speaks of the "
                    f"argument {name!r}, which {', '.join(rule.match.names)} does not have",
                    file=file or None,
                    line=int(line) if line.isdigit() else None,
                    key=f"profiles.{profile.name}",
                    cure=f"Did you mean {close}?"
                    if close
                    else f"Known: {', '.join(sorted(known))}",
                )
            )
    return wrong


def _try_policy(entry: Entry | None, knobs: Mapping[str, Any]) -> None:
    if entry is None:
        return
    if entry.policy is not None:
        entry.policy.with_knobs(knobs)
    elif entry.spec.policy is not NoPolicy:
        entry.spec.policy(**knobs)
    else:
        raise ConfigError("the tool has no policy to set")


def _placed(error: ConfigError, item: Mapping[str, Any]) -> ConfigError:
    """The error with the place of the item it came from, where it has none of its own."""
    if error.file is None and item.get("source"):
        file, _, line = str(item["source"]).rpartition(":")
        lines: Mapping[str, int] = item.get("lines") or {}
        error.file = file
        error.line = lines.get(error.key or "", int(line) if line.isdigit() else None)
    return error


def _unknown(
    what: str, name: str, known: Mapping[str, Any], owner: str | None = None
) -> ConfigError:
    close = did_you_mean(name, known)
    place = f" (of {owner})" if owner else ""
    cure = f"Did you mean {close}?" if close else f"Known: {', '.join(sorted(known)) or 'none'}"
    return ConfigError(f"there is no {what} {name!r}{place}", cure=cure)


def load_module(name: str, base: str | None) -> ModuleType:
    """A module by its dotted name, or a file by its path relative to `base`."""
    if not name.endswith(".py"):
        with _Importable(base):
            try:
                return importlib.import_module(name)
            except ImportError as error:
                raise SpecError(f"the module {name} cannot be imported: {error}") from None
    path = Path(base or ".", name).resolve()
    if not path.is_file():
        raise SpecError(f"there is no file {name}", cure=f"It was looked for in {path.parent}")
    title = f"{FILE_MODULE}{digest_bytes(str(path).encode())[:12]}_{path.stem}"
    before = sys.modules.get(title)
    spec = importlib.util.spec_from_file_location(title, path)
    if spec is None or spec.loader is None:
        raise SpecError(f"{name} cannot be read as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[title] = module
    try:
        with _Importable(str(path.parent)):
            # Not by the loader: it takes a compiled file for new that is as old and as long.
            exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)  # noqa: S102
    except Exception as error:
        if before is None:
            del sys.modules[title]
        else:
            sys.modules[title] = before
        line = getattr(error, "lineno", None)
        where = f"{name}:{line}" if line else name
        text = f"{where} cannot be imported: {type(error).__name__}: {error}"
        raise SpecError(text) from error
    return module


class _Importable:
    """Modules beside the configuration can be imported while it is loaded."""

    def __init__(self, base: Any) -> None:
        self._base = str(base) if base else None

    def __enter__(self) -> None:
        if self._base is not None:
            sys.path.insert(0, self._base)

    def __exit__(self, *exc: object) -> None:
        if self._base is not None and self._base in sys.path:
            sys.path.remove(self._base)
