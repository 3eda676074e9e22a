"""Plug-ins: one entry-point group, and the typed desk where they hand in what they bring.

Installing a plug-in, or listing its file under `plugins:`, makes names available; nothing is active
until the configuration names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.core.canonical import digest_bytes
from toolcrib.core.policy import ToolPolicy
from toolcrib.core.spec import ToolTemplate
from toolcrib.core.units import did_you_mean
from toolcrib.errors import ConfigError, NameTaken, SpecError, ToolcribError
from toolcrib.host.kinds import BUILTIN
from toolcrib.host.modules import load_module

if TYPE_CHECKING:
    from toolcrib.core.protocols import Executor, Exporter, Extension, Provider, Sandbox, Store


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
        self._local: dict[str, str] = {}
        """Which of them stand beside the configuration, each with a digest of its file."""

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
                cure="Uninstall one of them, or take it out of plugins:",
            )
        table[name] = thing
        self._owners[kind, name] = self.current

    def _tables(self) -> dict[str, dict[str, Any]]:
        return {
            "executor": self.executors,
            "provider": self.providers,
            "sandbox": self.sandboxes,
            "policy": self.policies,
            "template": self.templates,
            "extension": self.extensions,
            "exporter": self.exporters,
            "store": self.stores,
        }

    def _take_over(self, other: Registrar, wanted: Callable[[str], bool]) -> None:
        """What the wanted owners brought to another desk."""
        tables, there = self._tables(), other._tables()
        for (kind, name), owner in other._owners.items():
            if wanted(owner):
                self.current = owner
                self._put(kind, tables[kind], name, there[kind][name])
        self.current = "toolcrib"

    def renew(
        self, items: Sequence[Mapping[str, Any]]
    ) -> tuple[Registrar, list[tuple[ConfigError, Mapping[str, Any]]]]:
        """A new desk with these local plug-ins in place of the present ones, and what is wrong with
        which. One whose file is as it was is not run again: what it brought stays in use."""
        desk = Registrar()
        desk.complete = self.complete
        desk._take_over(self, lambda owner: owner not in self._local)
        wrong: list[tuple[ConfigError, Mapping[str, Any]]] = []
        for item in items:
            owner = local_owner(item)
            try:
                mark = desk._local[owner] = _digest(item)
                if self._local.get(owner) == mark:
                    desk._take_over(self, owner.__eq__)
                else:
                    desk._ask(item, owner)
            except ConfigError as error:
                wrong.append((error, item))
        return desk, wrong

    def _ask(self, item: Mapping[str, Any], owner: str) -> None:
        """Have a local plug-in hand in what it brings."""
        module = load_module(str(item["module"]), item.get("base"))
        function: Any = getattr(module, str(item["function"]), None)
        if not callable(function):
            close = did_you_mean(str(item["function"]), vars(module))
            raise SpecError(
                f"the plug-in {item['name']} has no function {item['function']!r}",
                cure=f"Did you mean {close}?"
                if close
                else "Write one that takes a Registrar, or name it behind a colon",
            )
        self.current = owner
        try:
            function(self)
        except ConfigError:
            raise
        except Exception as error:
            raise SpecError(
                f"the plug-in {item['name']} failed: {type(error).__name__}: {error}",
                cure="Mend it, or take it out of plugins:",
            ) from error
        finally:
            self.current = "toolcrib"

    def offers(self, owner: str) -> list[str]:
        """What one plug-in brought, as `kind name`."""
        return sorted(
            f"{kind} {name}" for (kind, name), who in self._owners.items() if who == owner
        )


class Plugin(msgspec.Struct, frozen=True):
    """One plug-in, installed or beside the configuration."""

    name: str
    package: str
    version: str
    offers: list[str]
    problem: str | None
    source: str | None = None
    """Where a configuration names it, if that is how it came here."""


def local_owner(item: Mapping[str, Any]) -> str:
    """Who brings what a local plug-in brings."""
    return f"{item['module']}:{item['function']}"


def _digest(item: Mapping[str, Any]) -> str:
    path = Path(str(item["module"]))
    return digest_bytes(path.read_bytes()) if path.suffix == ".py" and path.is_file() else ""


def find_plugins(items: Sequence[Mapping[str, Any]]) -> list[Plugin]:
    """Every plug-in there is: those that a configuration lists, and those that are installed."""
    desk, wrong = Registrar().renew(items)
    found: list[Plugin] = []
    for item in items:
        problem = next((str(error) for error, where in wrong if where is item), None)
        offers = desk.offers(local_owner(item))
        found.append(Plugin(str(item["name"]), "", "", offers, problem, item.get("source")))
    return [*found, *load_plugins(desk)]


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
