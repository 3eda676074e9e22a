"""What became of every entry of a source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.core.spec import ToolSpec
from toolcrib.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class Fate:
    """What became of one entry. One that is switched off has neither a tool nor a problem."""

    name: str
    """The name of the tool or provider; where none could be read, the entry's place in the list."""
    source: str
    """`file:line`."""
    spec: ToolSpec | None = None
    """None where the tool is known only later: after an import, or with its template's policy."""
    item: Mapping[str, Any] | None = None
    """The entry in the normal form of `HostConfig.tools`."""
    provider: Mapping[str, Any] | None = None
    """The entry in the normal form of `HostConfig.providers`."""
    problem: ConfigError | None = None
    """Why it cannot be used; further mistakes of the same entry are in its `others`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadReport:
    """What became of all entries of a source, in their order."""

    entries: tuple[Fate, ...] = ()
    secrets: frozenset[str] = frozenset()
    """Values that came from `${…}`: to be hidden wherever they appear."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The specs of the entries that are right, as far as known."""
        return tuple(fate.spec for fate in self.entries if fate.spec is not None)

    @property
    def items(self) -> tuple[Mapping[str, Any], ...]:
        """The entries that are right, as `HostConfig.tools` holds them."""
        return tuple(fate.item for fate in self.entries if fate.item is not None)

    @property
    def providers(self) -> dict[str, Mapping[str, Any]]:
        """The providers that are right, by name, as `HostConfig.providers` holds them."""
        return {fate.name: fate.provider for fate in self.entries if fate.provider is not None}

    @property
    def problems(self) -> tuple[ConfigError, ...]:
        """What is wrong, one for each entry that cannot be used."""
        return tuple(fate.problem for fate in self.entries if fate.problem is not None)

    def check(self) -> LoadReport:
        """This report, if nothing is wrong; otherwise the first problem with all others."""
        found = [mistake for problem in self.problems for mistake in problem.all()]
        if found:
            first = found[0]
            raise ConfigError(
                first.message,
                file=first.file,
                line=first.line,
                column=first.column,
                key=first.key,
                cure=first.cure,
                others=[_alone(mistake) for mistake in found[1:]],
            )
        return self


def _alone(mistake: ConfigError) -> ConfigError:
    return ConfigError(
        mistake.message,
        file=mistake.file,
        line=mistake.line,
        column=mistake.column,
        key=mistake.key,
        cure=mistake.cure,
    )


def without_doubles(entries: list[Fate]) -> list[Fate]:
    """The entries, but of two tools or providers with one name the second is a problem."""
    seen: dict[tuple[bool, str, str], str] = {}
    kept: list[Fate] = []
    for fate in entries:
        if fate.problem is not None or (fate.spec is None and fate.provider is None):
            kept.append(fate)
            continue
        version = fate.spec.version if fate.spec is not None else ""
        which = (fate.spec is None, fate.name, version)
        if which not in seen:
            seen[which] = fate.source
            kept.append(fate)
            continue
        kept.append(
            failed(
                fate.name,
                fate.source,
                f"{fate.name} stands here and at {seen[which]}",
                cure="Give one of them another name or version",
            )
        )
    return kept


def failed(name: str, source: str, message: str, *, cure: str | None = None) -> Fate:
    """The fate of an entry that cannot be used, for a reason that concerns it as a whole."""
    file, colon, line = source.rpartition(":")
    if not (colon and line.isdigit()):
        file, line = source, ""
    problem = ConfigError(message, file=file, line=int(line) if line else None, cure=cure)
    return Fate(name=name, source=source, problem=problem)
