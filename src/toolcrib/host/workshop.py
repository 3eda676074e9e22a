"""What the host lends to whoever builds a tool, and what it noted down about that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.core.units import did_you_mean
from toolcrib.errors import ConfigError

if TYPE_CHECKING:
    from toolcrib.core.protocols import Sandbox

PLAIN = "subprocess"
"""The name under which the sandbox that isolates nothing can always be had."""

STRICT = "strict"
"""The name under which the built-in bubblewrap sandbox can always be had."""

RESERVED = (PLAIN, STRICT)

Factories = Mapping[str, Callable[..., Any]]


class Sandboxes:
    """The sandboxes of one configuration, by name. Building one starts nothing."""

    def __init__(self, named: Mapping[str, Sandbox] | None = None) -> None:
        self.named: dict[str, Sandbox] = dict(named or {})

    def get(self, name: str | None, workshop: Workshop) -> Sandbox:
        """The sandbox of a name. The built-in ones depend on the folder they are asked for."""
        if name is None or name == STRICT:
            from toolcrib.sandbox.build import strict

            return strict(workshop)
        if name == PLAIN:
            from toolcrib.sandbox.build import FACTORIES

            return FACTORIES[PLAIN](PLAIN, {}, workshop)
        found = self.named.get(name)
        if found is None:
            known = [*self.named, *RESERVED]
            close = did_you_mean(name, known)
            raise ConfigError(
                f"there is no sandbox {name!r}",
                key="sandbox",
                cure=f"Did you mean {close}?" if close else f"Known: {', '.join(known)}",
            )
        return found


class Workshop:
    """Lends folders and sandboxes, and remembers which sandboxes were taken."""

    def __init__(self, sandboxes: Sandboxes, folder: str | Path | None = None) -> None:
        self._sandboxes = sandboxes
        self._folder = None if folder is None else Path(folder)
        self.taken: dict[str, Sandbox] = {}

    @property
    def folder(self) -> Path:
        """Where relative paths begin."""
        return (self._folder or Path()).absolute()

    def sandbox(self, name: str | None = None) -> Sandbox:
        """A sandbox by name; without one, the strict built-in one."""
        found = self._sandboxes.get(name, self)
        self.taken[found.name] = found
        return found

    def file(self, path: str) -> Path:
        """A path, made absolute."""
        return self.folder / path


def build_sandboxes(
    given: Mapping[str, Mapping[str, Any]], factories: Factories
) -> tuple[Sandboxes, list[tuple[ConfigError, Mapping[str, Any]]]]:
    """The sandboxes that a configuration describes, and what is wrong with the others."""
    made = Sandboxes()
    wrong: list[tuple[ConfigError, Mapping[str, Any]]] = []
    for name, settings in given.items():
        place: Mapping[str, Any] = settings.get("place") or {}
        kind = str(settings.get("type"))
        rest = {k: v for k, v in settings.items() if k not in ("type", "place")}
        try:
            if name in RESERVED:
                text = f"{name!r} is the name of a built-in sandbox"
                raise ConfigError(text, cure="Choose another name")
            if kind not in factories:
                close = did_you_mean(kind, factories)
                raise ConfigError(
                    f"there is no sandbox type {kind!r} (of {name})",
                    key="type",
                    cure=f"Did you mean {close}?"
                    if close
                    else f"Known: {', '.join(sorted(factories))}",
                )
            made.named[name] = factories[kind](name, rest, Workshop(made, place.get("base")))
        except ConfigError as error:
            wrong.append((error, place))
    return made, wrong
