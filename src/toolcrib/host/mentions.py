"""Rules that speak of tools which do not exist, or of arguments they do not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.core.entry import Entry
from toolcrib.core.policy import NoPolicy
from toolcrib.core.profile import Profile, Rule
from toolcrib.core.settings import HostConfig
from toolcrib.core.units import did_you_mean
from toolcrib.errors import ConfigError
from toolcrib.host.plugins import load_plugins
from toolcrib.host.search_tools import SearchTools
from toolcrib.host.workshop import Workshop
from toolcrib.pipeline.patterns import is_glob
from toolcrib.pipeline.plan import NAMED_ONLY

if TYPE_CHECKING:
    from toolcrib.host.host import ToolHost


def check_mentions(
    profile: Profile,
    names: set[str],
    host: ToolHost,
    built: Mapping[str, Entry],
    config: HostConfig,
    more: bool = False,
) -> list[ConfigError]:
    """Rules, policies, pins and versions that name tools which do not exist."""
    wrong: list[ConfigError] = _check_isolation(profile, host)
    names = names | set(SearchTools.names(profile))
    # A prefix that is empty begins every name.
    begins = [f"{name}-" for name in config.providers]
    begins += [str(given["prefix"]) for given in config.providers.values() if "prefix" in given]

    def check(name: str, where: str, source: str | None) -> bool:
        plain = name.partition("@")[0]
        if is_glob(name) or plain in names:
            return True
        if more or any(plain.startswith(begin) for begin in begins):
            return True  # what a provider or an address brings is known only once it answers
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
    for name in profile.listing.pinned:
        check(name, "listing.pinned", profile.source)
    for name in SearchTools.names(profile):
        wrong += _check_made(name, profile, host)
    for name, knobs in profile.policies.items():
        if check(name, "policies", profile.source):
            entry = host.planner.search_tools.entry(name, profile)
            entry = entry or built.get(name) or host.catalog.get(name)
            try:
                _try_policy(entry, knobs, profile, host.entries.workshop(None))
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


def _check_made(name: str, profile: Profile, host: ToolHost) -> list[ConfigError]:
    """Why one of the tools that come with `listing` cannot be had here."""
    try:
        host.planner.search_tools.entry(name, profile)
    except ConfigError as error:
        file, _, line = (profile.source or "").rpartition(":")
        return [
            ConfigError(
                f"profile {profile.name}: {name}: {error.message}",
                file=file or None,
                line=int(line) if line.isdigit() else None,
                key=f"profiles.{profile.name}.listing.mode",
                cure=error.cure,
            )
        ]
    return []


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


def _try_policy(
    entry: Entry | None, knobs: Mapping[str, Any], profile: Profile, workshop: Workshop
) -> None:
    if entry is None:
        return
    if entry.policy is not None:
        entry.policy.with_knobs(knobs)
    elif entry.spec.policy is not NoPolicy:
        entry.spec.policy(**knobs)
    else:
        raise ConfigError("the tool has no policy to set")
    if "sandbox" not in knobs:
        return
    if knobs["sandbox"] is None:
        if profile.isolation is not None:
            # What a tool uses then is its own affair, and may be no sandbox at all.
            raise ConfigError(
                "the profile accepts only some types of sandboxes, and no sandbox is named here",
                key="sandbox",
                cure="Name one, or remove the line",
            )
        return
    box = workshop.sandbox(knobs["sandbox"])
    if profile.isolation is None and box.type == NAMED_ONLY:
        raise ConfigError(
            f"the sandbox {box.name} is of type {box.type}, which a profile accepts only by name",
            key="sandbox",
            cure=f"Add isolation: [{box.type}] to the profile",
        )
    if profile.isolation is not None and box.type not in profile.isolation:
        raise ConfigError(
            f"the sandbox {box.name} is of type {box.type}, which the profile does not accept",
            key="sandbox",
            cure=f"Accepted are: {', '.join(profile.isolation)}",
        )


def _check_isolation(profile: Profile, host: ToolHost) -> list[ConfigError]:
    """Types of sandboxes that the profile accepts and nobody brings."""
    known = host.registrar.sandboxes
    wanted = profile.isolation or ()
    if any(name not in known for name in wanted) and not host.registrar.complete:
        load_plugins(host.registrar)
    file, _, line = (profile.source or "").rpartition(":")
    wrong: list[ConfigError] = []
    for name in wanted:
        if name not in known:
            close = did_you_mean(name, known)
            wrong.append(
                ConfigError(
                    f"profile {profile.name}: there is no sandbox type {name!r}",
                    file=file or None,
                    line=int(line) if line.isdigit() else None,
                    key=f"profiles.{profile.name}.isolation",
                    cure=f"Did you mean {close}?"
                    if close
                    else f"Known: {', '.join(sorted(known))}",
                )
            )
    return wrong
