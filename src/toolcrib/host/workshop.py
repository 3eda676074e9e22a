"""What the host lends to whoever builds a tool, and what it noted down about that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.core.units import did_you_mean
from toolcrib.errors import ConfigError
from toolcrib.host.own_files import STATE, OwnFiles
from toolcrib.host.roots import Roots

if TYPE_CHECKING:
    from toolcrib.core.protocols import Sandbox

PLAIN = "subprocess"
"""The name under which the sandbox that isolates nothing can always be had."""

STRICT = "strict"
"""The name under which the built-in bubblewrap sandbox can always be had."""

RESERVED = (PLAIN, STRICT)

Factories = Mapping[str, Callable[..., Any]]
Own = OwnFiles | None
"""Says what is the host's own; asked each time, because a host may learn of more."""


class Sandboxes:
    """The sandboxes of one configuration, by name. Building one starts nothing."""

    def __init__(self, named: Mapping[str, Sandbox] | None = None) -> None:
        self.named: dict[str, Sandbox] = dict(named or {})
        self.roots = Roots()
        """Where the paths of this configuration's policies lead."""

    def get(self, name: str | None, workshop: Workshop, *, folder: bool = True) -> Sandbox:
        """The sandbox of a name. The built-in ones depend on the folder they are asked for; the
        strict one shows it, unless told not to."""
        if name is None or name == STRICT:
            from toolcrib.sandbox.build import strict

            return strict(workshop, folder=folder)
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

    def __init__(
        self,
        sandboxes: Sandboxes,
        folder: str | Path | None = None,
        own: Own = None,
        *,
        keep_secret: Callable[[str], None] | None = None,
    ) -> None:
        self._sandboxes = sandboxes
        self._own = own or OwnFiles()
        self._keep_secret = keep_secret
        self._folder = None if folder is None else Path(folder)
        self.taken: dict[str, Sandbox] = {}

    @property
    def folder(self) -> Path:
        """Where relative paths begin."""
        return (self._folder or Path()).absolute()

    @property
    def hidden(self) -> tuple[Path, ...]:
        """What nothing in a sandbox may see. If there is a folder of the command line here it is
        among them, though this host may keep its own things elsewhere."""
        here = self.folder / STATE
        return (here, *self._own()) if here.exists() else self._own()

    @property
    def guarded(self) -> tuple[Path, ...]:
        """What may be read and never changed."""
        return self._own.guarded()

    def sandbox(self, name: str | None = None, *, folder: bool = True) -> Sandbox:
        """A sandbox by name; without one, the strict built-in one."""
        found = self._sandboxes.get(name, self, folder=folder)
        self.taken[found.name] = found
        return found

    def file(self, path: str) -> Path:
        """A path, made absolute."""
        return self.folder / path

    def root(self, path: str | Path) -> Path:
        """Where a path of a policy led when it was first asked for."""
        return self._sandboxes.roots(self.folder / path)

    def keep_secret(self, text: str) -> None:
        """Hide a text wherever it appears from now on."""
        if self._keep_secret is not None:
            self._keep_secret(text)


def build_sandboxes(
    given: Mapping[str, Mapping[str, Any]], factories: Factories, own: Own = None
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
            lent = Workshop(made, place.get("base"), own)
            made.named[name] = _sandbox(factories[kind], name, rest, lent)
        except ConfigError as error:
            wrong.append((error, place))
    return made, wrong


def _sandbox(
    factory: Callable[..., Any], name: str, settings: Mapping[str, Any], workshop: Workshop
) -> Sandbox:
    """What a factory builds; what it does wrong is told before a command needs the sandbox."""
    try:
        made = factory(name, settings, workshop)
    except ConfigError:
        raise
    except Exception as error:
        # Not in its words: they may quote a secret.
        text = f"the sandbox {name} could not be built: {type(error).__name__}"
        raise ConfigError(text, cure="Compare its settings with its documentation") from error
    if not all(hasattr(made, part) for part in ("name", "type", "probe", "run", "spawn")):
        text = f"the sandbox {name}: its type built a {type(made).__name__}, which is no sandbox"
        raise ConfigError(text, cure="A sandbox has name, type, isolates, probe, run and spawn")
    return made
