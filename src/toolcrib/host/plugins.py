"""Plug-ins: one entry-point group, and the typed desk where they hand in what they bring.

Installing a plug-in makes names available; nothing is active until the configuration names it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from toolcrib.core.policy import ToolPolicy
from toolcrib.core.protocols import Executor, Exporter, Extension, Provider, Sandbox, Store
from toolcrib.core.spec import ToolTemplate
from toolcrib.errors import NameTaken, ToolcribError
from toolcrib.host.kinds import BUILTIN

GROUP = "toolcrib.plugins"


class Registrar:
    """Takes what plug-ins bring. Each name can be handed in once."""

    def __init__(self) -> None:
        self.executors: dict[str, Executor] = {}
        self.providers: dict[str, Callable[..., Provider]] = {}
        self.sandboxes: dict[str, Callable[..., Sandbox]] = {}
        self.policies: dict[str, type[ToolPolicy]] = {}
        self.templates: dict[str, Callable[[], ToolTemplate]] = {}
        self.extensions: dict[str, Callable[..., Extension]] = {}
        self.exporters: dict[str, Callable[..., Exporter]] = {}
        self.stores: dict[str, Callable[[str], Store]] = {}
        self._owners: dict[tuple[str, str], str] = {}
        self.current = "toolcrib"
        """Who is handing in now."""
        self.complete = False
        """Whether the installed plug-ins have been asked."""

    def executor(self, executor: Executor) -> None:
        """Something that runs calls of one kind."""
        self._put("executor", self.executors, executor.kind, executor)

    def provider(self, type: str, factory: Callable[..., Provider]) -> None:
        """A live source of tools; `factory(name, settings, workshop)` builds one."""
        self._put("provider", self.providers, type, factory)

    def sandbox(self, type: str, factory: Callable[..., Sandbox]) -> None:
        """A place where commands run; `factory(name, settings, workshop)` builds one."""
        self._put("sandbox", self.sandboxes, type, factory)

    def policy(self, name: str, policy: type[ToolPolicy]) -> None:
        """A policy that configurations can `use` by name."""
        self._put("policy", self.policies, name, policy)

    def template(self, template: ToolTemplate) -> None:
        """A broad tool that a configuration narrows with a policy."""
        self._put("template", self.templates, template.name, lambda: template)

    def later(self, name: str, find: Callable[[], ToolTemplate]) -> None:
        """A template that is costly to import: `find` is called when a configuration names it."""
        self._put("template", self.templates, name, find)

    def extension(self, name: str, factory: Callable[..., Extension]) -> None:
        """Something that wraps executions; `factory(**settings)` builds it."""
        self._put("extension", self.extensions, name, factory)

    def exporter(self, name: str, factory: Callable[..., Exporter]) -> None:
        """Something that carries events elsewhere; `factory(**settings)` builds it."""
        self._put("exporter", self.exporters, name, factory)

    def store(self, scheme: str, factory: Callable[[str], Store]) -> None:
        """A place to keep things, named `scheme:rest` in a configuration."""
        self._put("store", self.stores, scheme, factory)

    def has(self, kind: str, name: str) -> bool:
        """Whether somebody brought it. Python functions need nobody."""
        built_in = kind == "executor" and (name == "python" or name in BUILTIN)
        return built_in or (kind, name) in self._owners

    def _put(self, kind: str, table: dict[str, Any], name: str, thing: Any) -> None:
        if name in table:
            raise NameTaken(
                f"two plug-ins bring the {kind} {name!r}: "
                f"{self._owners[kind, name]} and {self.current}",
                cure="Uninstall one of them",
            )
        table[name] = thing
        self._owners[kind, name] = self.current

    def offers(self, owner: str) -> list[str]:
        """What one plug-in brought, as `kind name`."""
        return sorted(
            f"{kind} {name}" for (kind, name), who in self._owners.items() if who == owner
        )


class Plugin(NamedTuple):
    """One installed plug-in."""

    name: str
    package: str
    version: str
    offers: list[str]
    problem: str | None


def load_plugins(registrar: Registrar) -> list[Plugin]:
    """Let every installed plug-in hand in what it brings. One that fails hides no other."""
    from importlib.metadata import entry_points

    found: list[Plugin] = []
    registrar.complete = True
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        package = point.dist.name if point.dist is not None else ""
        version = point.dist.version if point.dist is not None else ""
        registrar.current = point.name
        problem: str | None = None
        try:
            point.load()(registrar)
        except ToolcribError as error:
            problem = str(error)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        finally:
            registrar.current = "toolcrib"
        found.append(Plugin(point.name, package, version, registrar.offers(point.name), problem))
    return found
